"""Errors of programs beside HPU have the words and the places that stock TensorFlow gives them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import error_place_cases, forked
from tests.child import environment
from tests.effort import chosen, some
from tests.versions import KERAS_3

pytestmark = pytest.mark.skipif(KERAS_3, reason="what Keras 3 traces is left as it is")

SCRIPT = Path(error_place_cases.__file__)
LEFT_OUT = "/habana_tf/", "/tensorflow/python/eager/"
"""Files whose frames do not count: ours, and TensorFlow's tracing of functions (Keras' step is traced once)."""
PLACE = re.compile(r' *File "([^"]*)", line (\d+), in (\S+)')
SEVERAL, WORDS = "a loss that fails when it is run", "labels below zero"
"""A case whose error TensorFlow may tell more than once, as one of "2 root error(s)", and what is in its last line."""
OUTSIDE = (
    "inputs of another shape",
    "several steps",
    "no labels",
    "labels that do not go",
    "an eager",
    "a function that",
    "an LSTM",
    "a GRU",
)
"""Starts of the names of cases whose error, with stock TensorFlow too, names no line of the program."""


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> dict[str, list[dict[str, str]]]:
    done = forked.run([str(SCRIPT), *chosen(request, "name")], environment(), timeout=600, hpu=True)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[dict[str, str]]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.part
@pytest.mark.parametrize("name", some(list(error_place_cases.CASES), every=4, first=1))
def test_an_error_is_told_as_stock_tensorflow_tells_it(cases: dict[str, list[dict[str, str]]], name: str) -> None:
    stock, ours = cases[name]
    assert ours["type"] == stock["type"] != "none"
    told, wanted = lines(ours["text"]), lines(stock["text"])
    if name == SEVERAL:
        told, wanted = (_once(text) for text in (told, wanted))
    assert told == wanted
    places = [match for line in wanted if (match := PLACE.match(line))]
    users = any(match[1] == str(SCRIPT) for match in places)
    assert users or name.startswith(OUTSIDE), places


def _once(told: list[str]) -> list[str]:
    """Of an error that TensorFlow tells once per branch, "(0) INVALID_ARGUMENT:", the places and the words, once."""
    found = [line for line in told if PLACE.match(line) or WORDS in line]
    return list(dict.fromkeys(re.sub(r"^ *\(\d+\) [A-Z_]+: +", "", line) for line in found))


def lines(text: str) -> list[str]:
    """An error's lines, without our own frames and what is counted."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    plain = re.sub(r"__autograph_generated_file\w+", "__autograph_generated_file", plain)
    plain = re.sub(r"(__inference_[\w<>]*?|AssertGuard_false)_\d+\b", r"\1", plain)
    plain = re.sub(r"{{function_node __wrapped__\w*device_\S*?device:CPU:0}} ", "", plain)  # no function on HPU
    plain = re.sub(r"{{node [\w/]+}} = (\w+\[.*?\])\(.*?\)", r"\1", plain)  # a layer may be part of the step
    found: list[str] = []
    left_out = False
    for line in filter(str.strip, plain.splitlines()):
        match = PLACE.match(line)
        if match:
            left_out = any(path in match[1] for path in LEFT_OUT)
        elif not line.startswith("  "):
            left_out = False
        if not left_out:
            found.append(line)
    return found
