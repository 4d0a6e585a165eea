"""The compiler's tests run on the best instruction set of this CPU and on the portable one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from habana_tf.hardware import cpu


@pytest.fixture(params=["auto", "portable"])
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("HABANA_SIM_ISA", request.param)
    assert cpu.target().isa == (cpu.host().isa if request.param == "auto" else cpu.Isa.PORTABLE)
    yield request.param
