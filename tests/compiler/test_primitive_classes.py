"""A primitive that is forgotten in a table is an error at import, and the error says what to write."""

from __future__ import annotations

import pytest

from habana_tf.compiler.codegen.own_kernels import EMITTERS
from habana_tf.compiler.primitive_classes import PRIMITIVES
from habana_tf.compiler.primitive_families import IndexView, Inline, OwnKernel, Primitive
from habana_tf.ir.primitives import Op, check_complete
from tests.child import python

_ONE_MORE = """
    import enum
    from habana_tf.ir import primitives

    primitives.Op = enum.Enum("Op", [*primitives.Op.__members__, "FFT"])
"""


def _failure(script: str) -> str:
    """The last line that a script prints when it fails."""
    done = python(script, check=False)
    assert done.returncode == 1, done.stdout
    return done.stderr.strip().splitlines()[-1]


def test_a_primitive_without_a_class_is_an_error_at_import() -> None:
    assert _failure(_ONE_MORE + "    import habana_tf.compiler.schedule") == (
        "ImportError: FFT needs a class in habana_tf/compiler/primitive_classes.py"
    )


def test_a_primitive_without_a_rule_is_an_error_at_import() -> None:
    assert _failure(_ONE_MORE + "    import habana_tf.ir.interpreter") == (
        "ImportError: FFT needs a function of arrays in habana_tf/ir/interpreter.py: RULES"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("PRIMITIVES[Op.IOTA] = PRIMITIVES[Op.SORT]", "IOTA needs a function that writes its code"),
        ("PRIMITIVES[Op.SORT] = PRIMITIVES[Op.MAP]", "SORT must not have a function that writes its code"),
    ],
)
def test_the_kernels_are_those_of_the_classes(change: str, message: str) -> None:
    script = f"""
    from habana_tf.compiler.primitive_classes import PRIMITIVES
    from habana_tf.ir.primitives import Op

    {change}
    import habana_tf.compiler.compile
    """
    table = "habana_tf/compiler/codegen/own_kernels.py: EMITTERS"
    assert _failure(script) == f"ImportError: {message} in {table}"


@pytest.mark.parametrize(
    ("family", "open_"),
    [(Primitive, {"passes"}), (Inline, {"cost", "formula"}), (IndexView, {"inside"}), (OwnKernel, {"flops"})],
)
def test_a_class_that_leaves_a_question_open_has_no_object(family: type[Primitive], open_: set[str]) -> None:
    class Fft(family):
        pass

    assert set(Fft.__abstractmethods__) == open_
    with pytest.raises(TypeError, match="abstract"):
        Fft()


def test_all_have_classes() -> None:
    assert set(PRIMITIVES) == set(Op)
    assert {op for op, what in PRIMITIVES.items() if isinstance(what, OwnKernel)} == set(EMITTERS)
    check_complete(Op, Op, "here", "anything")
