"""Which kubeconfigs are taken: only those that hold everything themselves and make the server do nothing."""

import base64
import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.kubernetes.errors import InvalidKubeconfig
from core.kubernetes.kubeconfig import Kubeconfig, own_account, read_kubeconfig

PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n").decode()
CONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "lab",
    "contexts": [{"name": "lab", "context": {"cluster": "one", "user": "robot", "namespace": "jobs"}}],
    "clusters": [{"name": "one", "cluster": {"server": "https://10.1.2.3:6443/", "certificate-authority-data": PEM}}],
    "users": [{"name": "robot", "user": {"token": "secret-token"}}],
}


def changed(section, key, value):
    config = copy.deepcopy(CONFIG)
    config[f"{section}s"][0][section][key] = value
    return json.dumps(config)


def test_a_kubeconfig_with_inline_data_is_read():
    config = read_kubeconfig(json.dumps(CONFIG))

    assert config == Kubeconfig("https://10.1.2.3:6443", "lab", "jobs", ca=PEM, token="secret-token")


def test_a_context_is_chosen_by_its_name():
    config = copy.deepcopy(CONFIG)
    config["contexts"].append({"name": "other", "context": {"cluster": "one", "user": "robot", "namespace": "else"}})

    assert read_kubeconfig(json.dumps(config), "other").namespace == "else"


def test_a_client_certificate_with_its_key_is_as_good_as_a_token():
    user = {"client-certificate-data": PEM, "client-key-data": PEM}
    config = copy.deepcopy(CONFIG) | {"users": [{"name": "robot", "user": user}]}

    read = read_kubeconfig(json.dumps(config))

    assert (read.client_certificate, read.client_key, read.token) == (PEM, PEM, "")


def test_a_line_break_after_a_token_is_no_part_of_it():
    assert read_kubeconfig(changed("user", "token", "secret-token\n")).token == "secret-token"


def test_the_official_client_gets_inline_data_only():
    assert read_kubeconfig(json.dumps(CONFIG)).to_client_config() == {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.1.2.3:6443", "certificate-authority-data": PEM}}],
        "users": [{"name": "u", "user": {"token": "secret-token"}}],
    }


@pytest.mark.parametrize(
    ("section", "key", "value", "words"),
    [
        ("user", "exec", {"command": "sh"}, "'exec', which runs a command"),
        ("user", "auth-provider", {"name": "gcp"}, "'auth-provider', which runs a command"),
        ("user", "tokenFile", "/etc/passwd", "'tokenFile', which names a file"),
        ("user", "client-key", "/etc/passwd", "'client-key', which names a file"),
        ("user", "client-certificate", "/etc/passwd", "'client-certificate', which names a file"),
        ("user", "password", "x", "'password', which signs in with a password"),
        ("user", "as", "root", "'as', which acts as somebody else"),
        ("user", "token", "two\nlines", "The token holds a line break or a space. Write it on one line"),
        ("user", "token", "signs\x07", "The token holds signs that no token has. Copy it again"),
        (
            "user",
            "token",
            "REDACTED",
            "'token' of the kubeconfig is left out: kubectl wrote REDACTED, as without --raw",
        ),
        ("user", "client-key-data", "DATA+OMITTED", "'client-key-data' of the kubeconfig is left out"),
        ("user", "token", 7, "'token' of the kubeconfig is no text"),
        ("user", "token", "", "neither a token nor a certificate"),
        ("user", "client-key-data", "!", "is not Base64"),
        ("user", "client-key-data", "abcd", "is not PEM"),
        ("cluster", "certificate-authority", "/etc/passwd", "'certificate-authority', which names a file"),
        ("cluster", "proxy-url", "http://proxy", "'proxy-url', which names a proxy"),
        ("cluster", "insecure-skip-tls-verify", True, "switches off the check of the certificate"),
        ("cluster", "server", "http://10.1.2.3:6443", "is not encrypted"),
        ("cluster", "server", "ftp://10.1.2.3", "is no https:// address"),
        ("cluster", "server", "https://user@10.1.2.3", "is no https:// address"),
        ("cluster", "server", "https://10.1.2.3:port", "cannot be read"),
        ("cluster", "server", "https://169.254.169.254", "cannot be the address of a cluster"),
        ("cluster", "server", "https://0.0.0.0", "cannot be the address of a cluster"),
        ("context", "user", "nobody", "no user called 'nobody'. There are: robot"),
    ],
)
def test_what_would_run_read_or_leak_something_is_refused(section, key, value, words):
    with pytest.raises(InvalidKubeconfig, match=words):
        read_kubeconfig(changed(section, key, value))


def test_no_encryption_is_needed_to_this_machine():
    assert read_kubeconfig(changed("cluster", "server", "http://127.0.0.1:8001")).server == "http://127.0.0.1:8001"


def test_an_unknown_context_is_refused_with_those_that_there_are():
    with pytest.raises(InvalidKubeconfig, match="no context called 'else'"):
        read_kubeconfig(json.dumps(CONFIG), "else")


@pytest.mark.parametrize(
    "text",
    ["", "- a\n- b", "a: [", "\x00", "a: &x [1]\nb: [*x, *x]", "x" * (64 * 1024 + 1), "[" * 30_000, "a: 1\n" * 3_000],
)
def test_what_is_no_kubeconfig_is_refused(text):
    with pytest.raises(InvalidKubeconfig):
        read_kubeconfig(text)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.sampled_from(["lab", "one", "robot"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "context", "cluster", "user", "server", "token", "exec", "namespace"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from(sorted(CONFIG)), values)
def test_whatever_stands_in_a_kubeconfig_it_is_read_or_refused(key, value):
    try:
        config = read_kubeconfig(json.dumps(CONFIG | {key: value}))
    except InvalidKubeconfig:
        return
    assert config.server.startswith("https://")


@given(st.text(max_size=300))
def test_whatever_text_is_sent_is_refused(text):
    with pytest.raises(InvalidKubeconfig):
        read_kubeconfig(text)


ACCOUNT = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path):
    """The folder that Kubernetes mounts into a pod with a service account."""
    for name, content in (("ca.crt", base64.b64decode(PEM)), ("namespace", b"nearline\n"), ("token", b"first\n")):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_a_pod_reaches_its_cluster_by_its_own_account(account):
    config = own_account(account, ACCOUNT)

    assert (config.server, config.namespace, config.ca) == ("https://10.0.0.1:443", "nearline", PEM)
    assert own_account(account, {**ACCOUNT, "KUBERNETES_SERVICE_HOST": "fd00::1"}).server == "https://[fd00::1]:443"


def test_the_token_of_a_pod_is_read_anew_as_kubernetes_replaces_it(account):
    config = own_account(account, ACCOUNT)
    assert config.read_token() == "first"

    (account / "token").write_text("second")

    assert config.read_token() == "second"


@pytest.mark.parametrize("missing", ["ca.crt", "namespace", "KUBERNETES_SERVICE_HOST"])
def test_outside_of_a_pod_there_is_no_own_account(account, missing):
    environ = {name: value for name, value in ACCOUNT.items() if name != missing}
    (account / missing).unlink(missing_ok=True)

    with pytest.raises(InvalidKubeconfig, match="does not run in a pod"):
        own_account(account, environ)
