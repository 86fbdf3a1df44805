import hashlib
import io
import shutil
import tarfile

import pytest

from accounts.errors import PermissionDenied
from datasets.models import StoredTree
from flows.errors import BundleNotFound, InvalidBundle
from flows.models import Bundle, FlowVersion
from flows.services import bundles, flows, runs
from tests.factories.flows import World, bring_code, newest_attempt

FLOW = "flow: f\nsteps: [{name: a, command: python train.py}]"


def pack(*members: tarfile.TarInfo | tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
                continue
            info = tarfile.TarInfo(member[0])
            info.size = len(member[1])
            archive.addfile(info, io.BytesIO(member[1]))
    return buffer.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def test_code_reaches_the_job(world: World, member, project):
    data = pack(("train.py", b"print('hello')"), ("lib/model.py", b"x = 1"))
    bundle = bundles.save_bundle(actor=member, project=project, data=data)
    version = flows.save_version(actor=member, project=project, text=FLOW, bundle=bundle.sha256)
    run = runs.start_run(actor=member, version=version, parameters={})
    world.turn()

    assert bundle.sha256 == hashlib.sha256(data).hexdigest()
    spec = newest_attempt(run, "a").job.spec
    assert spec["command"] == "python train.py"
    folder = bring_code(run, "a")
    assert (folder / "lib" / "model.py").read_text() == "x = 1"


def test_the_same_code_is_kept_once_and_names_the_version(world: World, member, project):
    data = pack(("train.py", b"1"))
    first = bundles.save_bundle(actor=member, project=project, data=data)
    again = bundles.save_bundle(actor=member, project=project, data=data)
    with_code = flows.save_version(actor=member, project=project, text=FLOW, bundle=first.sha256)
    without = flows.save_version(actor=member, project=project, text=FLOW)

    assert first.pk == again.pk
    assert with_code.hash != without.hash
    assert flows.save_version(actor=member, project=project, text=FLOW, bundle=first.sha256).pk == with_code.pk


def test_a_lost_folder_is_made_again_from_the_store(world: World, member, project):
    bundle = bundles.save_bundle(actor=member, project=project, data=pack(("train.py", b"2")))
    version = flows.save_version(actor=member, project=project, text=FLOW, bundle=bundle.sha256)
    run = runs.start_run(actor=member, version=version, parameters={})
    world.turn()
    shutil.rmtree(bring_code(run, "a").parent)

    assert (bring_code(run, "a") / "train.py").read_bytes() == b"2"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"no archive", id="no archive"),
        pytest.param(pack(("../outside.py", b"x")), id="dots"),
        pytest.param(pack(("/tmp/outside.py", b"x")), id="absolute"),
        pytest.param(pack(link("passwords", "/etc/passwd")), id="link out"),
        pytest.param(pack(("train.py", b"x"), link("same.py", "train.py")), id="link inside"),
        pytest.param(pack(link("up", "../.."), ("up/outside.py", b"x")), id="through a link"),
        pytest.param(pack(("a" * 300, b"x")), id="name too long"),
        pytest.param(pack(("train.py", b"x"))[:-12], id="cut off"),
    ],
)
def test_hostile_and_broken_archives_are_refused_and_nothing_is_kept(world: World, member, project, data):
    with pytest.raises(InvalidBundle):
        bundles.save_bundle(actor=member, project=project, data=data)

    assert (Bundle.objects.count(), StoredTree.objects.count()) == (0, 0)


def test_an_archive_that_unpacks_to_too_much_is_refused(world: World, member, project):
    with pytest.raises(InvalidBundle, match="unpacks to more than 100 times its size"):
        bundles.save_bundle(actor=member, project=project, data=pack(("zeros", bytes(20 * 2**20))))

    assert Bundle.objects.count() == 0


def test_another_projects_code_cannot_be_used(world: World, member, project):
    with pytest.raises(BundleNotFound):
        flows.save_version(actor=member, project=project, text=FLOW, bundle="0" * 64)

    assert FlowVersion.objects.count() == 0


def test_a_viewer_may_not_send_code(world: World, viewer, project):
    with pytest.raises(PermissionDenied):
        bundles.save_bundle(actor=viewer, project=project, data=pack(("train.py", b"x")))

    assert Bundle.objects.count() == 0
