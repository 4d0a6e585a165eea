"""Keras 2's `fit` traces its step once beside HPU, and nothing else about it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tensorflow.changes.keras2.both_ways import Seen, of_script
from tests.versions import KERAS_3

pytestmark = [
    pytest.mark.rest,
    pytest.mark.skipif(KERAS_3, reason="Keras 3 has its variables before it traces"),
]

TRACES = {  # of the loss with it, and without: in the training step, and in the one of evaluation
    "dense": (2, 3),
    "no slots": (2, 3),
    "dropout": (2, 3),
    "dropout twice": (2, 3),
    "clipped, averaged": (2, 3),
    "two outputs": (2, 3),
    "several steps": (4, 6),
    "scaled loss": (2, 3),
    "recurrent": (2, 3),
    "built": (2, 3),
    "unbuilt": (3, 3),
    "own step": (3, 3),
    "own step, converted": (3, 3),
    "step of one object": (2, 3),  # that of evaluation is as Keras has it
    "own loss": (3, 3),
    "own metrics": (3, 3),
    "own optimizer": (3, 3),
    "legacy": (3, 3),
    "evaluated first": (3, 5),
    "strategy": (2, 3),
}


@pytest.fixture(scope="module")
def cases() -> Seen:
    return of_script(Path(__file__).with_name("tracing_cases.py"))


@pytest.mark.parametrize("name", TRACES)
def test_the_step_is_traced_once(cases: Seen, name: str) -> None:
    assert tuple(seen["traces"] for seen in cases[name]) == TRACES[name]


@pytest.mark.parametrize("name", TRACES)
def test_nothing_else_changes(cases: Seen, name: str) -> None:
    """Losses, metrics and weights to the bit, dropout's too; names and order of slots and metrics. What is in other
    launches than before is rounded elsewhere (`keras2/recurrent.py`)."""
    mine, keras = ({k: v for k, v in seen.items() if k != "traces"} for seen in cases[name])
    if name == "recurrent":
        for what in ("history", "weights"):
            for ours, theirs in zip(*(numbers(seen.pop(what)) for seen in (mine, keras)), strict=True):
                assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-6)
    assert mine == keras


def numbers(found: Any) -> list[float]:
    """The numbers in lists and dictionaries, in order."""
    if isinstance(found, dict):
        found = list(found.values())
    return [x for item in found for x in numbers(item)] if isinstance(found, list) else [found]
