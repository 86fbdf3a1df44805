"""What is told of a bucket: of a real server, of one as StorageGRID is, and of servers with faults."""

from io import StringIO
from xml.sax.saxutils import escape

import pytest
from django.core.management import CommandError, call_command

from accounts.models import AuditEntry
from core import clock
from datasets.adapters.s3 import S3Location, S3Store
from datasets.adapters.s3_report import report_on
from datasets.engine.ports import PutProof
from datasets.errors import InvalidStore
from datasets.models import Store
from datasets.services import stores
from tests import services
from tests.contracts.blob_store import BlobStoreContract
from tests.contracts.datasets.s3_proxy import Answer, as_storagegrid, proxy, refusal
from tests.contracts.datasets.test_s3_store import ACCESS_KEY, SECRET_KEY

KEYS = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}


def location_at(address: str, prefix: str = "report") -> S3Location:
    return S3Location.parse(f"s3://{services.BUCKET}/{prefix}?endpoint={address}")


def outcomes_of(address: str, now=None) -> dict[str, str]:
    report = report_on(location_at(address), **KEYS, now=now or clock.now())
    return {finding.name: finding.outcome.value for finding in report.findings}


def faults_of(address: str) -> dict[str, str]:
    return {name: outcome for name, outcome in outcomes_of(address).items() if outcome in {"failed", "warning"}}


def settings(root: str, content: str) -> Answer:
    return Answer(200, f"<{root}>{content}</{root}>".encode(), {"Content-Type": "application/xml"})


def test_a_real_server_does_all_that_is_needed_and_nothing_is_left_behind(server):
    report = report_on(location_at(server), **KEYS, now=clock.now())
    store = S3Store(location_at(server), **KEYS, put_proof=PutProof.NONE)

    assert report.put_proof == PutProof.CHECKSUM_SHA256
    assert {finding.name: finding.text for finding in report.findings if finding.outcome in {"failed", "warning"}} == {}
    assert list(store.list_blobs("probe/")) == []


class TestStoreAsStorageGrid(BlobStoreContract):
    @pytest.fixture
    def store(self, server, request):
        with proxy(server, as_storagegrid) as address:
            location = location_at(address, f"grid-{abs(hash(request.node.nodeid))}")
            yield S3Store(location, **KEYS, put_proof=PutProof.CONTENT_MD5)


def test_a_server_as_storagegrid_is_used_with_md5_and_has_no_faults(server):
    with proxy(server, as_storagegrid) as address:
        report = report_on(location_at(address), **KEYS, now=clock.now())

        assert report.put_proof == PutProof.CONTENT_MD5
        assert faults_of(address) == {}
        assert outcomes_of(address)["lifecycle rules"] == outcomes_of(address)["object lock"] == "ok"


RULE = "<Rule><ID>clean up</ID><Status>{}</Status><Filter><Prefix>{}</Prefix></Filter>{}</Rule>"
AGE = "<Expiration><Days>30</Days></Expiration>"


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        (RULE.format("Enabled", "", AGE), "failed"),
        (RULE.format("Enabled", "report/datasets/", AGE), "failed"),
        (RULE.format("Enabled", "rep", AGE), "failed"),
        (RULE.format("Disabled", "", AGE), "ok"),
        (RULE.format("Enabled", "other/", AGE), "ok"),
        (
            RULE.format(
                "Enabled",
                "",
                "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>",
            ),
            "ok",
        ),
    ],
)
def test_a_rule_that_deletes_our_objects_by_age_is_a_failure(server, rule, outcome):
    def with_rule(request, forward):
        return settings("LifecycleConfiguration", rule) if request.path.endswith("?lifecycle") else forward(request)

    with proxy(server, with_rule) as address:
        assert outcomes_of(address)["lifecycle rules"] == outcome


def test_what_a_server_does_not_say_is_unknown(server):
    def silent(request, forward):
        return refusal(403, "AccessDenied") if request.path.endswith("?lifecycle") else forward(request)

    with proxy(server, silent) as address:
        assert outcomes_of(address)["lifecycle rules"] == "unknown"


def test_versions_and_locks_are_warned_of(server):
    def keeping(request, forward):
        if request.path.endswith("?versioning"):
            return settings("VersioningConfiguration", "<Status>Enabled</Status>")
        if request.path.endswith("?object-lock"):
            rule = "<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>7</Days></DefaultRetention></Rule>"
            return settings("ObjectLockConfiguration", f"<ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}")
        return forward(request)

    with proxy(server, keeping) as address:
        assert faults_of(address) == {"versions": "warning", "object lock": "warning"}


def test_a_listing_that_lags_is_warned_of(server):
    def lagging(request, forward):
        if "list-type=2" not in request.path:
            return forward(request)
        return settings("ListBucketResult", f"<Name>{escape(services.BUCKET)}</Name><IsTruncated>false</IsTruncated>")

    with proxy(server, lagging) as address:
        assert faults_of(address) == {"listing": "warning"}


def test_a_server_that_gives_the_whole_object_for_a_range_fails_both_checks_of_ranges(server):
    def whole(request, forward):
        answer = forward(request)
        if "Range" in request.headers and answer.status < 300:
            answer = Answer(200, b"0123456789", {"Content-Type": "application/octet-stream"})
        return answer

    with proxy(server, whole) as address:
        assert faults_of(address) == {"ranges": "failed", "signed downloads": "failed"}


def test_a_server_that_checks_no_signature_fails_where_access_must_end(server):
    def open_to_all(request, forward):
        answer = forward(request)
        return Answer(200, b"3456") if answer.status == 403 else answer

    with proxy(server, open_to_all) as address:
        assert faults_of(address) == {
            "signed uploads": "failed",
            "signed downloads": "failed",
            "expiry": "failed",
            "strangers": "failed",
        }


def test_one_check_that_breaks_leaves_the_others(server):
    def broken(request, forward):
        return refusal(405, "MethodNotAllowed") if "list-type=2" in request.path else forward(request)

    with proxy(server, broken) as address:
        assert faults_of(address) == {"listing": "failed"}


def test_a_clock_that_is_wrong_is_told(server):
    def late(request, forward):
        answer = forward(request)
        return Answer(answer.status, answer.body, {**answer.headers, "Date": "Thu, 01 Jan 2026 00:00:00 GMT"})

    with proxy(server, late) as address:
        assert faults_of(address) == {"clock": "warning"}


@pytest.fixture
def bucket(server, site_admin, db):
    location = f"s3://{services.BUCKET}/registered-report?endpoint={server}"
    return stores.register_s3_store(actor=site_admin, name="grid", location=location, **KEYS)


def test_the_command_tells_each_check_and_records_the_proof_that_was_seen(bucket):
    Store.objects.update(put_proof=PutProof.CONTENT_MD5)
    output = StringIO()

    call_command("report_on_stores", stdout=output)

    lines = output.getvalue().splitlines()
    assert lines[0] == "grid:"
    assert (
        "  ok       verified uploads: The server refuses an upload with other bytes than announced, by checksum-sha256."
        in lines
    )
    assert Store.objects.get().put_proof == PutProof.CHECKSUM_SHA256
    assert AuditEntry.objects.get(action="datasets.try_out_store").target_id == bucket.pk


def test_a_bucket_that_cannot_be_tried_out_leaves_the_others(bucket, site_admin):
    Store.objects.create(
        name="gone",
        kind="s3",
        location=bucket.location.replace(services.BUCKET, "no-such-bucket"),
        credentials=bucket.credentials,
        put_proof="none",
    )
    output = StringIO()

    with pytest.raises(CommandError, match=r"^1 checks failed\.$"):
        call_command("report_on_stores", stdout=output)

    assert "  ok       ranges: A range is exactly the bytes asked for." in output.getvalue().splitlines()


def test_a_folder_and_a_member_are_refused(site_admin, member, bucket, tmp_path):
    folder = stores.register_folder_store(actor=site_admin, name="folder", folder=tmp_path)

    with pytest.raises(InvalidStore, match="only buckets are tried out"):
        stores.report_on_store(actor=site_admin, store=folder)
    with pytest.raises(Exception, match="site admin"):
        stores.report_on_store(actor=member, store=bucket)
    with pytest.raises(CommandError, match=r"^No bucket is called 'x'\.$"):
        call_command("report_on_stores", "--store", "x")
