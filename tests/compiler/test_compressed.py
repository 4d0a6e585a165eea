"""Sections kept aside come back as they were, and what is none says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habana_tf.compiler import compressed


@given(st.binary(max_size=4096))
def test_round_trip(text: bytes) -> None:
    assert compressed.take(compressed.put(text)) == text


def test_text_is_kept_small() -> None:
    text = b'{"engine":"TPC","does":"map","shape":[64,112,112,64]},' * 100
    assert len(compressed.put(text)) < len(text) / 5


@pytest.mark.parametrize("section", [b"", b"{}", compressed.put(b"text" * 100)[:-5]])
def test_what_is_none(section: bytes) -> None:
    with pytest.raises(ValueError, match="not understood"):
        compressed.take(section)
