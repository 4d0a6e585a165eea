"""PyTorch's own samples of all its ops, in float32, bfloat16 and int64: forward, gradients, in place, out, strided."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.effort import some
from tests.torch.child import HAS_TORCH, needs_torch, on_device

if HAS_TORCH:
    import torch

needs_expecttest = pytest.mark.skipif(
    importlib.util.find_spec("expecttest") is None, reason="PyTorch's samples need a package: pip install expecttest"
)
PARTS = 64


def _check(part: str, dtype: Any) -> None:
    from tests.torch import opinfo, opinfo_report

    outcome = opinfo.some(int(part), PARTS, dtype, opinfo_report.MOST)
    assert outcome.ran.total()
    assert not outcome.failures, "\n".join(outcome.failures)


def _parts(first: int) -> list[str]:
    return some([str(k) for k in range(PARTS)], PARTS, first)


@needs_expecttest
@pytest.mark.part
@on_device(*_parts(1), modes=("lazy",))
def test_samples_in_float32(part: str) -> None:
    _check(part, torch.float32)


@needs_expecttest
@pytest.mark.part
@on_device(*_parts(2), modes=("eager",))
def test_samples_op_by_op(part: str) -> None:
    _check(part, torch.float32)


@needs_expecttest
@pytest.mark.part
@on_device(*_parts(3), modes=("lazy",))
def test_samples_in_bfloat16(part: str) -> None:
    _check(part, torch.bfloat16)


@needs_expecttest
@pytest.mark.part
@on_device(*_parts(4), modes=("lazy",))
def test_samples_in_int64(part: str) -> None:
    _check(part, torch.int64)


@needs_expecttest
@on_device(modes=("lazy",))
def test_what_is_skipped_is_there_and_has_a_reason() -> None:
    from tests.torch import opinfo

    for name, reason in opinfo.SKIPPED.items():
        assert name.removesuffix(" out") in opinfo.OPS and reason, name


@needs_torch
@needs_expecttest
def test_the_page_says_what_is_skipped_and_how_many_rows_there_are() -> None:
    from habana_tf.torch.ops.table import rows
    from tests.torch import opinfo_report
    from tests.torch.rows import SAMPLES

    page = opinfo_report.documented()
    if f"With {opinfo_report.release()}," not in page:
        pytest.skip("docs/torch.md has the numbers of another release of PyTorch")
    assert opinfo_report.totals() in page, "make docs-torch"
    counts = f"of the {len(rows())} rows of [the table](torch-ops.md); {len(SAMPLES)} have samples"
    assert counts in page, "make docs-torch"
