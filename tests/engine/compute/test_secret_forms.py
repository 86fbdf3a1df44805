import base64
import json
import shlex
from urllib.parse import quote, quote_plus

import pytest

from compute.engine.masking import mask
from compute.engine.secret_forms import forms_of

VALUE = "pa/ss wörd+&=\"'\\7"


def masked(text, *values):
    return mask(text.encode(), forms_of(values)).decode()


@pytest.mark.parametrize(
    "printed",
    [
        VALUE,
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        repr(VALUE)[1:-1],
        shlex.quote(VALUE)[1:-1],
        quote(VALUE),
        quote(VALUE, safe=""),
        quote_plus(VALUE),
        quote(VALUE).replace("%C3%B6", "%c3%b6").replace("%2B", "%2b").replace("%3D", "%3d").replace("%5C", "%5c"),
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        base64.b64encode(VALUE.encode()).decode(),
        base64.urlsafe_b64encode(VALUE.encode()).decode(),
    ],
)
def test_every_form_of_a_value_is_masked(printed):
    assert masked(f"<{printed}>", VALUE) == "<***>"


@pytest.mark.parametrize("before", ["", "u", "us", "use", "user"])
def test_base64_of_a_longer_text_shows_nothing_of_the_value(before):
    value = "0123456789abcdef"

    shown = masked(base64.b64encode(f"{before}:{value}:x".encode()).decode(), value)

    assert "***" in shown
    decoded = base64.b64decode(shown.replace("***", "") + "==", validate=False)
    assert not any(value[at : at + 3].encode() in decoded for at in range(len(value) - 2))


def test_base64_in_lines_is_masked():
    value = "k" * 30 + "v" * 90

    shown = masked(base64.encodebytes(value.encode()).decode(), value)

    assert shown == "***\n***\n***\n"


def test_each_line_of_a_value_of_several_lines_is_masked():
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n"

    assert masked("  kqhkiG9w0BAQEF\r\n", key) == "  ***\r\n"


def test_values_of_fewer_than_four_bytes_are_not_masked():
    assert masked("abc 1 abc", "abc", "1", "") == "abc 1 abc"


def test_a_longer_secret_is_masked_whole_where_another_is_its_beginning():
    assert masked("abcdefgh", "abcd", "abcdefgh") == "***"
