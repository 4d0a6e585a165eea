"""Reports an index or a label out of range that a launch met.

Kernels go on with such an index, as on a card: a gather gives 0 for it, a scatter leaves it out. The program of a
cluster also computes the largest of the indices of each op, negative ones counting as large
(`LoweringContext.in_range`). The runtime looks at these numbers after a launch; what it finds is a warning, once per
program, or the launch's error (HABANA_SIM_CHECK_INDICES, or a check whose value is refused in any case).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from habana_tf import settings
from habana_tf.ir import extent as ext
from habana_tf.ir.primitives import Program
from habana_tf.resolver.provenance import Provenance

log = logging.getLogger("habana_tf")

INVALID_ARGUMENT = 3


class OutOfRange(IndexError):
    """An interpreted launch met an index out of range, which is an error."""

    status_code = INVALID_ARGUMENT


def warn(text: str) -> None:
    """Tells of an index that a launch met."""
    log.warning(
        "%s; HPU goes on as a card does (a gather gives 0, a scatter leaves it out, a loss is NaN), TensorFlow's CPU "
        "kernels raise an error: HABANA_SIM_CHECK_INDICES=error makes it one here, off says nothing",
        text,
    )


def look(program: Program, largest: Sequence[Any], source: Provenance) -> None:
    """Checks what an interpreted launch computed. largest: the outputs of `program.checks`. Raises OutOfRange."""
    ops = source.named()
    for check, value in zip(program.checks, largest, strict=True):
        bound = ext.evaluate(check.bound, [])
        if ext.evaluate(check.count, []) and int(value) >= bound:
            signed = int(value.astype(value.dtype.name.removeprefix("u")))
            text = f"{ops[check.origin]}: {check.argument} = {signed} is not in [0, {bound})"
            if check.refused or settings.HABANA_SIM_CHECK_INDICES.get() == "error":
                raise OutOfRange(text)
            return warn(text)
    return None
