"""Which kubeconfigs are taken: only those that hold everything themselves and make the server do nothing."""

import base64
import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compute.adapters.kubernetes.kubeconfig import Kubeconfig, read_kubeconfig
from compute.errors import InvalidResource

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
        ("user", "token", "two\nlines", "The token holds signs"),
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
    with pytest.raises(InvalidResource, match=words):
        read_kubeconfig(changed(section, key, value))


def test_no_encryption_is_needed_to_this_machine():
    assert read_kubeconfig(changed("cluster", "server", "http://127.0.0.1:8001")).server == "http://127.0.0.1:8001"


def test_an_unknown_context_is_refused_with_those_that_there_are():
    with pytest.raises(InvalidResource, match="no context called 'else'"):
        read_kubeconfig(json.dumps(CONFIG), "else")


@pytest.mark.parametrize(
    "text",
    ["", "- a\n- b", "a: [", "\x00", "a: &x [1]\nb: [*x, *x]", "x" * (64 * 1024 + 1), "[" * 30_000, "a: 1\n" * 3_000],
)
def test_what_is_no_kubeconfig_is_refused(text):
    with pytest.raises(InvalidResource):
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
    except InvalidResource:
        return
    assert config.server.startswith("https://")


@given(st.text(max_size=300))
def test_whatever_text_is_sent_is_refused(text):
    with pytest.raises(InvalidResource):
        read_kubeconfig(text)
