"""PyTorch's own settings of all its optimizers: weights, state, states that are loaded."""

from __future__ import annotations

import pytest

from tests.effort import some
from tests.torch.child import on_device
from tests.torch.test_opinfo import needs_expecttest

NAMES = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "RAdam", "RMSprop",
    "Rprop", "SGD",
]  # fmt: skip


@needs_expecttest
@pytest.mark.part
@on_device(*some(NAMES, len(NAMES), NAMES.index("RMSprop")))
def test_settings_of_optimizers(name: str) -> None:
    from tests.torch import optimizer_info

    outcome = optimizer_info.run(name)
    assert outcome.ran.total()
    assert not outcome.failures, "\n".join(outcome.failures)


@needs_expecttest
@on_device(modes=("lazy",))
def test_all_optimizers_are_named() -> None:
    from tests.torch import optimizer_info

    assert {*NAMES} == {*optimizer_info.OPTIMIZERS} - {*optimizer_info.SKIPPED}
