"""Numbers on command lines: what is none, or none that could be meant, is refused with what is allowed."""

from __future__ import annotations

import argparse
import ast
import math
from pathlib import Path

import pytest

from habana_tf.cli import numbers
from habana_tf.cli.recipes.common import age, byte_size
from habana_tf.cli.smi.main import main as hl_smi
from tests.installation import ROOT


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-1", "1e300", "", "x", "1e999", "9" * 5000, "0x10", "11"])
def test_what_is_no_such_number_is_refused(text: str) -> None:
    for kind, allowed in ((numbers.whole(0, 10), "whole number from 0 to 10"), (numbers.seconds(10), "from 0 to 10")):
        with pytest.raises(argparse.ArgumentTypeError, match=allowed) as raised:
            kind(text)
        assert len(str(raised.value)) < 120


def test_what_is_one_is_taken() -> None:
    assert [numbers.whole(1)(text) for text in ("1", " 7 ", "2147483647")] == [1, 7, 2**31 - 1]
    assert [numbers.seconds(10)(text) for text in ("0", "0.5", "10")] == [0, 0.5, 10]


@pytest.mark.parametrize("digits", ["9" * 30, "9" * 400])
def test_ages_and_sizes_stay_finite(digits: str) -> None:
    assert math.isfinite(age(digits + "w")) and age(digits + "w") > 1e10
    assert byte_size(digits + "G") == 2**62


@pytest.mark.parametrize("text", ["nan", "inf", "0", "-1", "1e300"])
def test_hl_smi_waits_for_a_time_that_passes(text: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        hl_smi(["-l", text])


def test_no_command_takes_any_number_that_python_takes() -> None:
    """`type=int` and `type=float` take nan, infinities and any number of digits."""
    sources = sorted((ROOT / "habana_tf" / "cli").rglob("*.py"))
    assert len(sources) > 20
    found = [
        f"{source.relative_to(Path(ROOT))}:{keyword.value.lineno}"
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "type" and isinstance(keyword.value, ast.Name) and keyword.value.id in ("int", "float")
    ]
    assert found == []
