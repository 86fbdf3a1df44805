"""Where steps run."""

from pathlib import Path
from typing import Annotated

import typer

from nearline.cli import formats
from nearline.cli.group import CommandGroup
from nearline.cli.options import Project
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest, NotFound
from nearline.models import Resource

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
    notes = {resource.name: _note_on(resource) for resource in resources}
    rows = [
        (
            template.full_name,
            formats.cpus(template.cpu_millicores),
            formats.memory(template.memory_bytes),
            formats.gpus(template.gpu_milli),
            notes.get(template.resource or "", ""),
        )
        for template in templates
    ]
    empty = "There is no compute template that you may use."
    session.out.table(templates, ("TEMPLATE", "CPU", "MEMORY", "GPU", ""), rows, empty=empty)


def _note_on(resource: Resource) -> str:
    if resource.is_simulated:
        return "simulated"
    where = f"on {resource.host}" if resource.host else ""
    return ", ".join(note for note in (where, "unreachable" if resource.state == "unreachable" else "") if note)


@app.command("attach")
def attach_cluster(  # noqa: PLR0917 (each is an option of the command line)
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What the cluster is to be called here.")],
    kubeconfig: Annotated[Path, typer.Option("--kubeconfig", help="A kubeconfig with everything inside it.")],
    agent_image: Annotated[str, typer.Option("--agent-image", help="Image of Nearline, for the agents in pods.")],
    context_name: Annotated[str, typer.Option("--context", help="Its context; else the current one.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", help="Where the pods of jobs are to be.")] = "",
    image: Annotated[str, typer.Option("--image", help="Image of jobs that name none.")] = "",
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another setting.")] = None,
) -> None:
    """Attach a Kubernetes cluster that answers and lets jobs run."""
    session = session_of(context)
    given = {"context": context_name, "namespace": namespace, "agent_image": agent_image, "default_image": image}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals:
            raise InvalidRequest(f"'{setting}' is no setting.", hint="Write it like gpu_resource=amd.com/gpu.")
        given[key] = value
    try:
        given["kubeconfig"] = kubeconfig.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"'{kubeconfig}' cannot be read: {error}.") from error
    resource = session.client().compute.attach(
        name, "kubernetes", settings={key: value for key, value in given.items() if value}
    )
    if session.out.is_json:
        session.out.json(resource.to_json())
        return
    session.out.done(f"{resource.name} answers and is attached. Give it a template to send jobs there.")


@app.command("sites")
def show_sites(
    context: typer.Context,
    resource: Annotated[str, typer.Argument(help="A compute resource.")],
    sites: Annotated[list[str] | None, typer.Argument(help="Cache sites to read, the nearest first.")] = None,
) -> None:
    """Show or set the cache sites that jobs of a resource read."""
    session = session_of(context)
    client = session.client()
    if sites:
        found = [client.compute.set_sites(resource, sites)]
    else:
        found = [item for item in client.compute.list() if item.name == resource]
        if not found:
            raise NotFound(f"There is no compute resource called '{resource}'.")
    rows = [(str(number), site) for number, site in enumerate(found[0].sites, start=1)]
    session.out.table(found, ("NEAREST FIRST", "SITE"), rows, empty=f"Jobs on {resource} read no cache site.")
