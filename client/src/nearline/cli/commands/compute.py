"""Where steps run."""

import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from nearline.cli import formats
from nearline.cli.asking import confirm, read_file
from nearline.cli.foreign_gpus import count_foreign
from nearline.cli.group import CommandGroup
from nearline.cli.options import Project, Yes
from nearline.cli.quantities import read_bytes, read_milli, read_setting
from nearline.cli.session import session_of
from nearline.errors import InvalidRequest, NotFound
from nearline.models import Node, Resource

Attached = Annotated[str, typer.Argument(metavar="RESOURCE", help="As `nearline compute list` shows it.")]
TemplateName = Annotated[str, typer.Argument(metavar="RESOURCE.NAME", help="As `nearline compute list` shows it.")]

_SIMULATED_NODE = {
    "cpu": "40",
    "memory": "512GiB",
    "gpus": "8",
    "gpu_model": "Tesla V100-SXM2-32GB",
    "gpu_memory": "32GiB",
}

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
    if resources and not session.out.is_quiet:
        session.out.line("")
        places = [
            (one.name, one.kind, one.state or "-", ", ".join(one.sites) or "-", notes[one.name]) for one in resources
        ]
        session.out.table(resources, ("RESOURCE", "KIND", "STATE", "CACHE SITES", ""), places, empty="")


def _note_on(resource: Resource) -> str:
    if resource.is_simulated:
        return "simulated"
    where = f"on {resource.host}" if resource.host else ""
    return ", ".join(note for note in (where, "unreachable" if resource.state == "unreachable" else "") if note)


@app.command("attach")
def attach_resource(  # noqa: PLR0917 (each is an option of the command line)
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What the cluster or host is to be called here.")],
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="A cluster: its kubeconfig, with everything inside.")
    ] = None,
    agent_image: Annotated[str, typer.Option("--agent-image", help="Image of Nearline, for the agents in pods.")] = "",
    context_name: Annotated[str, typer.Option("--context", help="Its context; else the current one.")] = "",
    namespace: Annotated[str, typer.Option("--namespace", help="Where the pods of jobs are to be.")] = "",
    image: Annotated[str, typer.Option("--image", help="Image of jobs that name none.")] = "",
    storage_class: Annotated[str, typer.Option("--storage-class", help="For cached commits and checkpoints.")] = "",
    cache_size: Annotated[str, typer.Option("--cache-size", help="Of all volumes together, as 2TB.")] = "",
    ssh: Annotated[str, typer.Option("--ssh", metavar="USER@HOST[:PORT]", help="A Linux host, and as whom.")] = "",
    cache_folder: Annotated[str, typer.Option("--cache-folder", help="On the host, for cached commits.")] = "",
    docker: Annotated[
        str, typer.Option("--docker", metavar="URL", help="A Docker daemon: unix:///var/run/docker.sock, or https.")
    ] = "",
    certificate: Annotated[Path | None, typer.Option("--cert", help="The certificate that the daemon lets in.")] = None,
    authority: Annotated[Path | None, typer.Option("--ca", help="The certificate that signed the daemon's.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="The private key that host or daemon let in.")] = None,
    known_host: Annotated[
        Path | None, typer.Option("--known-host", help="A file with the host's line of known_hosts. Else it is asked.")
    ] = None,
    no_probe: Annotated[bool, typer.Option("--no-probe", help="Do not try the storage class.")] = False,  # noqa: FBT002
    simulated: Annotated[
        int | None, typer.Option("--simulated", metavar="NODES", min=1, help="Nodes of 8 GPUs that do not exist.")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another setting.")] = None,
) -> None:
    """Attach a cluster, a Linux host, Docker, or simulated nodes."""
    if [kubeconfig is not None, bool(ssh), bool(docker), simulated is not None].count(True) != 1:
        raise InvalidRequest(
            "One of a cluster, a host, a daemon and simulated nodes is attached at a time.",
            hint="Give --kubeconfig FILE, --ssh USER@HOST --key FILE, --docker URL or --simulated NODES.",
        )
    given = dict(map(read_setting, settings or []))
    if simulated is not None:
        _attach(context, name, "simulated", {**_SIMULATED_NODE, **given, "nodes": str(simulated)})
        return
    if kubeconfig is not None:
        given |= {"kubeconfig": read_file(kubeconfig), "context": context_name, "namespace": namespace}
        given |= {"agent_image": agent_image, "default_image": image}
        given |= {"storage_class": storage_class, "cache_bytes": cache_size}
        given |= {"skip_storage_probe": "true" if no_probe else ""}
        _attach(context, name, "kubernetes", given)
        return
    if docker:
        files = {"docker_ca": authority, "docker_certificate": certificate, "docker_key": key}
        given |= {name: read_file(path) for name, path in files.items() if path is not None}
        _attach(context, name, "docker", {**given, "docker_url": docker, "docker_image": image})
        return
    if key is None:
        raise InvalidRequest("A host lets nobody in without a key.", hint="Give --key FILE.")
    given |= {"address": ssh, "private_key": read_file(key), "cache_folder": cache_folder}
    if known_host is not None:
        given["known_host"] = read_file(known_host)
    try:
        _attach(context, name, "ssh", given)
    except InvalidRequest as error:
        line = error.details.get("known_host")
        if line is None or not sys.stdin.isatty():
            raise
        confirm(f"{error.message}\nIs this the key of {ssh}?", yes=False)
        _attach(context, name, "ssh", {**given, "known_host": str(line)})


def _attach(context: typer.Context, name: str, kind: str, settings: Mapping[str, str]) -> None:
    session = session_of(context)
    given = {key: value for key, value in settings.items() if value}
    resource = session.client().compute.attach(name, kind, settings=given)
    if session.out.is_json:
        session.out.json(resource.to_json())
        return
    if (probe := resource.storage_probe) is not None:
        refusals = [step["refusal"] for step in probe["steps"] if step.get("refusal")]
        worked = [step for step in probe["steps"] if not step.get("refusal")]
        steps = ", ".join(f"{step['name']} in {step['seconds']:g} s" for step in worked)
        session.out.done(f"{probe['storage_class']} works: a claim of 1 GiB was {steps}.")
        for refusal in refusals:
            session.out.warn(f"Its claims cannot be cloned: {refusal}")
    session.out.done(
        f"{resource.name} answers and is attached. Jobs that name their size can run there; a template gives a size a "
        "name."
    )
    for warning in resource.warnings:
        session.out.warn(warning)


@app.command("show")
def show_resource(context: typer.Context, resource: Attached) -> None:
    """Show a resource, and the storage and quotas of a cluster.

    What keeps jobs from some of what it has is said as warnings.
    """
    session = session_of(context)
    client = session.client()
    record = client.compute.get(resource)
    nodes = list(client.compute.list_nodes(resource=resource))
    cluster = record.cluster or {}
    ready = sum(node.is_ready for node in nodes)
    fields = [("Resource", record.name), ("Kind", record.kind), ("State", record.state)]
    fields.append(("Nodes", f"{len(nodes)}, {ready} of them ready: nearline compute nodes {record.name}"))
    if record.cluster is not None:
        fields += [("Kubernetes", cluster["version"]), ("Trident", cluster["trident_version"] or "none, or not known")]
    if record.sites:
        fields.append(("Reads", ", ".join(record.sites)))
    session.out.record(record, [*fields, *_rows_of(cluster)])
    for warning in record.warnings:
        session.out.warn(warning)


@app.command("events")
def list_events(context: typer.Context, resource: Attached) -> None:
    """List what happened to a resource lately.

    It was lost, came back, was drained, or jobs were evicted there. Site admins also see what a cluster warns of.
    """
    session = session_of(context)
    events = list(session.client().compute.list_events(resource))
    rows = [
        (
            formats.ago(datetime.fromisoformat(each.at)),
            each.by or each.source,
            "warning: " * each.is_warning + each.text,
        )
        for each in events
    ]
    session.out.table(events, ("WHEN", "FROM", "WHAT"), rows, empty="Nothing is known.", ends_in_prose=True)


def _rows_of(cluster: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the storage and the quotas of a cluster, a line each."""
    for each in cluster.get("storage", ()):
        default = ", the default" * each["is_default"]
        offers = f"snapshots: {each['snapshots']}, clones: {each['clones']}"
        yield f"Class {each['name']}", f"{each['provisioner']}{default}, mounted by {each['access']}, {offers}"
    for each in cluster.get("backends", ()):
        yield f"Backend {each['name']}", f"{each['driver']}, {each['state']} {each['reason']}".strip()
    for each in cluster.get("quotas", ()):
        yield f"Quota {each['quota']}", f"{each['resource']}: {each['used']} of {each['hard']}"


@app.command("nodes")
def list_nodes(
    context: typer.Context,
    resource: Annotated[str | None, typer.Argument(help="A compute resource; else all.")] = None,
) -> None:
    """List the nodes, and what is held on them."""
    session = session_of(context)
    client = session.client()
    nodes = sorted(client.compute.list_nodes(resource=resource), key=lambda node: (node.resource or "", node.name))
    foreign = count_foreign(client, nodes)
    rows = [
        (
            node.name,
            node.resource,
            node.pool,
            "drained" if node.is_drained else "ready" if node.is_ready else "not ready",
            f"{node.cpu_held_millicores / 1000:g} of {formats.cpus(node.cpu_millicores)}",
            f"{formats.memory(node.memory_held_bytes)} of {formats.memory(node.memory_bytes)}",
            _held_gpus(node, foreign.get(node.id, 0)),
            "simulated" if node.is_simulated else "",
        )
        for node in nodes
    ]
    columns = ("NODE", "RESOURCE", "POOL", "STATE", "CPU HELD", "MEMORY HELD", "GPUS HELD", "")
    session.out.table(nodes, columns, rows, empty="There is no node.")


def _held_gpus(node: Node, foreign: int) -> str:
    """Say how many GPUs of a node are held. What it lists is without those that pods of others hold."""
    held, others = (
        sum(gpu["held_milli"] for gpu in node.gpus) / 1000 + foreign,
        f", {foreign} by others" * bool(foreign),
    )
    return f"{held:g} of {len(node.gpus) + foreign}{others}"


@app.command("drain")
def drain_resource(
    context: typer.Context,
    resource: Attached,
    node: Annotated[str | None, typer.Option("--node", help="This node alone.")] = None,
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Let them take new jobs again.")] = False,
) -> None:
    """Let the nodes of a resource take no new jobs.

    Running jobs continue. For site admins.
    """
    session = session_of(context)
    compute = session.client().compute
    if node is None:
        compute.drain(resource, is_drained=not undo)
    else:
        node_record = next((each for each in compute.list_nodes(resource=resource) if each.name == node), None)
        if node_record is None:
            raise NotFound(f"{resource} has no node called '{node}'.")
        compute.drain_node(node_record.id, is_drained=not undo)
    done = {"resource": resource, "node": node, "is_drained": not undo}
    words = "takes new jobs again" if undo else "takes no new jobs; running jobs continue"
    session.out.done(f"{node or resource} {words}.", as_json=done)


@app.command("set")
def change_settings(
    context: typer.Context,
    resource: Attached,
    agent_image: Annotated[str, typer.Option("--agent-image", help="Image of Nearline, for the agents in pods.")] = "",
    image: Annotated[str, typer.Option("--image", help="Image of jobs that name none.")] = "",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another setting: job_claims=scratch.")
    ] = None,
) -> None:
    """Change settings of a cluster or host, once it takes them.

    They count for jobs that start from then on; those that run keep theirs. For site admins.
    """
    session = session_of(context)
    named = {"agent_image": agent_image, "default_image": image}
    given = {**{name: value for name, value in named.items() if value}, **dict(map(read_setting, settings or []))}
    if not given:
        raise InvalidRequest("Nothing is to be changed.", hint="Give --agent-image IMAGE, --image IMAGE or --set.")
    changed = session.client().compute.change_settings(resource, given)
    session.out.record(changed, [("Resource", changed.name), ("State", changed.state)])
    session.out.done(f"{resource} is changed. Jobs that run keep what they were started with.")


@app.command("rotate")
def replace_credentials(
    context: typer.Context,
    resource: Attached,
    kubeconfig: Annotated[Path | None, typer.Option("--kubeconfig", help="Of a cluster.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="The private key of a host or daemon.")] = None,
    certificate: Annotated[Path | None, typer.Option("--cert", help="The certificate of a daemon's key.")] = None,
) -> None:
    """Replace the credentials of a resource once it answers with them.

    Jobs that run go on. For site admins.
    """
    session = session_of(context)
    key_name = "private_key" if certificate is None else "docker_key"
    files = {"kubeconfig": kubeconfig, key_name: key, "docker_certificate": certificate}
    given = {name: read_file(path) for name, path in files.items() if path is not None}
    if not given:
        raise InvalidRequest(
            "No credentials are given.", hint="Give --kubeconfig FILE, --key FILE, or --key and --cert."
        )
    answered = session.client().compute.replace_credentials(resource, given)
    session.out.record(answered, [("Resource", answered.name), ("State", answered.state)])
    session.out.done(f"{resource} answers with the new credentials.")


@app.command("detach")
def detach_resource(context: typer.Context, resource: Attached, *, yes: Yes = False) -> None:
    """Take a resource away on which no job waits or runs.

    The history of its jobs stays. For site admins.
    """
    session = session_of(context)
    client = session.client()
    if not yes:
        templates = ", ".join(each.full_name for each in client.compute.list_templates() if each.resource == resource)
        lost = f", nor for its templates {templates}" if templates else ""
        question = (
            f"Detach {resource}? Jobs and flows can no longer ask for it{lost}. What is cached stays on its site until "
            "it is evicted. Attaching it again needs its credentials again."
        )
        confirm(question, yes=yes)
    client.compute.detach(resource)
    session.out.done(f"{resource} is detached.", as_json={"detached": resource})


@app.command("give-up")
def give_up_resource(
    context: typer.Context,
    resource: Annotated[str, typer.Argument(metavar="RESOURCE", help="Also one that was detached.")],
    *,
    yes: Yes = False,
) -> None:
    """Give up a cluster or host that never comes back.

    What is lost is told first. Then its jobs are ended, it is detached, and its cache sites are removed. One that
    answers is not given up. For site admins.
    """
    session = session_of(context)
    client = session.client()
    effects = client.compute.foresee_loss(resource).effects or ("Nothing is lost.",)
    session.out.warn("\n".join([f"{resource} will be given up.", *(f"  {effect}" for effect in effects)]))
    confirm(f"Give up {resource}? It cannot be undone.", yes=yes)
    loss = client.compute.give_up(resource)
    session.out.done(f"{resource} is given up. What it still runs goes on unseen.", as_json=loss.to_json())


@app.command("set-template")
def change_template(  # noqa: PLR0917 (each is an option of the command line)
    context: typer.Context,
    name: TemplateName,
    cpu: Annotated[str | None, typer.Option("--cpu", help="CPU cores of a job.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", help="Its memory, as 16GiB.")] = None,
    gpus: Annotated[str | None, typer.Option("--gpus", help="Its GPUs; 0.5 is half of one.")] = None,
    price: Annotated[str | None, typer.Option("--price", help="Of an hour, or none.")] = None,
    pool: Annotated[
        str | None, typer.Option("--pool", help="In which pool of its resource its jobs are, or any.")
    ] = None,
) -> None:
    """Change a template. What is not named stays, and so do jobs that are there. For site admins."""
    session = session_of(context)
    changes: dict[str, object] = {}
    if cpu is not None:
        changes["cpu_millicores"] = read_milli(cpu)
    if memory is not None:
        changes["memory_bytes"] = read_bytes(memory)
    if gpus is not None:
        changes["gpu_milli"] = read_milli(gpus)
    if price is not None:
        changes["price_per_hour"] = None if price == "none" else price
    if pool is not None:
        changes["pool"] = "" if pool == "any" else pool
    if not changes:
        raise InvalidRequest("Nothing is to be changed.", hint="Give --cpu, --memory, --gpus, --price or --pool.")
    template = session.client().compute.change_template(name, **changes)
    fields = [
        ("Template", template.full_name),
        ("CPU", formats.cpus(template.cpu_millicores)),
        ("Memory", formats.memory(template.memory_bytes)),
        ("GPUs", formats.gpus(template.gpu_milli)),
        ("Price", template.raw.get("price_per_hour")),
        ("Pool", template.pool),
    ]
    session.out.record(template, fields)


@app.command("delete-template")
def delete_template(context: typer.Context, name: TemplateName, *, yes: Yes = False) -> None:
    """Delete a template; jobs that are there keep their shape. For site admins."""
    session = session_of(context)
    client = session.client()
    confirm(f"Delete the template {name}?", yes=yes)
    client.compute.delete_template(name)
    session.out.done(f"{name} is deleted.", as_json={"deleted": name})


@app.command("add-template")
def add_template(  # noqa: PLR0917 (each is an option of the command line)
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="RESOURCE.NAME", help="The resource, and a name for the template.")],
    cpu: Annotated[str, typer.Option("--cpu", help="CPU cores of a job.")],
    memory: Annotated[str, typer.Option("--memory", help="Its memory, as 16GiB.")],
    gpus: Annotated[str, typer.Option("--gpus", help="Its GPUs; 0.5 is half of one.")] = "0",
    node_selector: Annotated[
        list[str] | None, typer.Option("--node-selector", metavar="KEY=VALUE", help="A label that its node must have.")
    ] = None,
    tolerations: Annotated[
        list[str] | None, typer.Option("--toleration", metavar="KEY[=VALUE][:EFFECT]", help="A taint it tolerates.")
    ] = None,
    priority_class: Annotated[str, typer.Option("--priority-class", help="Of its pods on the cluster.")] = "",
    image_pull_secrets: Annotated[
        list[str] | None, typer.Option("--image-pull-secret", help="A Secret by which images are pulled.")
    ] = None,
) -> None:
    """Add a template: a named size of jobs, and options of their pods."""
    session = session_of(context)
    template = session.client().compute.add_template(
        name,
        cpu_millicores=read_milli(cpu),
        memory_bytes=read_bytes(memory),
        gpu_milli=read_milli(gpus),
        pod={
            "node_selector": dict(map(read_setting, node_selector or [])),
            "tolerations": tolerations or [],
            "priority_class": priority_class,
            "image_pull_secrets": image_pull_secrets or [],
        },
    )
    session.out.done(f"Jobs can ask for {template.full_name} from now on.", as_json=template)


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
        records = [client.compute.set_sites(resource, sites)]
    else:
        records = [item for item in client.compute.list() if item.name == resource]
        if not records:
            raise NotFound(f"There is no compute resource called '{resource}'.")
    rows = [(str(number), site) for number, site in enumerate(records[0].sites, start=1)]
    session.out.table(records, ("NEAREST FIRST", "SITE"), rows, empty=f"Jobs on {resource} read no cache site.")
