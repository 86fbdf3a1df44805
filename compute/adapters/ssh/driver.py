"""Runs jobs as processes of a host that is reached by SSH. What is known of a job is on the host, so anybody can adopt.

Our program there (see host) does the work of the local driver. Code and inputs come from the store and the output goes
there, by the platform's address and a token for that run of the job alone.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from compute.adapters.local import questions
from compute.adapters.ssh import wire
from compute.adapters.ssh.checkpoint_files import HostFolderReader
from compute.adapters.ssh.connection import HostConnection
from compute.adapters.ssh.program import build_packages
from compute.adapters.stored_outputs import SentOutput, StoredOutputs
from compute.engine.job_spec import HostFolder, JobSpec, Mount, RemoteFolder, SourceKind, describe_kinds
from compute.engine.ports import JobReport, Launch, LogChunk, NodeFacts, OutputReader, UsageSample
from compute.engine.volumes import describe_fault, read_volumes
from compute.errors import ResourceUnreachable, StartRefused, VolumeRefused
from core.remote_hosts import HostUnreachable

MOUNTABLE = frozenset({SourceKind.REMOTE_FOLDER, SourceKind.TREE})
_WITH_PLATFORM = {"ensure_copy", "verify_copy", "remove_copy", "serve_copy"}
_WITH_PACKAGES = {"check_copies", *_WITH_PLATFORM}
_NEWS_S = 10.0
# A folder may hold very many files.
_TIMEOUT_S = 60.0


class SshDriver:
    """The driver of kind `ssh`."""

    mountable = MOUNTABLE

    def __init__(
        self,
        connection: HostConnection,
        *,
        resource_id: str,
        platform_url: str,
        outputs: StoredOutputs,
        sign_attempt: Callable[[Launch], str],
        volumes: Sequence[str] = (),
    ) -> None:
        """Take what speaks with the host. `sign_attempt` returns the token that a launch shows to the platform.

        `volumes` are the folders of the host that an admin offers jobs.
        """
        self._connection = connection
        self._resource_id = resource_id
        self._platform_url = platform_url
        self._outputs = outputs
        self._sign_attempt = sign_attempt
        self._volumes = volumes

    @property
    def address(self) -> str:
        """The name or IP address of the host."""
        return self._connection.address

    def close(self) -> None:
        """End the connection. The next question opens another."""
        self._connection.close()

    def withdraw(self) -> None:
        """Remove the folder on the host, of a resource that is not attached after all, and end the connection."""
        self._connection.call("leave")
        self.close()

    def probe(self) -> Sequence[NodeFacts]:
        """Return the host."""
        return wire.nodes_from_json(self._connection.call("probe", reply_timeout_s=20.0))

    def start(self, launch: Launch) -> None:
        """Hand the job to the host. It is brought what it reads, then it starts."""
        kinds = {mount.source.kind for mount in launch.spec.mounts} - MOUNTABLE
        if kinds:
            raise StartRefused(f"The job reads {describe_kinds(kinds)}, which cannot be mounted on this host.")
        if launch.spec.working_directory is not None:
            raise StartRefused(
                f"The job asks for the working directory {launch.spec.working_directory} of the platform's machine, "
                "which this host does not have."
            )
        if fault := describe_fault(read_volumes(launch.spec.volumes), self._volumes, resource="this host"):
            raise VolumeRefused(fault)
        on_host = replace(launch, spec=self._with_folders(launch.spec))
        self._connection.call(
            "start", launch=wire.launch_to_json(on_host), url=self._platform_url, token=self._sign_attempt(launch)
        )

    def _with_folders(self, spec: JobSpec) -> JobSpec:
        """Return the spec as the host reads it: what lies there are folders of its own."""

        def on_host(mount: Mount) -> Mount:
            if not isinstance(mount.source, RemoteFolder):
                return mount
            if mount.source.resource != self._resource_id:
                raise StartRefused(f"'{mount.name}' is a folder of another host.")
            return replace(mount, source=HostFolder(mount.source.path))

        return replace(spec, data=tuple(map(on_host, spec.data)), inputs=tuple(map(on_host, spec.inputs)))

    def list_jobs(self) -> Sequence[JobReport]:
        """Return what the host says."""
        return list(map(wire.report_from_json, self._connection.call("list_jobs")))

    def stop(self, name: str, grace_s: float) -> None:
        """Have the job ended by the host."""
        self._connection.call("stop", name=name, grace_s=grace_s)

    def read_log(self, name: str, offset: int, limit: int) -> LogChunk:
        """Read from the log on the host."""
        return questions.chunk_from_json(self._connection.call("read_log", name=name, offset=offset, limit=limit))

    def read_usage(self, name: str, after: datetime | None) -> Sequence[UsageSample]:
        """Read from the samples on the host."""
        moment = None if after is None else after.isoformat()
        return questions.samples_from_json(self._connection.call("read_usage", name=name, after=moment))

    def open_output(self, name: str) -> OutputReader:
        """Read what the host has sent to the store."""
        return SentOutput(lambda: self._find_output(name))

    def forget(self, name: str) -> None:
        """Have it no longer listed."""
        self._connection.call("forget", name=name)

    def delete(self, name: str) -> None:
        """Have its files removed."""
        self._connection.call("delete", name=name)

    def open_checkpoint(self, name: str) -> OutputReader | None:
        """Read a folder on the host, piece by piece."""
        files = self._connection.call("list_checkpoint_files", name=name, reply_timeout_s=_TIMEOUT_S)
        return None if files is None else HostFolderReader(self._connection, name, wire.files_from_json(files))

    def list_checkpoints(self) -> Sequence[str]:
        """Return what the host says."""
        return list(self._connection.call("list_checkpoints"))

    def delete_checkpoint(self, name: str) -> None:
        """Have a folder removed."""
        self._connection.call("delete_checkpoint", name=name, reply_timeout_s=_TIMEOUT_S)

    def wait_for_news(self, timeout_s: float) -> bool:
        """Wait for the host to have news."""
        return bool(self._connection.call("wait_for_news", reply_timeout_s=timeout_s + _NEWS_S, timeout_s=timeout_s))

    def ask_about_copies(self, method: str, *, reply_timeout_s: float = 10.0, **arguments: Any) -> Any:
        """Ask about cached commits on the host, to which the packages are sent that their processes need.

        Raises HostUnreachable.
        """
        packages = build_packages()
        try:
            if method in _WITH_PACKAGES:
                arguments["packages"] = packages.digest
                if not self._connection.call("have_packages", digest=packages.digest):
                    data = base64.b64encode(packages.data).decode()
                    self._connection.call(
                        "bring_packages", digest=packages.digest, data=data, reply_timeout_s=_TIMEOUT_S
                    )
            if method in _WITH_PLATFORM:
                arguments["url"] = self._platform_url
            return self._connection.call(method, reply_timeout_s=reply_timeout_s, **arguments)
        except (ResourceUnreachable, StartRefused) as error:
            raise HostUnreachable(error.message) from error

    def _find_output(self, name: str) -> OutputReader | None:
        output = self._connection.call("describe_output", name=name)
        if "error" in output:
            raise FileNotFoundError(f"The output of {name} was not stored: {output['error']}")
        return self._outputs.open(output["job_id"], output["root"]) if output["root"] else None
