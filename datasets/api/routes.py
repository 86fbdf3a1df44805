"""Routes of datasets: their history and files, and the protocol by which clients upload and download."""

from collections.abc import Sequence

from django.http.response import HttpResponseBase
from ninja import Router, Status

from accounts.api.auth import ApiRequest
from accounts.selectors import get_project
from core import bounds
from core.pagination import Cursor, Limit, Page, paginate
from datasets.api import schemas
from datasets.api.file_answers import answer_content, read_raw
from datasets.engine.names import LATEST
from datasets.engine.ports import Announcement
from datasets.models import Branch, Dataset, Tag
from datasets.selectors import commits as commit_reads
from datasets.selectors import damage as damage_reads
from datasets.selectors import datasets as dataset_reads
from datasets.selectors import differences, files
from datasets.selectors import merges as merge_reads
from datasets.selectors.last_changes import find_last_changes
from datasets.services import branches, commits, datasets, downloads, merges, tree_edits, uploads
from datasets.services.downloads import Wanted
from datasets.services.uploads import ObjectKind, Offer

router = Router()

_DATASET = "/datasets/{project}/{name}"
_UPLOAD = "/uploads/{upload_id}"


@router.post("/datasets", response={201: schemas.DatasetOut}, operation_id="datasets_create")
def create_dataset(request: ApiRequest, body: schemas.DatasetIn) -> Status[schemas.DatasetOut]:
    """Create an empty dataset with an empty branch `main`."""
    project = get_project(actor=request.actor, name=body.project)
    dataset = datasets.create_dataset(
        actor=request.actor, project=project, name=body.name, description=body.description, kind=body.kind
    )
    return Status(201, schemas.DatasetOut.of(dataset, None))


@router.get("/datasets", response=schemas.DatasetsOut, operation_id="datasets_list")
def list_datasets(
    request: ApiRequest, project: str = "", q: bounds.Line = "", cursor: Cursor = None, limit: Limit = 100
) -> schemas.DatasetsOut:
    """List the datasets of your projects, newest first."""
    datasets = dataset_reads.list_datasets(actor=request.actor, project=project, text=q)
    page = paginate(datasets, cursor=cursor, limit=limit)
    return schemas.DatasetsOut(items=_describe(page.items), next_cursor=page.next_cursor)


@router.get(_DATASET, response=schemas.DatasetOut, operation_id="datasets_get")
def get_dataset(request: ApiRequest, project: str, name: str) -> schemas.DatasetOut:
    """Return one dataset."""
    return _describe([dataset_reads.get_dataset(actor=request.actor, project=project, name=name)])[0]


@router.patch(_DATASET, response=schemas.DatasetOut, operation_id="datasets_update")
def update_dataset(request: ApiRequest, project: str, name: str, body: schemas.DatasetChangeIn) -> schemas.DatasetOut:
    """Change what is said about a dataset."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    changed = datasets.update_dataset(actor=request.actor, dataset=dataset, changes=body.changes())
    return get_dataset(request, project, changed.name)


@router.delete(_DATASET, response=schemas.DeletedOut, operation_id="datasets_delete")
def delete_dataset(request: ApiRequest, project: str, name: str, *, for_good: bool = False) -> Dataset:
    """Delete a dataset with its whole history; the answer says until when it can be restored."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    return datasets.delete_dataset(actor=request.actor, dataset=dataset, for_good=for_good)


@router.get(f"{_DATASET}/deletion", response=schemas.DatasetDeletionOut, operation_id="datasets_foresee_deletion")
def foresee_deletion(request: ApiRequest, project: str, name: str) -> schemas.DatasetDeletionOut:
    """Say whether a deleted dataset can be restored, before it is deleted. Refused to those who may not delete it."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    days = datasets.foresee_deletion(actor=request.actor, dataset=dataset)
    return schemas.DatasetDeletionOut(restore_days=days)


@router.get("/deleted-datasets", response=schemas.RestorablesOut, operation_id="datasets_list_deleted")
def list_deleted(request: ApiRequest, project: str = "", cursor: Cursor = None, limit: Limit = 100) -> Page[Dataset]:
    """List the deleted datasets that you may restore: those of the projects that you are an admin of."""
    datasets = dataset_reads.list_deleted(actor=request.actor, project=project)
    return paginate(datasets, cursor=cursor, limit=limit)


@router.post("/deleted-datasets/{dataset_id}/restore", response=schemas.DatasetOut, operation_id="datasets_restore")
def restore_dataset(request: ApiRequest, dataset_id: str, body: schemas.RestoreIn) -> schemas.DatasetOut:
    """Bring back a deleted dataset with its whole history. Its commits can be cached again."""
    dataset = dataset_reads.get_deleted(actor=request.actor, dataset_id=dataset_id)
    restored = datasets.restore_dataset(actor=request.actor, dataset=dataset, name=body.name)
    return get_dataset(request, restored.project.name, restored.name)


@router.delete("/deleted-datasets/{dataset_id}", response={204: None}, operation_id="datasets_delete_for_good")
def delete_for_good(request: ApiRequest, dataset_id: str) -> Status[None]:
    """Delete a dataset for good that could still be restored."""
    dataset = dataset_reads.get_deleted(actor=request.actor, dataset_id=dataset_id)
    datasets.delete_for_good(actor=request.actor, dataset=dataset)
    return Status(204, None)


@router.get(f"{_DATASET}/branches", response=schemas.BranchesOut, operation_id="datasets_list_branches")
def list_branches(
    request: ApiRequest, project: str, name: str, cursor: Cursor = None, limit: Limit = 1000
) -> Page[Branch]:
    """List the branches of a dataset, oldest first."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    branches = commit_reads.list_branches(request.actor, dataset)
    return paginate(branches, cursor=cursor, limit=limit, newest_first=False)


@router.post(f"{_DATASET}/branches", response={201: schemas.BranchOut}, operation_id="datasets_create_branch")
def create_branch(request: ApiRequest, project: str, name: str, body: schemas.BranchIn) -> Status[Branch]:
    """Create a branch."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    return Status(201, branches.create_branch(actor=request.actor, dataset=dataset, name=body.name, at=body.at))


@router.delete(f"{_DATASET}/branches/{{branch}}", response={204: None}, operation_id="datasets_delete_branch")
def delete_branch(request: ApiRequest, project: str, name: str, branch: str) -> Status[None]:
    """Delete a branch; its commits stay."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    branches.delete_branch(actor=request.actor, dataset=dataset, name=branch)
    return Status(204, None)


@router.get(f"{_DATASET}/tags", response=schemas.TagsOut, operation_id="datasets_list_tags")
def list_tags(request: ApiRequest, project: str, name: str, cursor: Cursor = None, limit: Limit = 1000) -> Page[Tag]:
    """List the tags of a dataset, oldest first."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    tags = commit_reads.list_tags(request.actor, dataset)
    return paginate(tags, cursor=cursor, limit=limit, newest_first=False)


@router.post(f"{_DATASET}/tags", response={201: schemas.TagOut}, operation_id="datasets_create_tag")
def create_tag(request: ApiRequest, project: str, name: str, body: schemas.TagIn) -> Status[Tag]:
    """Give a commit a name that stays."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    commit = commit_reads.get_commit(request.actor, dataset, body.commit)
    return Status(201, branches.create_tag(actor=request.actor, dataset=dataset, name=body.name, commit=commit))


@router.delete(f"{_DATASET}/tags/{{tag}}", response={204: None}, operation_id="datasets_delete_tag")
def delete_tag(request: ApiRequest, project: str, name: str, tag: str) -> Status[None]:
    """Delete a tag; its commit stays."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    branches.delete_tag(actor=request.actor, dataset=dataset, name=tag)
    return Status(204, None)


@router.get(f"{_DATASET}/commits", response=schemas.CommitsOut, operation_id="datasets_list_commits")
def list_commits(
    request: ApiRequest, project: str, name: str, *, ref: str = "latest", cursor: Cursor = None, limit: Limit = 100
) -> schemas.CommitsOut:
    """List the commits behind a reference along first parents, newest first."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    page = commit_reads.list_commits(request.actor, dataset, ref=ref, cursor=cursor, limit=limit)
    views = commit_reads.view_commits(page.items)
    return schemas.CommitsOut(items=[schemas.CommitOut.of(view) for view in views], next_cursor=page.next_cursor)


@router.get(f"{_DATASET}/commits/{{ref}}", response=schemas.CommitOut, operation_id="datasets_get_commit")
def get_commit(request: ApiRequest, project: str, name: str, ref: str) -> schemas.CommitOut:
    """Return the commit that a branch, a tag, the beginning of an id or `latest` names."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    return schemas.CommitOut.of(commit_reads.view_commit(commit_reads.get_commit(request.actor, dataset, ref)))


@router.get(f"{_DATASET}/files", response=schemas.FilesOut, operation_id="datasets_list_files")
def list_files(
    request: ApiRequest,
    project: str,
    name: str,
    *,
    ref: str = "latest",
    path: str = "",
    glob: str = "",
    changed_in: bool = False,
    cursor: Cursor = None,
    limit: Limit = 200,
) -> schemas.FilesOut:
    """List what lies directly in a folder of a commit; with `glob`, all files whose path matches (`**/*.png`).

    With `changed_in`, each item says which commit changed it last.
    """
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    commit = commit_reads.get_commit(request.actor, dataset, ref)
    if glob:
        pattern = read_raw(request, "glob")
        page = files.list_matching(request.actor, commit, glob=pattern, cursor=cursor, limit=limit)
    else:
        folder = read_raw(request, "path")
        page = files.list_folder(request.actor, commit, path=folder, cursor=cursor, limit=limit)
    changes = find_last_changes(request.actor, commit, page.items) if changed_in else {}
    items = [schemas.FileOut.of(item, changes.get(item.path)) for item in page.items]
    return schemas.FilesOut(path=path, items=items, next_cursor=page.next_cursor)


@router.get(f"{_DATASET}/content", response={200: bytes, 206: bytes}, operation_id="datasets_get_content")
def get_content(
    request: ApiRequest,
    project: str,
    name: str,
    path: str,  # noqa: ARG001 (documents the parameter, whose exact bytes are read below)
    ref: str = "latest",
) -> HttpResponseBase:
    """Return the bytes of one file, or of a part of it (`Range`), each piece verified before it is sent."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    commit = commit_reads.get_commit(request.actor, dataset, ref)
    return answer_content(request, files.open_file(request.actor, commit, path=read_raw(request, "path")))


@router.get(f"{_DATASET}/diff", response=schemas.DiffOut, operation_id="datasets_get_diff")
def get_diff(
    request: ApiRequest,
    project: str,
    name: str,
    *,
    base: str,
    ref: str = "latest",
    cursor: Cursor = None,
    limit: Limit = 1000,
) -> schemas.DiffOut:
    """Say what changed from one commit to another; `base` may be of another dataset: `project/dataset@ref`."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    before = dataset_reads.get_base(request.actor, dataset, base)
    after = commit_reads.get_commit(request.actor, dataset, ref)
    return schemas.DiffOut.of(differences.get_differences(request.actor, before, after, cursor=cursor, limit=limit))


@router.get(f"{_DATASET}/merge", response=schemas.MergePlanOut, operation_id="datasets_plan_merge")
def plan_merge(
    request: ApiRequest,
    project: str,
    name: str,
    *,
    source: str,
    into: str = "",
    cursor: Cursor = None,
    limit: Limit = 1000,
) -> schemas.MergePlanOut:
    """Say what a merge of a branch, a tag or a commit into a branch would do, and which files both changed."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    theirs = commit_reads.get_commit(request.actor, dataset, source)
    ours = commit_reads.get_commit(request.actor, dataset, into or LATEST)
    plan = merge_reads.plan_merge(request.actor, theirs, ours)
    page = merge_reads.list_conflicts(plan, cursor=cursor, limit=limit)
    return schemas.MergePlanOut.of(plan, merge_reads.count_changes(request.actor, plan), page)


@router.post(f"{_DATASET}/merge", response={201: schemas.CommitOut}, operation_id="datasets_merge")
def merge(request: ApiRequest, project: str, name: str, body: schemas.MergeIn) -> Status[schemas.CommitOut]:
    """Bring what a branch, a tag or a commit has to a branch, by one commit."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    made = merges.merge(actor=request.actor, dataset=dataset, **body.wishes())
    return Status(201, schemas.CommitOut.of(commit_reads.view_commit(made)))


@router.post(f"{_DATASET}/files/rename", response={201: schemas.CommitOut}, operation_id="datasets_rename_path")
def rename_path(
    request: ApiRequest,
    project: str,
    name: str,
    *,
    path: str,  # noqa: ARG001 (documents the parameter, whose exact bytes are read below)
    to: str,  # noqa: ARG001
    branch: bounds.Name = "",
    message: bounds.Text = "",
) -> Status[schemas.CommitOut]:
    """Commit another path for a file, or for a folder with all that is in it. No content is moved."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    into = commit_reads.get_branch(request.actor, dataset, branch or dataset.default_branch)
    made = tree_edits.rename_path(
        actor=request.actor,
        dataset=dataset,
        branch=into.name,
        path=read_raw(request, "path").strip(b"/"),
        to=read_raw(request, "to").strip(b"/"),
        expected_head=into.head_id,
        message=message,
    )
    return Status(201, schemas.CommitOut.of(commit_reads.view_commit(made)))


@router.post(f"{_DATASET}/uploads", response={201: schemas.UploadOut}, operation_id="datasets_start_upload")
def start_upload(request: ApiRequest, project: str, name: str, body: schemas.UploadIn) -> Status[schemas.UploadOut]:
    """Begin work towards a commit of a branch."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    started = uploads.start_upload(actor=request.actor, dataset=dataset, branch=body.branch, client_id=body.client_id)
    return Status(201, schemas.UploadOut.of(started.upload, started.branch))


@router.post(f"{_UPLOAD}/packs", response=schemas.PacksOut, operation_id="datasets_offer_packs")
def offer_packs(request: ApiRequest, upload_id: str, body: schemas.PacksIn) -> schemas.PacksOut:
    """Say which packs you have; the answer says which the store wants, and how to send them."""
    upload = commit_reads.get_upload(actor=request.actor, upload_id=upload_id)
    offers = [
        Offer(ObjectKind.PACK, pack.sha256, Announcement(pack.size_bytes, pack.sha256, pack.md5)) for pack in body.packs
    ]
    answers = uploads.offer_packs(actor=request.actor, upload=upload, offers=offers)
    return schemas.PacksOut(items=[schemas.PackOut.of(answer) for answer in answers])


@router.post(f"{_UPLOAD}/packs/complete", response=schemas.PacksOut, operation_id="datasets_confirm_packs")
def confirm_packs(request: ApiRequest, upload_id: str, body: schemas.PackNamesIn) -> schemas.PacksOut:
    """Say which packs you sent; the server looks for them in the store."""
    upload = commit_reads.get_upload(actor=request.actor, upload_id=upload_id)
    answers = uploads.confirm_packs(actor=request.actor, upload=upload, names=body.packs)
    return schemas.PacksOut(items=[schemas.PackOut.of(answer) for answer in answers])


@router.post(f"{_UPLOAD}/manifests", response=schemas.ManifestsOut, operation_id="datasets_offer_manifests")
def offer_manifests(request: ApiRequest, upload_id: str, body: schemas.ManifestsIn) -> schemas.ManifestsOut:
    """Say which ranges and roots you have; the answer says which the store wants, and how to send them."""
    upload = commit_reads.get_upload(actor=request.actor, upload_id=upload_id)
    offers = [Offer(one.kind, one.id, Announcement(one.size_bytes, one.sha256, one.md5)) for one in body.objects]
    answers = uploads.offer_manifests(actor=request.actor, upload=upload, offers=offers)
    return schemas.ManifestsOut(items=[schemas.ObjectOut.of(answer) for answer in answers])


@router.post(f"{_UPLOAD}/downloads", response=schemas.DownloadsOut, operation_id="datasets_sign_upload_downloads")
def sign_upload_downloads(request: ApiRequest, upload_id: str, body: schemas.DownloadsIn) -> schemas.DownloadsOut:
    """Return requests by which packs and manifests that the upload builds on can be read straight from the store."""
    upload = commit_reads.get_upload(actor=request.actor, upload_id=upload_id)
    objects = [Wanted(one.kind, one.id) for one in body.objects]
    signed = downloads.sign_downloads(actor=request.actor, dataset=upload.dataset, objects=objects)
    return schemas.DownloadsOut(items=[schemas.DownloadOut.of(one) for one in signed])


@router.post(f"{_UPLOAD}/commit", response={201: schemas.CommitOut}, operation_id="datasets_commit_upload")
def commit_upload(request: ApiRequest, upload_id: str, body: schemas.CommitIn) -> Status[schemas.CommitOut]:
    """Make the uploaded tree the newest commit of the branch."""
    upload = commit_reads.get_upload(actor=request.actor, upload_id=upload_id)
    commit = commits.commit_upload(actor=request.actor, upload=upload, **body.model_dump())
    return Status(201, schemas.CommitOut.of(commit_reads.view_commit(commit)))


@router.post(f"{_DATASET}/downloads", response=schemas.DownloadsOut, operation_id="datasets_sign_downloads")
def sign_downloads(request: ApiRequest, project: str, name: str, body: schemas.DownloadsIn) -> schemas.DownloadsOut:
    """Return requests by which packs and manifests can be read straight from the store."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    objects = [Wanted(one.kind, one.id) for one in body.objects]
    signed = downloads.sign_downloads(actor=request.actor, dataset=dataset, objects=objects)
    return schemas.DownloadsOut(items=[schemas.DownloadOut.of(one) for one in signed])


@router.get(f"{_DATASET}/damage", response=schemas.DamageOut, operation_id="datasets_get_damage")
def get_damage(request: ApiRequest, project: str, name: str, ref: str | None = None) -> schemas.DamageOut:
    """Say which packs are damaged in the store, and which files of a commit need them; without `ref` only the packs."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    commit = commit_reads.get_commit(request.actor, dataset, ref) if ref else None
    return schemas.DamageOut.of(damage_reads.get_damage(request.actor, dataset, commit))


@router.post(f"{_DATASET}/damage", response=schemas.DamageOut, operation_id="datasets_report_damage")
def report_damage(request: ApiRequest, project: str, name: str, body: schemas.DamagedPacksIn) -> schemas.DamageOut:
    """Say which packs you found damaged; the server reads them and decides. The answer is all that is damaged."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    downloads.report_packs(actor=request.actor, dataset=dataset, names=body.packs)
    return schemas.DamageOut.of(damage_reads.get_damage(request.actor, dataset, None))


@router.post(f"{_DATASET}/revert", response={201: schemas.CommitOut}, operation_id="datasets_revert")
def revert(request: ApiRequest, project: str, name: str, body: schemas.RevertIn) -> Status[schemas.CommitOut]:
    """Make an earlier version the newest one of a branch again, by a new commit."""
    dataset = dataset_reads.get_dataset(actor=request.actor, project=project, name=name)
    commit = commit_reads.get_commit(request.actor, dataset, body.commit)
    made = commits.revert(
        actor=request.actor, dataset=dataset, commit=commit, branch_name=body.branch, message=body.message
    )
    return Status(201, schemas.CommitOut.of(commit_reads.view_commit(made)))


def _describe(rows: Sequence[Dataset]) -> list[schemas.DatasetOut]:
    newest = [dataset_reads.newest_commit_of(row) for row in rows]
    views = iter(commit_reads.view_commits([commit for commit in newest if commit is not None]))
    return [
        schemas.DatasetOut.of(row, next(views) if commit is not None else None)
        for row, commit in zip(rows, newest, strict=True)
    ]
