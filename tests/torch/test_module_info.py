"""PyTorch's own samples of all its modules: training, evaluation, gradients, moving to the device, state."""

from __future__ import annotations

import pytest

from tests.effort import some
from tests.torch.child import on_device
from tests.torch.test_opinfo import needs_expecttest

PARTS = 32


@needs_expecttest
@pytest.mark.part
@on_device(*some([str(k) for k in range(PARTS)], PARTS, 3))
def test_samples_of_modules(part: str) -> None:
    from tests.torch import module_info

    outcome = module_info.some(int(part), PARTS)
    assert outcome.ran.total()
    assert not outcome.failures, "\n".join(outcome.failures)


@needs_expecttest
@on_device(modes=("lazy",))
def test_what_is_skipped_is_there_and_has_a_reason() -> None:
    from tests.torch import module_info

    for name, reason in module_info.SKIPPED.items():
        assert name in module_info.MODULES and reason, name
