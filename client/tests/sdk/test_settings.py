"""Flag, environment, profile, default: in this order; a token goes only to the server that it was made for."""

import stat

import pytest

from nearline.errors import Failed, InvalidRequest
from nearline.settings import Profile, normalize_url, profile_path, read_profile, read_settings, write_profile


@pytest.fixture
def home(tmp_path):
    return {"HOME": str(tmp_path)}


def test_without_anything_the_local_server_is_meant_and_nobody_is_signed_in(home):
    settings = read_settings(environ=home)

    assert (settings.url, settings.token, settings.project) == ("http://127.0.0.1:8000", None, None)


def test_the_profile_beats_the_default(home):
    write_profile(Profile(url="http://one", project="p", tokens={"http://one": "secret"}), home)

    settings = read_settings(environ=home)

    assert (settings.url, settings.token, settings.project) == ("http://one", "secret", "p")


def test_the_environment_beats_the_profile(home):
    write_profile(Profile(url="http://one", project="p", tokens={"http://one": "secret"}), home)
    environ = {**home, "NEARLINE_URL": "http://two/", "NEARLINE_TOKEN": "other", "NEARLINE_PROJECT": "q"}

    settings = read_settings(environ=environ)

    assert (settings.url, settings.token, settings.project) == ("http://two", "other", "q")


def test_what_is_passed_beats_the_environment(home):
    environ = {**home, "NEARLINE_URL": "http://two", "NEARLINE_TOKEN": "other", "NEARLINE_PROJECT": "q"}

    settings = read_settings(url="http://three", token="mine", project="r", environ=environ)

    assert (settings.url, settings.token, settings.project) == ("http://three", "mine", "r")


def test_a_token_of_the_profile_is_not_sent_to_another_server(home):
    write_profile(Profile(url="http://one", tokens={"http://one": "secret"}), home)

    assert read_settings(url="http://two", environ=home).token is None


def test_the_profile_is_readable_by_its_owner_only(home):
    path = write_profile(Profile(url="http://one", tokens={"http://one": "secret"}), home)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_the_profile_follows_the_configuration_folder_of_the_desktop(tmp_path):
    assert profile_path({"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "nearline" / "config.json"


def test_signing_in_elsewhere_keeps_the_first_token(home):
    profile = Profile().with_login("http://one", "a").with_login("http://two", "b")

    assert (profile.url, profile.tokens) == ("http://two", {"http://one": "a", "http://two": "b"})
    assert profile.without_login("http://one").tokens == {"http://two": "b"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", "it is no JSON object"),
        (b'{"url": 5}', "'url' is no text"),
        (b'{"project": ["a"]}', "'project' is no text"),
        (b'{"url": "a\\nb"}', "'url' is not valid"),
        (b'{"tokens": 3}', "'tokens' is no JSON object"),
        (b'{"tokens": ["ab"]}', "'tokens' is no JSON object"),
        (b'{"tokens": {"http://one": 5}}', "'http://one' is no text"),
    ],
)
def test_a_damaged_profile_is_named_with_its_key(home, content, reason):
    path = profile_path(home)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    with pytest.raises(InvalidRequest) as refused:
        read_profile(home)

    assert refused.value.message == f"The profile {path} cannot be read: {reason}."
    assert refused.value.hint == "Remove it and run `nearline login` again."


def test_a_profile_that_cannot_be_written_is_named_and_leaves_nothing(home):
    path = profile_path(home)
    path.mkdir(parents=True)

    with pytest.raises(Failed, match=r"config\.json cannot be written: Is a directory\."):
        write_profile(Profile(), home)

    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://host:8000/", "http://host:8000"),
        ("host:8000", "http://host:8000"),
        (" https://host/nearline/ ", "https://host/nearline"),
    ],
)
def test_addresses_are_brought_into_one_form(given, meant):
    assert normalize_url(given) == meant


@pytest.mark.parametrize("given", ["ftp://host", "http://"])
def test_what_is_no_address_is_refused(given):
    with pytest.raises(InvalidRequest):
        normalize_url(given)
