"""How much is tried: `make test` takes the part that finds most, `make test-all` takes what it left.

Two marks say what is left. `rest`: the test is in `make test-all` only, and a quicker one runs the same lines. `part`:
the test takes a part of its cases in `make test`, and all of them in `make test-all`, which runs it again.
`make test-all` sets TESTS_THOROUGH, which processes that a test starts inherit.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

THOROUGH = os.environ.get("TESTS_THOROUGH") == "1"


def some(cases: Sequence[T], every: int, first: int = 0) -> list[T]:
    """All cases; in `make test` every so many of them, from `first` on."""
    return list(cases) if THOROUGH else list(cases)[first::every]


def quickly(names: Sequence[str], every: int = 2) -> list[Any]:
    """Parameters of a test: every so many of the names for `make test`, the others with the mark `rest`."""
    return [name if k % every == 0 else pytest.param(name, marks=pytest.mark.rest) for k, name in enumerate(names)]


def part_of(cases: Sequence[T], variable: str) -> list[T]:
    """All cases; where an environment variable is K/N, every Nth of them, from the Kth on: CI takes another part
    of what is long each day."""
    part, _, parts = os.environ.get(variable, "0/1").partition("/")
    return list(cases)[int(part) % int(parts) :: int(parts)]


def chosen(request: pytest.FixtureRequest, parameter: str) -> list[str]:
    """The values of a parameter over all tests of the file that will run: what a fixture of the file has to prepare."""
    items = (item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function))
    values = [item.callspec.params.get(parameter) for item in items if hasattr(item, "callspec")]
    return list(dict.fromkeys(v for v in values if v is not None))
