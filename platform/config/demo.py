"""The demo of the first start: the main job of the product, done once in the terminal, by the product's own CLI.

Every step can be repeated, so a demo that was interrupted runs again at the next start.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import structlog
from django.conf import settings

from core import clock
from core.units import format_duration

log = structlog.get_logger(__name__)

PROJECT, DATASET = "demo", "digits"
_EXAMPLE = Path(settings.BASE_DIR) / "examples" / "digits"


class DemoFailed(Exception):
    """A step of the demo failed; the text is a sentence that says which and why."""


class Demo:
    """The demo of one start. Nothing happens if it has run before, or with SAMPLE=0."""

    def __init__(self, out: TextIO, stop: threading.Event, log_file: Path) -> None:
        self._out = out
        self._stop = stop
        self._log_file = log_file
        self._folder = settings.NEARLINE.home / "sample" / DATASET
        # The name is that of the first release.
        self._done = settings.NEARLINE.home / "sample.told"
        self._pictures: subprocess.Popen[str] | None = None

    @property
    def is_due(self) -> bool:
        """Whether `run` has something to do."""
        return self._pictures is not None

    def begin(self) -> None:
        """Write the pictures, which needs nothing of the product, while it starts."""
        if settings.NEARLINE.sample and not self._done.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, str(_EXAMPLE / "write_dataset.py"), str(self._folder)]
            self._pictures = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )

    def run(self) -> None:
        """Do the rest, once the product serves."""
        if self._pictures is None:
            return
        try:
            _DemoRun(self._out, self._stop, self._folder).run(self._pictures)
        except DemoFailed as error:
            self._report_failure(str(error))
        except Exception:  # a thread ends here; the log holds the error
            log.exception("demo.failed")
            self._report_failure("Internal error.")
        else:
            self._done.touch()
        self._out.flush()

    def _report_failure(self, reason: str) -> None:
        print(f"\nThe demo did not finish. {reason} The log is in {self._log_file}", file=self._out)
        print("Nearline goes on serving; the next start tries again.", file=self._out)


class _DemoRun:
    def __init__(self, out: TextIO, stop: threading.Event, folder: Path) -> None:
        self._out = out
        self._stop = stop
        self._folder = folder
        self._reference = f"{PROJECT}/{DATASET}@main"

    def run(self, pictures: subprocess.Popen[str]) -> None:
        started = clock.monotonic()
        self._say(
            "\nA first look: 1,797 handwritten digits become a dataset, are cached here, and train a classifier.\n"
        )
        _, trouble = pictures.communicate()
        if pictures.returncode != 0:
            log.error("demo.no_pictures", status=pictures.returncode, output=trouble)
            raise DemoFailed("The pictures could not be written.")
        self._say(f"  {'1,797 PNG files in ten class folders':<46}  written while Nearline started")
        try:
            self._cli("create project demo", "project", "create", PROJECT)
        except DemoFailed:
            if not self._has_project():
                raise
        if not (self._folder / ".nearline").exists():
            self._cli("nearline data init", "data", "init", "--project", PROJECT, "--title", DATASET)
        self._cli("nearline data sync", "data", "sync", "--message", "The digits that scikit-learn ships")
        self._cli(f"nearline data cache {self._reference}", "data", "cache", self._reference, "--wait")
        run = self._json(
            "nearline flow run flow.yaml", "flow", "run", str(_EXAMPLE / "flow.yaml"), "--project", PROJECT, "--wait"
        )
        self._report(run, clock.monotonic() - started)

    def _has_project(self) -> bool:
        done = self._run(["nearline", "project", "list", "--json"])
        return any(project["name"] == PROJECT for project in json.loads(done.stdout)["items"])

    def _report(self, run: dict[str, object], seconds: float) -> None:
        url = settings.NEARLINE.url
        steps = run["steps"]
        assert isinstance(steps, list)  # noqa: S101 (our own CLI's answer)
        for step in steps:
            took = format_duration(step["seconds"]) if step.get("seconds") is not None else ""
            self._say(f"      {step['label']:<28} {step['state']:<10} {took:>8}  {step.get('template') or ''}")
        experiment = steps[-1].get("experiment_id")
        shown = json.loads(self._run(["nearline", "experiment", "show", str(experiment), "--json"]).stdout)
        accuracy = shown["metrics"].get("accuracy")
        self._say(f"\n  accuracy    {accuracy:.4f} on digits that the model never saw")
        self._say(f"  dataset     {url}/datasets/{PROJECT}/{DATASET}/")
        self._say(f"  run         {url}/runs/{run['id']}/")
        self._say(f"  experiment  {url}/experiments/{experiment}/")
        self._say(f"\nDemo finished in {format_duration(seconds)}.")

    def _cli(self, label: str, *arguments: str) -> None:
        self._step(label, ["nearline", *arguments, "--quiet"])

    def _json(self, label: str, *arguments: str) -> dict[str, object]:
        answer: dict[str, object] = json.loads(self._step(label, ["nearline", *arguments, "--json"]))
        return answer

    def _step(self, label: str, command: Sequence[str]) -> str:
        started = clock.monotonic()
        done = self._run(command)
        self._say(f"  {label:<46} {format_duration(clock.monotonic() - started):>8}")
        return done.stdout

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if self._stop.is_set():
            raise DemoFailed("It was stopped.")
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "NEARLINE_URL": settings.NEARLINE.url,
            "NEARLINE_TOKEN": (settings.NEARLINE.home / "admin.token").read_text(),
        }
        folder = self._folder if self._folder.exists() else settings.NEARLINE.home
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            log.error("demo.command_failed", command=command, status=done.returncode, output=done.stderr)
            raise DemoFailed(f"`{' '.join(command[:3])}` failed: {_reason(done.stderr)}")
        return done

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def _reason(output: str) -> str:
    """Return what a command said about its failure, in one line; with `--json` it says so in JSON."""
    try:
        return str(json.loads(output)["title"])
    except (ValueError, KeyError, TypeError):
        lines = output.strip().splitlines()
        return lines[0].removeprefix("✗ ") if lines else "it said nothing."
