"""No function of the logger pretends to log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from habana_frameworks.tensorflow import py_synapse_logger as logger


@pytest.mark.parametrize(
    "call",
    [
        lambda: logger.command("category_mask=0x3"),
        logger.start_hw_profile,
        logger.stop_hw_profile,
        lambda: logger.put_log("here", 1),
    ],
)
def test_every_call_says_what_to_use(call: Callable[[], None]) -> None:
    with pytest.raises(logger.NotSimulated, match=r"py_synapse_logger\..*tf\.profiler"):
        call()
