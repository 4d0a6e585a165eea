"""The positions that argmax and argmin carry: as wide as their axis asks for."""

from __future__ import annotations

import pytest

from habana_tf.compiler.body import Reduction
from habana_tf.compiler.body_builder import BodyBuilder, loop
from habana_tf.compiler.codegen.reduction import position_type
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Program
from tests.compiler.running import check_range


def _reduction(n: Extent) -> Reduction:
    b = Builder()
    x = b.input((2, n), DType.I8)
    node = b.reduce("argmax", x, [1])
    (found,) = loop(x.shape, [], [node], (1,), BodyBuilder({x, node})).reductions
    return found


def test_positions_beyond_an_int32_are_carried_as_int64() -> None:
    sizes = [7, 1 << 31, (1 << 31) + 1, ext.sym(0)]
    assert [position_type(_reduction(n)) for n in sizes] == ["i32", "i32", "i64", "i64"]


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_places_on_axes_of_any_length(kind: str, axis: int) -> None:
    b = Builder()
    x = b.input((ext.sym(0), ext.sym(1)), DType.F32)
    check_range(Program(b.inputs, [b.reduce(kind, x, [axis])]), [[1, 1], [3, 100], [100, 3], [65, 257]])
