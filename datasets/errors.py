"""What can go wrong with datasets, their stores and their cached copies."""

from core.errors import CHECK_MEMBERSHIP, Blame, Conflict, ErrorKind, InvalidInput, NotFound, PlatformError


class DatasetError(PlatformError):
    """A failure about a dataset; the family's root."""

    code = "datasets.error"


class DatasetNotFound(NotFound):
    """No such dataset, or the caller is not a member of its project."""

    code = "datasets.not_found"
    hint = CHECK_MEMBERSHIP


class DatasetExists(Conflict):
    """The dataset's name is taken in its project."""

    code = "datasets.exists"
    hint = "Choose another name, or link your folder to the dataset that exists with `nearline data link`."


class DeletedDatasetNotFound(NotFound):
    """There is no such deleted dataset any more, or the caller may not know of it."""

    code = "datasets.deleted_not_found"
    hint = "List those that can be restored with `nearline data deleted`."


class RestoreNameTaken(Conflict):
    """Another dataset has taken the name of the deleted one."""

    code = "datasets.restore_name_taken"
    hint = "Restore it by another name: `nearline data restore REF --name NAME`."


class InvalidReference(InvalidInput):
    """A text that should name a dataset, a branch, a tag or a commit does not."""

    code = "datasets.invalid_reference"
    hint = "Write project/dataset, project/dataset@branch, @tag, @commit or @latest."


class InvalidLabel(InvalidInput):
    """A text cannot name a branch, a tag or a query."""

    code = "datasets.invalid_label"
    hint = "Choose another name."


class ReferenceNotFound(NotFound):
    """The dataset has no such branch, tag or commit."""

    code = "datasets.reference_not_found"
    hint = "List what there is with `nearline data branch`, `data tag` and `data commits`."


class AmbiguousReference(InvalidInput):
    """The beginning of a commit id fits several commits."""

    code = "datasets.ambiguous_reference"
    hint = "Give more digits of the commit id."


class EmptyBranch(NotFound):
    """The branch has no commit yet."""

    code = "datasets.empty_branch"
    hint = "Upload something first: `nearline data sync`."


class NameTaken(Conflict):
    """The dataset has a branch or a tag of that name already."""

    code = "datasets.name_taken"
    hint = "Choose another name."


class DefaultBranchKept(Conflict):
    """The default branch of a dataset cannot be deleted."""

    code = "datasets.default_branch_kept"


class InvalidQuery(InvalidInput):
    """The conditions of a query are no query, or cannot be asked of this commit."""

    code = "datasets.invalid_query"
    hint = "The guide says what a query can ask for: globs, a part of the path, an expression, sizes, types and tags."


class QueryNotFound(NotFound):
    """The dataset has no such query."""

    code = "datasets.query_not_found"
    hint = "List what there is with `nearline data query list`."


class NothingSelected(InvalidInput):
    """The query selects no file of this commit, so nothing can be made of it."""

    code = "datasets.nothing_selected"
    hint = "Look at what it asks for with `nearline data query show`, or ask it of another commit."


class StaleParent(Conflict):
    """The branch moved since the caller read it. `details.head` is where it is now."""

    code = "datasets.stale_parent"
    hint = "Sync again: it merges the newest version and commits on top of it."


class NothingToMerge(Conflict):
    """The branch holds all that the other one has already."""

    code = "datasets.nothing_to_merge"


class MergeConflicts(Conflict):
    """Both branches changed the same files. `details.paths` names the first of `details.total`."""

    code = "datasets.merge_conflicts"
    hint = (
        "Say whose version stays: `nearline data merge SOURCE --resolve ours|theirs|both`, or for each file with "
        "`--ours`, `--theirs` and `--both`; the page Branches and tags shows both versions."
    )


class PackMissing(Conflict):
    """Packs that a commit needs are not in the store. `details.packs` names them."""

    code = "datasets.pack_missing"
    hint = "Upload the named packs again."


class PackLeaving(PlatformError):
    """A pack that someone wants is being deleted at this moment. It can be stored anew in a moment."""

    code = "datasets.pack_leaving"
    kind = ErrorKind.UNAVAILABLE
    hint = "Try again in a moment."


class SourceChanged(Conflict):
    """A file was written to while it was stored. `details.path` names it."""

    code = "datasets.source_changed"
    hint = "Try again when nothing writes to it."


class TreeNotFound(NotFound):
    """No such stored tree, or the caller is not a member of its project."""

    code = "datasets.tree_not_found"
    hint = CHECK_MEMBERSHIP


class ManifestRejected(InvalidInput):
    """A root or a range is damaged, or says something that must not be carried out."""

    code = "datasets.manifest_rejected"
    hint = "Nothing was committed. Rename or remove what is named and sync again."


class ManifestMissing(ManifestRejected):
    """A root or a range that was to be uploaded is not in the store."""

    code = "datasets.manifest_missing"
    hint = "Nothing was committed. Sync again: what the store does not have is sent again."


class NameCollision(ManifestRejected):
    """Names differ only in case or Unicode form, or one is a file and a folder. `details.groups` lists them."""

    code = "datasets.name_collision"
    hint = (
        "Nothing was committed. Rename the files. `--allow-collisions` (API: `allow_collisions`) commits names that "
        "differ only in case or Unicode form; file systems that fold these cannot hold such a commit."
    )


class UploadNotFound(NotFound):
    """No such upload session, or it belongs to someone else."""

    code = "datasets.upload_not_found"


class UploadClosed(Conflict):
    """The upload session expired, or ended with a commit."""

    code = "datasets.upload_closed"
    hint = "Start again: what was uploaded is not uploaded twice."


class FileNotInCommit(NotFound):
    """The commit holds no file or folder at that path."""

    code = "datasets.file_not_found"
    hint = "List the files with `nearline data files`."


class StoreNotFound(NotFound):
    """No such store."""

    code = "datasets.store_not_found"


class InvalidStore(InvalidInput):
    """The description of a store makes no sense, or the store refuses us."""

    code = "datasets.invalid_store"
    hint = "Check NEARLINE_STORE_URL and the store's keys."


class StoreUnreachable(PlatformError):
    """The store does not answer. Trying again can help."""

    code = "datasets.store_unreachable"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PROVIDER
    hint = "Try again in a moment; if it lasts, ask a site admin to look at the store."


_MENDING = (
    "What a dataset lost (`nearline data damage` lists it) is sent again by `nearline data sync` or `data put` with a "
    "good copy of the files. What an output lost comes from running its step again (`nearline run retry RUN --from "
    "STEP`) or its job."
)


class BlobMissing(NotFound):
    """The store has nothing under that key."""

    code = "datasets.blob_missing"
    blame = Blame.PROVIDER
    hint = f"The store lost an object. {_MENDING}"


class ContentCorrupt(PlatformError):
    """Bytes came back from the store that are not the bytes that went in."""

    code = "datasets.content_corrupt"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PROVIDER
    hint = f"Nothing damaged was passed on. {_MENDING}"


class SourceUnreachable(StoreUnreachable):
    """The place that files of a dataset were imported from in place does not answer, or is not there."""

    code = "datasets.source_unreachable"
    hint = "Try again once it is reachable: nothing is lost. An admin sees where it lies with `nearline source list`."


class SourceFileChanged(ContentCorrupt):
    """A file that a dataset refers to in its source is not what it was when it was imported."""

    code = "datasets.source_file_changed"
    kind = ErrorKind.CONFLICT
    blame = Blame.USER
    hint = (
        "Nothing wrong was passed on. Put the file back as it was, then `nearline data imports REF --check`; or import "
        "the folder again, which makes a new commit."
    )


class SourceFileMissing(SourceFileChanged):
    """A file that a dataset refers to is no longer in its source."""

    code = "datasets.source_file_missing"
    hint = (
        "Check the path. What was imported before can be put back as it was, then `nearline data imports REF --check`; "
        "or import the folder again, which makes a new commit."
    )


class SourceOnSite(PlatformError):
    """Files that were imported in place lie on a volume of a cluster, which only pods there can read."""

    code = "datasets.source_on_site"
    kind = ErrorKind.CONFLICT
    blame = Blame.USER
    hint = (
        "`nearline data promote REF` has a pod there copy them into the store. Jobs on that cluster can read them now."
    )


class SourceNotFound(NotFound):
    """There is no source of that name, or the project may not use it."""

    code = "datasets.source_not_found"
    hint = "List those that you may use with `nearline source list`, or ask an admin to permit it to the project."


class SourceInUse(Conflict):
    """Datasets still refer to files of the source."""

    code = "datasets.source_in_use"
    hint = "Promote what was imported from it, or delete these datasets for good."


class InvalidSource(InvalidInput):
    """The description of a source makes no sense, or it refuses us."""

    code = "datasets.invalid_source"


class ImportNotFound(NotFound):
    """There is no such import, or the caller may not know of it."""

    code = "datasets.import_not_found"
    hint = "List those of a dataset with `nearline data imports REF`."


class ImportNotReady(Conflict):
    """The import has not ended, has failed, or is promoted already."""

    code = "datasets.import_not_ready"


class SignatureInvalid(PlatformError):
    """A store address was not signed by us, or was signed for something else."""

    code = "datasets.signature_invalid"
    kind = ErrorKind.DENIED
    hint = "Ask for a new address: reload the page that it is from, or run the command again."


class SignatureExpired(PlatformError):
    """A store address was used after its time."""

    code = "datasets.signature_expired"
    kind = ErrorKind.DENIED
    hint = "Ask for a new address."


class BodyRefused(InvalidInput):
    """The bytes that were sent are not the bytes that the address was signed for."""

    code = "datasets.body_refused"


class HydrationStopped(DatasetError):
    """Filling a folder was stopped on request before its end."""

    code = "datasets.hydration_stopped"
    kind = ErrorKind.CONFLICT


class TargetNotEmpty(Conflict):
    """A private copy was asked for at a place where something is already."""

    code = "datasets.target_not_empty"
    hint = "Choose another folder, or an empty one."


class TargetUnwritable(DatasetError):
    """The folder that files are written to refuses them: no space, no permission, or it is gone."""

    code = "datasets.target_unwritable"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PLATFORM
    hint = "Free some space, or ask an admin to look at the folder."


class CacheSiteNotFound(NotFound):
    """There is no cache site of that name."""

    code = "datasets.cache_site_not_found"
    hint = "List the sites with `nearline cache list`, or ask an admin to add one."


class CacheSiteExists(Conflict):
    """A cache site has that name."""

    code = "datasets.cache_site_exists"
    hint = "Choose another name."


class InvalidCacheSite(InvalidInput):
    """The description of a cache site makes no sense."""

    code = "datasets.invalid_cache_site"


class CachedCommitNotFound(NotFound):
    """The commit is not cached there, or the caller may not know that it is."""

    code = "datasets.cached_commit_not_found"
    hint = "See what is cached with `nearline cache list`."


class CacheFull(PlatformError):
    """The site has no space for the commit, and nothing there may be evicted. `details.obstacles` says why."""

    code = "datasets.cache_full"
    kind = ErrorKind.QUOTA
    hint = "Unpin or clear one of these commits, wait for the jobs that use them, or ask an admin for more capacity."


class NoVolumeLeft(CacheFull):
    """The site has as many volumes as it may have, and too few of them may leave. `details.obstacles` says why."""

    code = "datasets.no_volume_left"
    hint = (
        "Unpin or clear one of these commits, wait for the jobs that use them, or ask an admin for more volumes: "
        "`nearline cache set SITE --set max_volumes=NUMBER`."
    )


class CacheInUse(Conflict):
    """The cached commit is in use, so it cannot be cleared. `details.users` names who uses it."""

    code = "datasets.cache_in_use"
    hint = "Wait until they have ended, or cancel them."


class CachePinned(Conflict):
    """The cached commit is pinned, so it cannot be cleared."""

    code = "datasets.cache_pinned"
    hint = "Unpin it first."


class CacheNotReady(Conflict):
    """The cached commit is not ready, or is leaving."""

    code = "datasets.cache_not_ready"
    hint = "Cache the commit and wait until it is ready."


class CacheSiteUnavailable(PlatformError):
    """The place where copies lie does not work. Trying again can help."""

    code = "datasets.cache_site_unavailable"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PROVIDER
    hint = "Once the site works, ask again: what is done is kept."


class CacheSiteAway(CacheSiteUnavailable):
    """The folder of a cache site is not there, as on a disk that is not mounted. What is cached there is not lost."""

    code = "datasets.cache_site_away"
    hint = "Ask a site admin to mount its disk. Once the folder is back, what waits for it goes on by itself."

    @classmethod
    def of(cls, site: str, absence: str) -> "CacheSiteAway":
        """Return the error for a site, by name; `absence` names its folder and its mark."""
        error = cls(
            f"The folder of the cache site {site} is not there. Is its disk mounted? Site admins read on the page "
            "Cache where it should be."
        )
        error.for_admins = absence
        return error


class CacheSiteFull(CacheSiteUnavailable):
    """The disk behind the site is full although the site's capacity is not: something else uses the disk."""

    code = "datasets.cache_site_full"
    hint = "Free space on that disk, or lower the site's capacity; then ask again, what is done is kept."


class VolumeRefused(CacheSiteUnavailable):
    """A cluster makes or mounts no volume for a copy, or its pods cannot fill it. The message says why."""

    code = "datasets.volume_refused"
    hint = "Put right what the message names, then ask for the commit again."


class AgentImageTooOld(VolumeRefused):
    """The image of Nearline that a cluster was given does not know what its pods are told to do."""

    code = "datasets.agent_image_too_old"
    hint = (
        "Give the cluster the image of this version: `nearline compute set RESOURCE --agent-image IMAGE`. To fill "
        "commits by one pod, an older image does too: `nearline cache set SITE --set fill_pods=1`. Then ask for the "
        "commit again."
    )


class OtherCommit(CacheSiteUnavailable):
    """A cache site holds one commit only: that of which its existing files are."""

    code = "datasets.other_commit"
    kind = ErrorKind.CONFLICT
    blame = Blame.USER
    hint = "Choose another cache site."


class CopyGone(VolumeRefused):
    """Somebody deleted a copy from its cache site."""

    code = "datasets.copy_gone"
    hint = "Ask for the commit again."


class CopyDiffers(VolumeRefused):
    """Files that are not ours are not what their commit says. The message names some of them."""

    code = "datasets.copy_differs"
    hint = "Put the files right, or record them as a commit of their own; then ask for the commit again."


class ArrayNotFound(NotFound):
    """No storage array was named for a cache site."""

    code = "datasets.array_not_found"
    hint = "A site admin names one on Settings, Cache policy, or by `nearline cache array NAME --url URL`."


class ArrayUnreadable(PlatformError):
    """A storage array does not tell its space. The message says why."""

    code = "datasets.array_unreadable"
    kind = ErrorKind.UNAVAILABLE
    blame = Blame.PROVIDER
    hint = "Check address, certificate, user and password, and that the array is up. Caching goes on without it."


class ArrayPartDenied(ArrayUnreadable):
    """The account of a storage array may not read a part of what it tells."""

    code = "datasets.array_part_denied"
    hint = "Give the account the role `readonly` (of the cluster) or `vsadmin-readonly` (of an SVM)."


class StorageUnfit(InvalidInput):
    """A storage class was tried, and does not do what caching needs. The message says what."""

    code = "datasets.storage_unfit"
    hint = "Put right what the message names, or attach the cluster without the probe: --no-probe."


class RemovalHeldUp(DatasetError):
    """A copy cannot be removed yet. The message is what it waits for; it is tried again."""

    code = "datasets.removal_held_up"
    kind = ErrorKind.CONFLICT
    hint = "The removal goes on by itself once that is gone."


class StagingLost(DatasetError):
    """Another worker has taken over the making of a copy. Nothing is lost: that worker goes on."""

    code = "datasets.staging_lost"
    kind = ErrorKind.CONFLICT


class NothingToRevert(Conflict):
    """The branch holds the wanted version already."""

    code = "datasets.nothing_to_revert"


class UploadTooLarge(PlatformError):
    """One commit through the browser would bring more files or bytes than this installation lets it."""

    code = "datasets.upload_too_large"
    kind = ErrorKind.QUOTA
    hint = "Bring it in several commits, or use `nearline data sync`, which has no such limit."


class MergeTooLarge(PlatformError):
    """The two sides of a merge changed more files than are compared at once."""

    code = "datasets.merge_too_large"
    kind = ErrorKind.QUOTA
    hint = (
        "Merge an earlier commit of the branch first. Else bring both to your machine with `nearline data clone`, put "
        "together there what the merge shall hold, and commit it with `nearline data sync`."
    )


class StorageLimitReached(PlatformError):
    """The project stores as much as it may. `details` has used, limit, what was needed, and what takes most."""

    code = "datasets.storage_limit_reached"
    kind = ErrorKind.QUOTA
    hint = (
        "What does not fit is not taken. What was sent before is kept for a day for the next try, and counts until "
        "then. Delete datasets for good that nobody needs, or ask a site admin for a higher limit; "
        "`nearline project storage` shows what takes the space."
    )


class ArchiveUnreadable(InvalidInput):
    """An archive that was sent breaks off, or is none."""

    code = "datasets.archive_unreadable"
