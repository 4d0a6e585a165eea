"""bfloat16 against an oracle that rounds once.

HPU computes a bfloat16 op in float32 and rounds each result once; stock TensorFlow's CPU kernels often round
between the steps. So the oracle is stock TensorFlow in float32 on the same (bfloat16) values, and a result may be
half a unit in the last place (2**-8 of its size) from it, beside the tolerance of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import BF16, F32, evaluate, reference

HALF_UNIT = 2.0**-8


def check_rounded(fn: Callable[..., Any], *arrays: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """`fn` on HPU with its bfloat16 arrays as they are, against stock TensorFlow with them widened to float32."""
    wide = [a.astype(F32) if a.dtype == BF16 else a for a in arrays]
    wanted = reference(fn, *wide)
    for outputs in evaluate(fn, *arrays):
        assert len(outputs) == len(wanted)
        for got, want in zip(outputs, wanted, strict=True):
            assert got.shape == want.shape, f"shape {got.shape}, TensorFlow gives {want.shape}"
            narrow = got.dtype == BF16
            assert narrow or got.dtype == want.dtype
            np.testing.assert_allclose(
                got.astype(F32) if narrow else got, want, rtol=rtol + (HALF_UNIT if narrow else 0), atol=atol
            )


def check_both(fn: Callable[..., Any], *arrays: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """float32 arrays: `fn` on them and on their bfloat16 roundings."""
    check_rounded(fn, *arrays, rtol=rtol, atol=atol)
    check_rounded(fn, *(a.astype(BF16) if a.dtype == F32 else a for a in arrays), rtol=rtol, atol=atol)


UNITS = 4 * 2.0**-24
"""By how much float32 sums of a few hundred products may differ when they are summed in two orders, relative to the sum
of the absolute products."""


def check_products(fn: Callable[..., Any], *arrays: Any) -> None:
    """`check_both` for an `fn` that sums products of the arrays: the error is relative to what is summed."""
    summed = reference(fn, *map(np.abs, arrays))
    check_both(fn, *arrays, rtol=0, atol=UNITS * max(float(x.max(initial=0)) for x in summed))
