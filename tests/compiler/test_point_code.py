"""Code behind a product's sums, written out or in a loop, for every result it stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from habana_tf.compiler.codegen import emit
from habana_tf.compiler.codegen.tiles import drain
from habana_tf.compiler.codegen.tiles.epilogue import StoreResult, SumVector
from habana_tf.compiler.codegen.tiles.program import emit_contract
from habana_tf.compiler.contraction import Canonical, ContractSpec, canonical
from habana_tf.hardware.cpu import Isa, Target, target
from tests.compiler.contraction_cases import convolution, filter_gradient, matmul, run
from tests.compiler.point_cases import ScaleAndBias


class Doubled(StoreResult):
    """Stores the sums doubled so many times."""

    def __init__(self, c: Canonical, times: int) -> None:
        super().__init__(c, False)
        self.times = times

    def vector(self, fn: emit.Function, p: SumVector) -> Sequence[str]:
        for _ in range(self.times):
            p = replace(p, value=fn.op(f"fadd <{p.lanes} x float> {p.value}, {p.value}"))
        return super().vector(fn, p)


@pytest.mark.parametrize(("times", "written"), [(1, 16), (12, 1)])
def test_a_long_epilogue_behind_a_square_is_in_a_loop(times: int, written: int) -> None:
    """Written out for each of its rows it is more code than the sums."""
    spec = matmul(16 * 15, 10, 64, ta=True).spec
    tgt = Target(Isa.AVX512, False, "x86-64-v4", "")
    (call,) = emit_contract(spec, tgt, "kernel", Doubled(canonical(spec), times)).calls
    assert call.ir.count("fadd") == times * written


@pytest.mark.parametrize("inline", [0, 1_000_000])
@pytest.mark.parametrize("samples", [2, 16])
def test_epilogue(samples: int, inline: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the sum in one piece and split; written out per vector and in a loop over the tile."""
    monkeypatch.setattr(drain, "INLINE_EPILOGUE", inline)
    monkeypatch.setattr(drain, "LONG_SUM_EPILOGUE", inline)
    case = filter_gradient(samples, 28, 2, 18, 3)
    bias = (0, 0, 0, 1, 0, 0, 0)
    spec = ContractSpec(case.spec.extents, case.spec.a, case.spec.b, case.spec.out, (bias, case.spec.out.strides))
    code = emit_contract(spec, target(), "kernel", ScaleAndBias(spec, bias))
    assert code.plan is not None and (code.plan.chunks > 1) == (samples == 16)
    b = np.arange(18, dtype=np.float32)
    first, where = np.zeros((3, 3, 2, 18), np.float32), np.zeros((3, 3, 2, 18), np.int64)
    run(code, target(), {"a": case.a, "b": case.b, "bias": b, "first": first, "where": where})
    np.testing.assert_allclose(first, case.reference() * 2 + b, rtol=1e-4, atol=1e-3)
    i = np.indices(where.shape)
    np.testing.assert_array_equal(where, ((i[0] * 100 + i[1]) * 100 + i[2]) * 100 + i[3])


def test_an_epilogue_over_merged_labels_must_be_named() -> None:
    case = matmul(8, 8, 8)
    code = case.check(target())
    assert code.calls
    conv = convolution(2, 6, 8, 12, 1, 1, 1).spec
    per_image = (100, 0, 0, 1, 0, 0, 0)
    with pytest.raises(ValueError, match="not affine"):
        emit_contract(conv, target(), "kernel", ScaleAndBias(conv, per_image))
