"""Views as primitives, run by the interpreter, beside NumPy's strides."""

from __future__ import annotations

import numpy as np
import pytest

from habana_tf.compiler.compile import compile_program
from habana_tf.hardware.cpu import target
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.conditions import Premises
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Op, Program
from habana_tf.torch.memory import views

CONTENTS = (4, 6)
GEOMETRIES = [
    ((4, 6), (6, 1), 0),
    ((6, 4), (1, 6), 0),
    ((3, 2), (6, 1), 8),
    ((2, 4), (1, 6), 2),
    ((2, 3), (12, 2), 1),
    ((4,), (6,), 5),
    ((), (), 17),
    ((3, 4, 6), (0, 6, 1), 0),
    ((2, 2, 6), (12, 6, 1), 0),
    ((1, 4, 1, 3), (24, 6, 6, 2), 1),
    ((5,), (4,), 3),
    ((5, 3), (3, 1), 7),  # a range of the storage, whose rows do not begin where the grid's do
    ((2, 2, 3), (12, 3, 1), 0),  # a part of a row, split
    ((2, 3, 2), (1, 8, 4), 0),
    ((3,), (6,), 7),  # small parts
    ((1, 3), (24, 1), 8),
    ((3,), (2,), 18),
    ((2, 1), (1, 6), 21),
]


def test_writes_side_by_side_are_put_together_once() -> None:
    """As the gradients in a bucket: nothing of what was there before is read."""
    b = Builder()
    bucket, parts = b.input((10,), DType.F32), [b.input((2, 2), DType.F32), b.input((3, 2), DType.F32)]
    made, at = bucket, 0
    for part in parts:
        lay = views.layout((10,), (part.shape, (2, 1), at))
        assert lay is not None
        made, at = views.write(b, made, part, lay, Premises()), at + part.numel
    (got,) = interpreter.run(
        Program([bucket, *parts], [made]),
        [np.zeros(10, np.float32), *(np.full(p.shape, k + 1, np.float32) for k, p in enumerate(parts))], [],
    )  # fmt: skip
    np.testing.assert_array_equal(got, [1] * 4 + [2] * 6)
    assert made.op == Op.CONCAT and bucket not in made.src and not any(bucket in s.src for s in made.src)


def test_a_small_part_is_written_in_place() -> None:
    """A token into a cache, and one that is computed of the old one."""
    for geometry in (((4, 8), (320, 1), 24), ((8,), (1,), 640), ((5,), (1,), 3), ((4, 40), (320, 8), 7)):
        for update in ("neg", "add"):
            b = Builder()
            cache, value = b.input((4, 40, 8), DType.F32), b.input(geometry[0], DType.F32)
            lay = views.layout((4, 40, 8), geometry)
            assert lay is not None
            old = views.read(b, cache, lay)
            made = b.map("neg", value) if update == "neg" else b.binary("add", old, value)
            made = views.write(b, cache, made, lay, Premises())
            recipe = compile_program(Program([cache, value], [made], []), "test", target())
            assert [copy[1:] for copy in recipe.copies] == [(0, 0)], (geometry, update)


def _strided(x: np.ndarray, geometry: views.Geometry) -> np.ndarray:
    shape, strides, offset = geometry
    flat = x.reshape(-1)[offset:]
    return np.lib.stride_tricks.as_strided(flat, shape, [s * x.itemsize for s in strides])


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_view_reads_what_its_strides_say(geometry: views.Geometry) -> None:
    x = np.arange(24, dtype=np.float32).reshape(CONTENTS)
    b = Builder()
    node = b.input(CONTENTS, DType.F32)
    lay = views.layout((24,), geometry)
    assert lay is not None
    (got,) = interpreter.run(Program([node], [views.read(b, node, lay)]), [x], [])
    np.testing.assert_array_equal(got, _strided(x, geometry))


@pytest.mark.parametrize("geometry", [g for g in GEOMETRIES if 0 not in g[1]])
def test_a_view_writes_where_its_strides_say(geometry: views.Geometry) -> None:
    x = np.arange(24, dtype=np.float32).reshape(CONTENTS)
    new = -np.arange(1, 1 + int(np.prod(geometry[0])), dtype=np.float32).reshape(geometry[0])
    b = Builder()
    node, value = b.input(CONTENTS, DType.F32), b.input(geometry[0], DType.F32)
    lay = views.layout((24,), geometry)
    assert lay is not None
    (got,) = interpreter.run(Program([node, value], [views.write(b, node, value, lay, Premises())]), [x, new], [])
    want = x.copy()
    _strided(want, geometry)[...] = new
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("geometry", [((2, 3), (2, 1), 0), ((3, 3), (1, 1), 0), ((5, 5), (5, 1), 0)])
def test_what_is_no_part_of_a_grid_has_no_layout(geometry: views.Geometry) -> None:
    """Elements that overlap, and those that reach past the end."""
    assert views.layout((24,), geometry) is None


def test_parts_that_are_written_again_and_again_are_not_put_together_each_time() -> None:
    """The edges of a program grow with the writes, not with their square, where what was written is read between."""
    counts = []
    for writes in (200, 400):
        b = Builder()
        contents, one = b.map("neg", b.input((16, 160), DType.F32)), b.const(1, DType.F32, (1, 1))
        for k in range(writes):
            lay = views.layout((16, 160), ((1, 1), (160, 1), 7 * k % 2560))
            assert lay is not None
            new = b.map("add", views.read(b, contents, lay), one)
            contents = views.write(b, contents, new, lay, Premises(), k % 2 == 0)
        nodes = Program(b.inputs, [contents]).nodes()
        counts.append(sum(len(n.src) for n in nodes))
    assert counts[1] < 3 * counts[0]
