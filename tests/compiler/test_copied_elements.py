"""Which eager ops are only a copy of their input's elements in their order: NumPy says what the order is."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.copied_elements import copied
from habana_tf.compiler.packed_recipe import pack, unpack
from habana_tf.compiler.recipe import Kind
from habana_tf.compiler.recipe_checks import check
from habana_tf.hardware import cpu
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 3), (1, 1, 5), (3, 1, 1, 2)])
def test_a_transposition_is_a_copy_where_the_order_stays(shape: tuple[int, ...]) -> None:
    elements = np.arange(np.prod(shape)).reshape(shape)
    for axes in list(permutations(range(len(shape))))[1:]:
        b = Builder()
        x = b.input(shape, DType.F32)
        found = copied(Program([x], [b.permute(x, axes)]))
        turned = elements.transpose(axes)
        if np.array_equal(turned.ravel(), elements.ravel()):
            assert found is not None and (found.dims, found.shape) == ([elements.size], turned.shape), axes
        else:
            assert found is None, axes


def test_a_stored_recipe_takes_all_inputs_whichever_is_copied() -> None:
    """A launch gives a recipe all that its op reads: an op may read what it overwrites."""
    target = cpu.target()
    for k in range(3):
        b = Builder()
        inputs = [b.input(shape, DType.F32) for shape in ((4, 6), (2, 3, 4), (0, 5))]
        found = copied(Program(inputs, [b.reshape(inputs[k], (inputs[k].numel,))]))
        if k == 2:
            assert found is None  # nothing to copy
            continue
        assert found is not None and found.dims == [24, 24, 0]
        recipe = unpack("copy", pack(compile_program(found.program, "copy", target))[1])
        takes, gives = ([(n.dtype, n.shape) for n in nodes] for nodes in (found.program.inputs, found.program.results))
        check(recipe, takes, gives)
        assert {buffer.index for buffer in recipe.buffers if buffer.kind is Kind.INPUT} == {k}


def test_a_part_is_no_copy_of_the_whole() -> None:
    b = Builder()
    x = b.input((6, 4), DType.F32)
    assert copied(Program([x], [b.slice(x, [2, 0], [4, 4])])) is None
