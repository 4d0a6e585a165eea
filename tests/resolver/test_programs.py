"""What programs were made of: numbers for symbols, and a bound on what is remembered."""

from __future__ import annotations

import pytest

from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.packed_recipe import describe_kernels
from habana_tf.hardware.cpu import target
from habana_tf.ir import extent as ext
from habana_tf.resolver.programs import Made, Programs, number
from habana_tf.tensorflow.clusters.cluster import parse
from tests.cli.recipes.conftest import OUT, WIDTH, layer


def made(rows: ext.Extent, dims: tuple[int, ...] = (), size: int = 0) -> Made:
    recipe = compile_program(layer(rows), "step", target())
    return Made("step", b"x" * size, parse, (), (), dims, describe_kernels(recipe), recipe.buffers, "compiled", 1.0)


def nothing(size: int) -> Made:
    return Made("nothing", b"x" * size, parse, (), (), (), b"", [], "interpreted", 0.0)


def test_kernels_over_symbols_are_those_over_numbers() -> None:
    """The oracle: the same program compiled for numbers, whose rows have no symbols."""
    known, open_ = made(64).kernels(), made(ext.sym(0), (64,)).kernels()
    assert sum(row["flops"] for row in known) >= 2 * 64 * WIDTH * OUT
    for field in ("engine", "does", "shape", "flops", "bytes"):
        assert [row[field] for row in known] == [row[field] for row in open_]


def test_hbm_is_what_is_alive() -> None:
    hbm = made(64).hbm()
    outside = 4 * (64 * WIDTH + WIDTH * OUT + 64 * OUT)
    assert min(hbm) >= outside
    assert max(hbm) >= outside + 4 * 64  # the sums, at least, wait in the workspace
    assert max(hbm) <= outside + 4 * (64 * OUT + 64) + 64


@pytest.mark.parametrize("text, value", [("7", 7), ("s0", 5), ("2*s0*s1+3", 73), ("-1*s1+((s0+3)//4)", -5),
                                         ("((2*s1)%4)", 2)])  # fmt: skip
def test_an_extent_is_read(text: str, value: int) -> None:
    assert number(text, [5, 7]) == value


@pytest.mark.parametrize("text", ["s2", "x", "s0/2", "f(s0)", "s0**2", "'a'"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no extent over 2 symbols"):
        number(text, [5, 7])


def test_what_an_expression_says_is_read() -> None:
    a, b = ext.sym(0), ext.sym(1)
    e = ext.add(ext.mul(ext.add(a, 3), b), ext.mod(ext.div(ext.mul(a, b), 4), 5))
    assert number(str(e), [9, 6]) == ext.evaluate(e, [9, 6]) == 12 * 6 + (54 // 4) % 5


def test_the_last_are_kept() -> None:
    programs = Programs(most=2, most_bytes=1000)
    for k in range(3):
        programs.remember(k, nothing(10))
    assert [programs.find(k) is not None for k in range(3)] == [False, True, True]
    programs.remember(3, nothing(995))
    assert [programs.find(k) is not None for k in range(4)] == [False, False, False, True]
