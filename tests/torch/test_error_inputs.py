"""PyTorch's own wrong calls of its ops, on the device as on the CPU. What only values tell is an error by a setting."""

from __future__ import annotations

import importlib.util
import os

import pytest

from tests.effort import some
from tests.torch.child import needs_torch, on_device

needs_expecttest = pytest.mark.skipif(
    importlib.util.find_spec("expecttest") is None, reason="PyTorch's samples need a package: pip install expecttest"
)
PARTS = 32


def _compared(part: int) -> None:
    from tests.torch import error_inputs

    os.environ["HABANA_SIM_CHECK_INDICES"] = "error"
    ran, failures = 0, []
    for name in sorted(error_inputs.OPS)[part::PARTS]:
        outcome = error_inputs.compare(name)
        ran += outcome.ran
        failures += outcome.failures
    assert ran and not failures, "\n".join(failures)


@needs_torch
@needs_expecttest
@pytest.mark.part
@on_device(*some([str(k) for k in range(PARTS)], PARTS // 2, 5))
def test_wrong_calls(part: str) -> None:
    _compared(int(part))
