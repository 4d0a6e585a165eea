"""What a person types and reads: ages, sizes, lists that are too long."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from habana_tf.cli.recipes.common import age, byte_size, shortened


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5m", 90), ("12h", 43200), ("30d", 2592000), ("2w", 1209600)]
)
def test_ages(text: str, seconds: float) -> None:
    assert age(text) == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [("4096", 4096), ("64K", 65536), ("1.5k", 1536), ("512MiB", 512 << 20), ("2G", 2 << 30)],
)
def test_sizes(text: str, count: int) -> None:
    assert byte_size(text) == count


@pytest.mark.parametrize("text", ["", "12", "d", "-1d", "1y", "1 d"])
def test_no_age(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write 90s"):
        age(text)


@pytest.mark.parametrize("text", ["", "M", "-1", "1T", "1 K"])
def test_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write 4096"):
        byte_size(text)


@given(st.lists(st.text("abc[,]", min_size=1, max_size=20), max_size=20).map(", ".join), st.integers(6, 80))
def test_a_list_that_is_too_long(text: str, limit: int) -> None:
    short = shortened(text, limit)
    items = text.split(", ")
    assert len(short) <= max(limit, len(items[0]) + len(", ..."))
    assert short == text or (short.endswith(", ...") and items[: short.count(", ")] == short.split(", ")[:-1])


def test_a_comma_at_the_limit_goes_with_its_item() -> None:
    assert shortened("[[[[[[[[[[, [, [[", 16) == "[[[[[[[[[[, ..."


def test_a_shape_is_not_cut() -> None:
    assert shortened("float32[2,3], float32[64,8,8,1]", 30) == "float32[2,3], ..."
