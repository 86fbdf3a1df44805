"""Reading a kubeconfig that somebody uploaded: only what it holds itself is believed, and nothing in it is run.

A kubeconfig may name commands to run and files to read. Here both would be those of the server, so they are refused.
"""

import base64
import binascii
import ipaddress
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from core.kubernetes.errors import InvalidKubeconfig

MAX_BYTES = 64 * 1024
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MOST_EVENTS = 3_000
# What is nested deeply takes the reader of YAML a time that grows with the square.
_MOST_BRACKETS = 2_000
_FORBIDDEN = {
    "exec": "runs a command",
    "auth-provider": "runs a command",
    "tokenFile": "names a file",
    "certificate-authority": "names a file",
    "client-certificate": "names a file",
    "client-key": "names a file",
    "username": "signs in with a password",
    "password": "signs in with a password",
    "as": "acts as somebody else",
    "as-groups": "acts as somebody else",
    "as-uid": "acts as somebody else",
    "as-user-extra": "acts as somebody else",
    "proxy-url": "names a proxy",
    "insecure-skip-tls-verify": "switches off the check of the certificate",
}
_LEFT_OUT = frozenset({"REDACTED", "DATA+OMITTED"})
_HINT = (
    "Make one that holds everything itself: `kubectl config view --raw --flatten --minify`, "
    "with the token of a service account (see deploy/rbac)."
)


@dataclass(frozen=True)
class Kubeconfig:
    """How to reach one cluster. `ca`, `client_certificate` and `client_key` are Base64 of PEM; empty: none."""

    server: str
    context: str
    namespace: str = ""
    ca: str = ""
    tls_server_name: str = ""
    token: str = ""
    token_file: Path | None = None
    client_certificate: str = ""
    client_key: str = ""

    def read_token(self) -> str:
        """Return the token to sign in with; empty: there is none. Kubernetes replaces that of a pod every hour.

        Raises OSError where the pod has none any more.
        """
        return self.token_file.read_text().strip() if self.token_file else self.token

    def to_client_config(self) -> dict[str, Any]:
        """Return it as the official client reads a kubeconfig."""
        cluster = {"server": self.server, "certificate-authority-data": self.ca}
        cluster["tls-server-name"] = self.tls_server_name
        user = {"token": self.token, "client-certificate-data": self.client_certificate}
        user["client-key-data"] = self.client_key
        return {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": _filled(cluster)}],
            "users": [{"name": "u", "user": _filled(user)}],
        }


def own_account(folder: Path = _ACCOUNT, environ: Mapping[str, str] = os.environ) -> Kubeconfig:
    """Return how a pod reaches its own cluster, by its service account. Raises InvalidResource outside of a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        ca, namespace = (folder / "ca.crt").read_bytes(), (folder / "namespace").read_text().strip()
    except OSError:
        host = ""
    if not host:
        raise _refusal("Nearline does not run in a pod with a service account.", "Give a kubeconfig.")
    return Kubeconfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        context="own account",
        namespace=namespace,
        ca=base64.b64encode(ca).decode(),
        token_file=folder / "token",
    )


def read_kubeconfig(text: str, context: str = "") -> Kubeconfig:
    """Read one context of a kubeconfig; without a name the current one. Raises InvalidKubeconfig."""
    document = _parse(text)
    name = context or _text(document, "current-context")
    if not name:
        if not (names := _names(document)):
            raise _refusal("The kubeconfig has no contexts.")
        raise _refusal("The kubeconfig has no current context.", f"Name one of: {', '.join(names)}.")
    context_entry = _named(document, "contexts", "context", name)
    cluster = _named(document, "clusters", "cluster", _text(context_entry, "cluster"))
    user = _named(document, "users", "user", _text(context_entry, "user"))
    for section, entry in (("cluster", cluster), ("user", user)):
        for key, deed in _FORBIDDEN.items():
            if entry.get(key) not in (None, "", False, [], {}):
                raise _refusal(f"The {section} of the context '{name}' has '{key}', which {deed}.")
    config = Kubeconfig(
        server=_text(cluster, "server").rstrip("/"),
        context=name,
        namespace=_text(context_entry, "namespace"),
        ca=_pem(cluster, "certificate-authority-data"),
        tls_server_name=_text(cluster, "tls-server-name"),
        token=_text(user, "token").strip(),
        client_certificate=_pem(user, "client-certificate-data"),
        client_key=_pem(user, "client-key-data"),
    )
    _check(config)
    return config


def _check(config: Kubeconfig) -> None:
    try:
        address = urlsplit(config.server)
        host = address.hostname or ""
        _ = address.port
    except ValueError:
        raise _refusal("The address of the cluster cannot be read.") from None
    if address.scheme not in {"https", "http"} or not host or address.username or address.query or address.fragment:
        raise _refusal("The address of the cluster is no https:// address.")
    if not config.server.isascii() or not config.server.isprintable() or " " in config.server:
        raise _refusal("The address of the cluster holds signs that no address has.")
    number = _ip_of(host)
    is_loopback = host == "localhost" or (number is not None and number.is_loopback)
    if address.scheme == "http" and not is_loopback:
        raise _refusal(f"The address of the cluster, {config.server}, is not encrypted.", "Give its https:// address.")
    if number is not None and (number.is_link_local or number.is_multicast or number.is_unspecified):
        raise _refusal(f"{host} cannot be the address of a cluster.")
    if not config.token and not (config.client_certificate and config.client_key):
        raise _refusal(
            f"The user of the context '{config.context}' has neither a token nor a certificate with its key."
        )
    if config.token.split() not in ([], [config.token]):
        raise _refusal("The token holds a line break or a space.", "Write it on one line, without spaces.")
    if not (config.token.isascii() and config.token.isprintable()):
        raise _refusal("The token holds signs that no token has.", "Copy it again, as the cluster prints it.")


def _ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _parse(text: str) -> Mapping[str, Any]:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _refusal(f"The kubeconfig is larger than {MAX_BYTES // 1024} KiB.")
    if text.count("[") + text.count("{") > _MOST_BRACKETS:
        raise _refusal("The kubeconfig has too many entries.")
    try:
        # Counted first: aliases let a short text stand for an endless one, and no kubeconfig has any.
        for count, event in enumerate(YAML(typ="safe", pure=True).parse(text)):
            if count > _MOST_EVENTS or type(event).__name__ == "AliasEvent":
                raise _refusal("The kubeconfig has aliases or too many entries.")
        document = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise _refusal("This is no kubeconfig: it is not YAML.") from error
    if not isinstance(document, Mapping):
        raise _refusal("This is no kubeconfig.")
    return document


def _named(document: Mapping[str, Any], section: str, key: str, name: str) -> Mapping[str, Any]:
    for item in _items(document, section):
        if item.get("name") == name and isinstance(item.get(key), Mapping):
            content: Mapping[str, Any] = item[key]
            return content
    names = ", ".join(_names(document, section)) or "none"
    raise _refusal(f"The kubeconfig has no {key} called '{name[:100]}'. There are: {names[:500]}.")


def _names(document: Mapping[str, Any], section: str = "contexts") -> list[str]:
    return [item["name"] for item in _items(document, section) if isinstance(item.get("name"), str)]


def _items(document: Mapping[str, Any], section: str) -> Iterator[Mapping[str, Any]]:
    items = document.get(section)
    return (item for item in (items if isinstance(items, list) else []) if isinstance(item, Mapping))


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _refusal(f"'{key}' of the kubeconfig is no text.")
    if value in _LEFT_OUT:
        raise _refusal(f"'{key}' of the kubeconfig is left out: kubectl wrote {value}, as without --raw.")
    return value


def _pem(entry: Mapping[str, Any], key: str) -> str:
    data = "".join(_text(entry, key).split())
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise _refusal(f"'{key}' of the kubeconfig is not Base64.") from None
    if content and b"-----BEGIN " not in content:
        raise _refusal(f"'{key}' of the kubeconfig is not PEM.")
    return data


def _filled(entry: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in entry.items() if value}


def _refusal(message: str, hint: str = _HINT) -> InvalidKubeconfig:
    return InvalidKubeconfig(f"{message} {hint}")
