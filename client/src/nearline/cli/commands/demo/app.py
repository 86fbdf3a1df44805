"""Walks through what the scheduler does, on simulated GPUs."""

from nearline.cli.commands.demo import tr4858, wait
from nearline.cli.group import CommandGroup

app = CommandGroup(help="Walks through what the scheduler does, on simulated GPUs: tr4858, wait.")
app.command(tr4858.NAME)(tr4858.walk)
app.command(wait.NAME)(wait.walk)
