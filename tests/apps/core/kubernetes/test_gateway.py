"""How the API server is spoken with: what is asked again, what is refused, and when it is left alone."""

import json
import socket
import ssl
import threading
import time
from contextlib import suppress

import pytest
from asgiref.sync import async_to_sync

from core.breaker import Breaker
from core.kubernetes.errors import ClusterUnreachable, KubeconfigRefused
from core.kubernetes.gateway import Expired, Gateway, Refusal
from core.kubernetes.kubeconfig import Kubeconfig
from tests.apps.core.kubernetes.conftest import Server
from tests.contracts.compute.docker.certificates import write_certificates
from tests.ports import reserve_port

PODS = "/api/v1/pods"


def make_breaker(now: list[float]) -> Breaker:
    return Breaker(ClusterUnreachable, longest_s=13, now=lambda: now[0])


def status(code, reason, message=""):
    return code, {"kind": "Status", "code": code, "reason": reason, "message": message}


def test_every_call_carries_the_token(server, gateway):
    server.answers = [(200, {"kind": "Pod"})]

    assert gateway.get(f"{PODS}/a") == {"kind": "Pod"}

    assert server.asked[0][2]["Authorization"] == "Bearer secret"


def test_no_call_and_no_connection_is_led_to_another_host(server, gateway):
    other = Server()
    server.location, server.answers = f"{other.url}/latest".replace("http", "ws"), [(302, {})] * 3
    try:
        for call in (
            lambda: gateway.get(f"{PODS}/a"),
            lambda: gateway.connect(f"{PODS}/a/exec", [], []),
            lambda: async_to_sync(gateway.open_stream)(f"{PODS}/a/exec", [], []),
        ):
            with pytest.raises((Refusal, ClusterUnreachable)):
                call()
    finally:
        other.close()

    assert (len(server.asked), other.asked) == (3, [])


def test_what_does_not_exist_is_none(server, gateway):
    server.answers = [status(404, "NotFound"), status(404, "NotFound"), status(404, "NotFound")]

    assert gateway.get(f"{PODS}/a") is None
    assert gateway.patch(f"{PODS}/a", {}) is None
    gateway.delete(f"{PODS}/a")


def test_what_exists_is_not_created_again(server, gateway):
    server.answers = [status(409, "AlreadyExists")]

    assert gateway.create(PODS, {}) is None


def test_what_conflicts_within_the_cluster_may_be_asked_again(server, gateway):
    server.answers = [status(409, "Conflict", "Operation cannot be fulfilled on resourcequotas"), (201, {"made": 1})]

    with pytest.raises(ClusterUnreachable, match="Operation cannot be fulfilled on resourcequotas"):
        gateway.create(PODS, {})

    assert gateway.create(PODS, {}) == {"made": 1}


def test_what_is_refused_says_why(server, gateway):
    server.answers = [status(403, "Forbidden", "exceeded quota: tight")]

    with pytest.raises(Refusal, match="exceeded quota: tight") as refused:
        gateway.create(PODS, {})

    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_an_object_is_deleted_only_while_it_is_the_same(server, gateway):
    server.answers = [status(409, "Conflict")]

    gateway.delete(f"{PODS}/a", uid="u-1", grace_s=5)

    _, _, _, body = server.asked[0]
    assert (body["preconditions"], body["gracePeriodSeconds"], body["propagationPolicy"]) == (
        {"uid": "u-1"},
        5,
        "Background",
    )


def test_a_list_is_read_page_by_page(server, gateway):
    server.answers = [
        (200, {"metadata": {"continue": "next", "resourceVersion": "1"}, "items": [{"n": 1}]}),
        (200, {"metadata": {"resourceVersion": "2"}, "items": [{"n": 2}]}),
    ]

    listed = gateway.list(PODS, labelSelector="a=b")

    assert (listed.items, listed.version) == ([{"n": 1}, {"n": 2}], "2")
    assert [path for _, path, _, _ in server.asked] == [
        f"{PODS}?labelSelector=a%3Db&limit=500",
        f"{PODS}?labelSelector=a%3Db&limit=500&continue=next",
    ]


def test_a_list_whose_pages_expired_is_begun_anew(server, gateway):
    server.answers = [
        (200, {"metadata": {"continue": "next"}, "items": [{"n": 1}]}),
        status(410, "Expired"),
        (200, {"metadata": {"resourceVersion": "3"}, "items": [{"n": 1}, {"n": 2}]}),
    ]

    assert gateway.list(PODS).items == [{"n": 1}, {"n": 2}]


def test_a_watch_yields_what_changes(server, gateway):
    events = [{"type": "ADDED", "object": {"n": 1}}, {"type": "BOOKMARK", "object": {"n": 2}}]
    server.answers = [(200, b"".join(json.dumps(event).encode() + b"\n" for event in events))]

    assert list(gateway.watch(PODS, "7")) == [("ADDED", {"n": 1}), ("BOOKMARK", {"n": 2})]
    assert "resourceVersion=7" in server.asked[0][1]


def test_who_has_set_which_field_is_not_kept(server, gateway):
    pod = {"metadata": {"name": "a", "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:spec": {}}}]}}
    server.answers = [
        (200, pod),
        (200, {"items": [pod], "metadata": {"resourceVersion": "7"}}),
        (200, json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n"),
    ]

    assert gateway.get(f"{PODS}/a") == {"metadata": {"name": "a"}}
    assert gateway.list(PODS).items == [{"metadata": {"name": "a"}}]
    assert list(gateway.watch(PODS, "7")) == [("ADDED", {"metadata": {"name": "a"}})]


def test_of_a_list_only_what_is_asked_for_is_kept_of_each_stored_object(server, gateway):
    claim = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 1}}
    pod = {"metadata": {"name": "a", "uid": "u-1", "managedFields": []}, "spec": {"claim": claim}}
    server.answers = [(200, {"metadata": {"resourceVersion": "7"}, "items": [pod]})]
    seen = []

    items = gateway.list(PODS, keep=lambda item: seen.append(item) or {"kept": item["metadata"]["name"]}).items

    assert items == [{"kept": "a"}]
    assert seen == [{"metadata": {"name": "a", "uid": "u-1"}, "spec": {"claim": claim}}]


@pytest.mark.parametrize(
    "answer", [status(410, "Expired"), (200, json.dumps({"type": "ERROR", "object": {"code": 410}}).encode() + b"\n")]
)
def test_a_watch_from_a_forgotten_version_says_so(server, gateway, answer):
    server.answers = [answer]

    with pytest.raises(Expired):
        list(gateway.watch(PODS, "7"))


def test_an_account_that_is_not_known_is_told_as_such(server, gateway):
    server.answers = [status(401, "Unauthorized", "Unauthorized")]

    with pytest.raises(KubeconfigRefused) as error:
        gateway.get(PODS)

    assert error.value.message == (
        f"{server.url} answered 401: Unauthorized. The token or certificate is wrong or has expired."
    )


def test_a_certificate_of_somebody_else_is_told_as_such(tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    write_certificates(tmp_path / "certificates")
    context.load_cert_chain(*(tmp_path / "certificates" / name for name in ("daemon.pem", "daemon-key.pem")))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=refuse_one, args=(context, listener))
        thread.start()
        config = Kubeconfig(f"https://127.0.0.1:{listener.getsockname()[1]}", "lab", token="t")

        with pytest.raises(KubeconfigRefused) as error:
            Gateway(config).get(PODS)

        thread.join()
    assert error.value.message == (
        f"{config.server} shows a certificate that the kubeconfig does not trust: "
        "unable to get local issuer certificate."
    )


def close_one(listener):
    connection, _ = listener.accept()
    connection.close()


def refuse_one(context, listener):
    connection, _ = listener.accept()
    with connection, suppress(ssl.SSLError):
        context.wrap_socket(connection, server_side=True)


@pytest.mark.parametrize("code", [429, 500, 503])
def test_what_a_later_call_can_cure_is_no_refusal(server, gateway, code):
    server.answers = [status(code, "Some", "reason")]

    with pytest.raises(ClusterUnreachable, match=f"answered {code}: reason"):
        gateway.get(PODS)


def test_a_node_that_does_not_give_its_log_says_nothing_of_the_cluster(server, gateway):
    server.answers = [status(500, "Internal", "dial tcp")] * 3 + [(200, {})]

    for _ in range(3):
        with pytest.raises(ClusterUnreachable, match="dial tcp"):
            list(gateway.stream(f"{PODS}/a/log"))

    assert gateway.get(PODS) == {}


def test_a_cluster_that_does_not_answer_is_asked_less_and_less_often():
    now = [0.0]
    gateway = Gateway(Kubeconfig(f"http://127.0.0.1:{reserve_port()}", "lab", token="t"), make_breaker(now))

    def ask() -> int:
        before = gateway.calls
        with pytest.raises(ClusterUnreachable, match="does not answer"):
            gateway.get(PODS)
        return gateway.calls - before

    asked = []
    for second in range(16):
        now[0] = float(second)
        asked.append(ask())

    assert asked == [1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]


def test_one_answer_ends_the_pauses(server):
    now = [0.0]
    gateway = Gateway(Kubeconfig(server.url, "lab", token="t"), make_breaker(now))
    server.answers = [status(503, "Some")] * 2 + [(200, {})] * 2
    for _ in range(2):
        with pytest.raises(ClusterUnreachable):
            gateway.get(PODS)

    now[0] = 1.0

    assert (gateway.get(PODS), gateway.get(PODS)) == ({}, {})


@pytest.fixture
def black_hole():
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_nobody_but_its_attendant_waits_for_a_cluster_that_accepts_and_never_answers(black_hole):
    gateway = Gateway(Kubeconfig(black_hole, "lab", token="t"), is_attended=True, answer_s=0.1)
    with pytest.raises(ClusterUnreachable, match="does not answer"):
        gateway.get(PODS)
    before = gateway.calls

    for _ in range(1000):
        with pytest.raises(ClusterUnreachable, match="does not answer"):
            gateway.get(PODS)

    assert gateway.calls - before < 5
    assert gateway.outages == 1


def test_the_attendant_notices_that_the_cluster_answers_again(server):
    gateway = Gateway(Kubeconfig(server.url, "lab", token="t"), is_attended=True)
    server.answers = [status(503, "Some")] * 2 + [(200, {"gitVersion": "v1"}), (200, {"kind": "Pod"})]
    for _ in range(2):
        with pytest.raises(ClusterUnreachable):
            gateway.get(PODS)

    wait_for_answer(gateway)

    assert gateway.get(PODS) == {"kind": "Pod"}
    assert [path for _, path, *_ in server.asked[2:]] == ["/version", PODS]


def wait_for_answer(gateway):
    deadline = time.monotonic() + 60
    while True:
        try:
            return gateway.check()
        except ClusterUnreachable:
            assert time.monotonic() < deadline
            threading.Event().wait(0.01)


def test_a_node_that_keeps_a_log_to_itself_does_not_make_the_cluster_unreachable(black_hole):
    gateway = Gateway(Kubeconfig(black_hole, "lab", token="t"))

    with pytest.raises(ClusterUnreachable, match="The node's answer cannot be read"):
        list(gateway.stream(f"{PODS}/a/log", read_s=0.1))

    gateway.check()


def test_an_outage_is_told_without_the_objects_of_a_library():
    config = Kubeconfig(f"http://127.0.0.1:{reserve_port()}", "lab", token="t")

    with pytest.raises(ClusterUnreachable) as error:
        Gateway(config).get(PODS)

    assert error.value.message == (
        f"{config.server} does not answer: Failed to establish a new connection: Connection refused."
    )


def test_an_answer_that_is_none_of_http_is_told_without_the_objects_of_a_library():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = Kubeconfig(f"http://127.0.0.1:{listener.getsockname()[1]}", "lab", token="t")
        thread = threading.Thread(target=close_one, args=(listener,))
        thread.start()

        with pytest.raises(ClusterUnreachable) as error:
            Gateway(config).get("/version")

        thread.join()
    assert error.value.message.startswith(f"{config.server} does not answer: ")
    assert "(" not in error.value.message
    assert "[Errno" not in error.value.message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (5, "answered JSON that is no object of Kubernetes."),
        ([], "answered JSON that is no object of Kubernetes."),
        (b"[" * 200_000, "answered something that is no JSON."),
        ({"items": {"a": 1}}, "answered a list that is none of Kubernetes."),
    ],
)
def test_what_no_api_server_answers_is_an_outage_in_words(server, gateway, answer, words):
    server.answers = [(200, answer)]

    with pytest.raises(ClusterUnreachable, match=f"{server.url} {words}"):
        gateway.list(PODS)
