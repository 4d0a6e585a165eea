"""The benchmark of recording runs, and tells events from none."""

from __future__ import annotations

import re

import pytest

from tests.benchmarks import recording


@pytest.mark.rest
def test_a_line_per_model(capfd: pytest.CaptureFixture[str]) -> None:
    recording.main(["--models", "mlp", "--pairs", "2", "--seconds", "0.05"])
    (line,) = capfd.readouterr().out.splitlines()
    found = re.fullmatch(
        r"mlp: on/off ([\d.]+) \(.*\), [\d.]+ ms of processor time per step, (\d+) events per step", line
    )
    assert found is not None, line
    assert 0.3 < float(found[1]) < 3  # no measurement, but no nonsense
    assert int(found[2]) >= 10
