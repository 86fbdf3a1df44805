"""Where steps run."""

import typer

from nearline.cli import formats
from nearline.cli.group import CommandGroup
from nearline.cli.options import Project
from nearline.cli.session import session_of

app = CommandGroup(help="Where steps run: resources, nodes, templates.")


@app.callback()
def compute() -> None:
    """Where steps run: resources, nodes, templates."""


@app.command("list")
def list_compute(context: typer.Context, project: Project = None) -> None:
    """List the compute resources and the templates on them."""
    session = session_of(context)
    client = session.client()
    resources = list(client.compute.list())
    templates = list(client.compute.list_templates(project=project))
    if session.out.is_json:
        session.out.json(
            {"items": [item.to_json() for item in resources], "templates": [item.to_json() for item in templates]}
        )
        return
    simulated = {resource.name for resource in resources if resource.is_simulated}
    rows = [
        (
            template.full_name,
            formats.cpus(template.cpu_millicores),
            formats.memory(template.memory_bytes),
            formats.gpus(template.gpu_milli),
            "simulated" if template.resource in simulated else "",
        )
        for template in templates
    ]
    empty = "There is no compute template that you may use."
    session.out.table(templates, ("TEMPLATE", "CPU", "MEMORY", "GPU", ""), rows, empty=empty)
