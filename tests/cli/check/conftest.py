"""A clean environment, with a machine of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from habana_tf import settings
from habana_tf.cli.check.finding import Finding
from tests import child


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in settings.declared():
        for name in (setting.name, *setting.aliases):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", child.machine())


def only(found: Iterator[Finding]) -> Finding:
    (finding,) = found
    return finding
