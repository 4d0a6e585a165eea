"""Where the code of kernels is cut into modules."""

from __future__ import annotations

from habana_tf.compiler import costs
from habana_tf.compiler.codegen.generate import generate
from habana_tf.compiler.schedule import schedule
from habana_tf.hardware.cpu import target
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Program

KERNELS = 40


def test_the_first_and_the_last_modules_are_small() -> None:
    """Nobody waits long for the first to compile, nor for the last one of another process."""
    b = Builder()
    inputs = [b.input((k, 64, 64), DType.F32) for k in range(2, 2 + KERNELS)]
    program = Program(b.inputs, [b.map("exp", b.map("mul", x, x)) for x in inputs])
    plan = schedule(program)
    made: list[str] = []
    generate(plan, target(), made.append, 1 << 30)
    most = 4 * len("".join(made)) // KERNELS
    texts: list[str] = []
    generate(plan, target(), texts.append, most)
    whole = [len(text) >= most for text in texts]
    assert not whole[0] and any(whole) and not any(whole[-4:])
    assert all(len(text) >= most // costs.SMALL_MODULE for text in texts[:-1])
