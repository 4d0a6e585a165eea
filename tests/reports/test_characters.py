"""No output fails on an encoding, and nothing that can be written is replaced."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habana_tf.reports.characters import columns, encodable, never_fail, width


@given(st.text(), st.sampled_from(["ascii", "latin-1", "cp437", "utf-8"]))
def test_every_text_can_be_written(text: str, encoding: str) -> None:
    shown = encodable(text, encoding)
    shown.encode(encoding)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        assert shown != text
    else:
        assert shown == text


def test_what_is_drawn_has_a_plain_form_of_the_same_width() -> None:
    assert encodable("─── 3 µs ▁█ é", "ascii") == "--- 3 us .@ \\xe9"


def test_a_command_s_stream_replaces_whatever_writes_to_it() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    with pytest.raises(UnicodeEncodeError):
        print("größe ─", file=stream)
    never_fail(stream, io.StringIO())
    print("größe ─ \udc80", file=stream, flush=True)
    assert raw.getvalue() == b"gr\\xf6\\xdfe - \\udc80\n"


def test_wide_and_combining_characters() -> None:
    assert (width("abc"), width("層1"), width("e\u0301")) == (3, 3, 1)


def test_the_width_of_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "93")
    assert columns(120) == 93
    monkeypatch.setenv("COLUMNS", "wide")
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert columns(120) == 120
