"""What can go wrong about resources, templates and jobs."""

from core.errors import CHECK_MEMBERSHIP, Blame, Conflict, ErrorKind, InvalidInput, NotFound, PlatformError


class JobNotFound(NotFound):
    """No such job, or the caller may not see it."""

    code = "compute.job_not_found"
    hint = CHECK_MEMBERSHIP


class ResourceNotFound(NotFound):
    """No compute resource has that name."""

    code = "compute.resource_not_found"
    hint = "List the resources with `nearline compute list`."


class TemplateNotFound(NotFound):
    """No compute template has that name."""

    code = "compute.template_not_found"
    hint = "A template is named `resource.template`. List them with `nearline compute list`."


class JobNameTaken(Conflict):
    """A job of that name exists in another project."""

    code = "compute.job_name_taken"
    hint = "Choose another name."


class ResourceExists(Conflict):
    """The resource's name is taken, or this machine is attached already."""

    code = "compute.resource_exists"
    hint = "Choose another name, or detach the other resource first."


class ResourceChanged(Conflict):
    """Settings or credentials of a resource were changed while others were checked."""

    code = "compute.resource_changed"
    hint = "Look at its settings again, then repeat your change."


class OtherCluster(Conflict):
    """What answers is another cluster, or namespace, than the one where jobs and copies of the resource are."""

    code = "compute.other_cluster"
    hint = "Attach the other one under another name."


class TemplateExists(Conflict):
    """The resource has a template of that name."""

    code = "compute.template_exists"
    hint = "Choose another name."


class ResourceInUse(Conflict):
    """Jobs that have not ended still run or wait on the resource."""

    code = "compute.resource_in_use"
    hint = "Wait for its jobs to end, or cancel them first."


class HostIsPresent(Conflict):
    """Only a host that is away can be given up."""

    code = "compute.host_is_present"
    hint = "Stop its controllers and wait for half a minute. To remove its resources alone, detach them."


class ResourceIsPresent(Conflict):
    """Only a resource that does not answer, or is detached, can be given up."""

    code = "compute.resource_is_present"
    hint = "Cancel its jobs and clear its copies, then detach it."


class InvalidJobSpec(InvalidInput):
    """What a job asks for does not make sense."""

    code = "compute.invalid_job_spec"


class NoResourceFits(InvalidInput):
    """No compute resource can give a job what it asks for."""

    code = "compute.no_resource_fits"
    hint = "Ask for less, or name another `resource` or `pool`. Datasets are read by reference, without a volume."


class CodeNotFound(NotFound):
    """No code with that hash was uploaded to the job's project, or it has been removed again."""

    code = "compute.code_not_found"
    hint = "Send the folder again: `nearline job submit --code FOLDER`."


class JobBelongsToRun(Conflict):
    """The job is a step of a run, whose flow decides about it."""

    code = "compute.job_belongs_to_run"
    hint = "Cancel the run, or retry it: `nearline run cancel`, `nearline run retry`."


class JobIsPart(Conflict):
    """The job is a part of another one, which decides about it."""

    code = "compute.job_is_part"
    hint = "Act on the whole job: `nearline job show NAME` names it."


class JobHasParts(Conflict):
    """The job runs as parts, each of which has a log, a node and a name of its own."""

    code = "compute.job_has_parts"
    hint = "Name a part: `nearline job show NAME` lists them."


class OutputNotStored(Conflict):
    """The store holds no output of the job: it has not succeeded yet, or what it left could not be stored."""

    code = "compute.output_not_stored"
    hint = "Outputs are stored when their job has succeeded. Its page says what was stored, and what was not."


class OutputEmpty(NotFound):
    """The job left no file in its output folder."""

    code = "compute.output_empty"
    hint = "A job leaves what it writes to the folder $NEARLINE_OUTPUT."


class OutputGone(NotFound):
    """What the job left was stored, and has been deleted since."""

    code = "compute.output_gone"
    hint = "Run it again, or keep outputs that matter: `nearline run keep` makes a version of a dataset of one."


class JobNotSuspended(Conflict):
    """Only a job that somebody suspended can be resumed."""

    code = "compute.job_not_suspended"
    hint = "`nearline job show NAME` says how it stands."


class NoIdleLimit(Conflict):
    """Nothing ends the job for being idle, so there is nothing to keep it from."""

    code = "compute.no_idle_limit"
    hint = "`nearline job show NAME` says how it stands. A limit that was set just now holds within a minute."


class UnmountableSource(InvalidInput):
    """A job reads something that jobs of its resource cannot mount."""

    code = "compute.unmountable_source"
    hint = "Choose a template of another resource, or name a cache site that this one can read."


class InvalidResource(InvalidInput):
    """What a resource or a template is declared to be does not make sense."""

    code = "compute.invalid_resource"


class UnknownHostKey(InvalidResource):
    """A host shows a key that nobody has confirmed, so nothing is sent to it. `details` hold its `fingerprint`."""

    code = "compute.unknown_host_key"
    hint = "Compare the fingerprint with the host's, and attach it with the line as known host (`--known-host FILE`)."


class ResourceUnreachable(PlatformError):
    """A compute resource does not answer; asking again later may help."""

    code = "compute.resource_unreachable"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PROVIDER
    hint = "Check its address, and that it is up. If it is attached, the compute page shows its last contact."


class ChangeRefused(PlatformError):
    """A resource refuses to change what runs one job, such as a pod that breaks a rule of its cluster. Others go on."""

    code = "compute.change_refused"
    kind = ErrorKind.CONFLICT
    blame = Blame.PROVIDER
    hint = "An admin of the cluster can permit it, or remove the pod; it is tried again."


class CredentialsRefused(ResourceUnreachable):
    """A compute resource does not know the account of its credentials, or is another one than they name."""

    code, kind = "compute.credentials_refused", ErrorKind.CONFLICT  # asking again does not help
    hint = "Give new credentials. A resource that is attached already gets them by `nearline compute rotate`."


class HostKeyChanged(ResourceUnreachable):
    """A host shows another key than the one by which it is known, so nothing is sent to it."""

    code, kind = "compute.host_key_changed", ErrorKind.CONFLICT  # asking again does not help
    hint = "On the host, `ssh-keygen -lf` prints the fingerprint of each /etc/ssh/ssh_host_*_key.pub."


class HostUnfit(ResourceUnreachable):
    """A host lets Nearline in, and cannot run its program."""

    code, kind = "compute.host_unfit", ErrorKind.CONFLICT  # asking again does not help
    hint = "The host needs Python 3.11 or newer, and a home and a folder for jobs that the account may write to."


class ResourceUnconfined(PlatformError):
    """Jobs of a resource can read the platform's files, and the caller is no site admin."""

    code = "compute.resource_unconfined"
    kind = ErrorKind.DENIED
    hint = "Choose another resource, or ask a site admin: the admin's guide says what a sandbox needs."


class StartRefused(PlatformError):
    """A compute resource answered that it cannot start a job; asking again does not help."""

    code = "compute.start_refused"
    kind = ErrorKind.CONFLICT
    blame = Blame.PROVIDER


class VolumeRefused(StartRefused):
    """A volume of the job is not offered, or cannot be mounted where the job wants it."""

    code = "compute.volume_refused"
    blame = Blame.USER
    hint = "Name what is offered there, and a path at which it can be mounted, such as one below /mnt."


class QuotaExceeded(StartRefused):
    """A quota of the cluster does not allow the job."""

    code = "compute.quota_exceeded"
    hint = "Ask the cluster's admin for a larger quota of the namespace, or choose another template."


class JobNotRunning(PlatformError):
    """A command can run in a job only while the job runs."""

    code = "compute.job_not_running"
    kind = ErrorKind.CONFLICT
    hint = "`nearline job show NAME` says how it stands."


class CommandRefused(PlatformError):
    """Commands cannot be run in a job, or this one cannot."""

    code = "compute.command_refused"
    kind = ErrorKind.CONFLICT


class PortRefused(PlatformError):
    """The ports of a job cannot be reached, because of the kind of its resource."""

    code = "compute.port_refused"
    kind = ErrorKind.CONFLICT


class PortNotOpen(PlatformError):
    """No process of the job listens on that port."""

    code = "compute.port_not_open"
    kind = ErrorKind.CONFLICT
    hint = "Check the port, and in the job's log that the program listens already."


class ConnectionBroken(PlatformError):
    """A connection to a job broke while it was used."""

    code = "compute.connection_broken"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PROVIDER
    hint = "Connect again. `nearline job show NAME` says how the job stands."


class TooManyConnections(PlatformError):
    """As many connections to jobs are open as there may be."""

    code = "compute.too_many_connections"
    kind = ErrorKind.QUOTA
    hint = "Close some of them: end a `port-forward` that nobody uses."


class InvalidTicket(PlatformError):
    """The ticket of a connection was not issued here, or is too old."""

    code = "compute.invalid_ticket"
    kind = ErrorKind.UNAUTHENTICATED
    hint = "Ask for a new one. A ticket is good for ten minutes."


class MountNotFound(NotFound):
    """A job reads no tree of that name."""

    code = "compute.mount_not_found"
