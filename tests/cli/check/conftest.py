"""A clean environment, with a machine of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from habana_tf.cli.check.finding import Finding
from tests import child


@pytest.fixture(autouse=True)
def clean(without_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", child.machine())


def only(found: Iterator[Finding]) -> Finding:
    (finding,) = found
    return finding
