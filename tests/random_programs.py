"""Random programs of nested control flow, built from what was drawn, and their comparison with stock TensorFlow.

A program is drawn first, as data (`tests/drawn_programs.py`), and then built as often as wanted, so that every device
traces the same one. It returns everything that it computed on its outermost level, several times what a loop or a cond
gave among it, reads and writes variables anywhere, and takes gradients.

    python -m tests.random_programs --count 5000       # a long run; prints each program that differs, with its seed
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from tests.drawn_programs import BF16, BOOL, F32, F64, I32, I64, OPS, Block, Draw, clip

PATIENCE = 300.0
"""Seconds that a program may take, a hundred times what most do."""

KINDS: dict[str, tuple[Any, tuple[int | None, ...]]] = {
    "v": (F32, (3,)), "m": (F32, (2, 3)), "u": (F32, (None,)), "f": (F32, ()), "h": (BF16, (3,)), "d": (F64, (3,)),
    "i": (I32, ()), "j": (I32, (3,)), "l": (I64, (3,)), "b": (BOOL, ()), "c": (BOOL, (3,)),
}  # fmt: skip
"""What values there are: element type and shape. A vector `u` has a length that data decide."""


class Program:
    """A drawn program on some device: call it with one value per kind of `Draw.inputs`."""

    def __init__(self, drawn: Draw) -> None:
        self.drawn = drawn
        self.variable = tf.Variable([1.0, -2.0, 0.0])
        self.ops = {name: op for name, _, _, op in OPS}

    def __call__(self, *inputs: tf.Tensor) -> list[tf.Tensor]:
        """All that was computed outside loops and conds, the variable, and gradients."""
        with tf.GradientTape() as tape:
            floats = [x for x in inputs if x.dtype == F32]
            tape.watch(floats)
            results = self._run(self.drawn.main, list(inputs))
            loss = [tf.reduce_sum(r) for r in results if r.dtype == F32]
        gradients: list[tf.Tensor] = []
        if self.drawn.gradients and loss:
            gradients = [tf.convert_to_tensor(g) for g in tape.gradient(tf.add_n(loss), floats) if g is not None]
        return [*results, self.variable.read_value(), *gradients]

    def _run(self, block: Block, env: list[Any]) -> list[Any]:
        env = list(env)
        for step in block.steps:
            env.extend(getattr(self, "_" + step[0])(env, *step[1:]))
        return [env[k] for k in block.results]

    def _op(self, env: list[Any], name: str, at: list[int]) -> list[Any]:
        return [self.ops[name](*(env[k] for k in at))]

    def _cond(self, env: list[Any], pred: int, yes: Block, no: Block) -> list[Any]:
        if not yes.results:  # a cond for its effects
            tf.cond(env[pred], lambda: self._done(yes, env), lambda: self._done(no, env))
            return []
        return list(tf.cond(env[pred], lambda: self._copies(yes, env), lambda: self._copies(no, env)))

    def _done(self, block: Block, env: list[Any]) -> tf.Tensor:
        self._run(block, env)
        return tf.constant(0)

    def _copies(self, block: Block, env: list[Any]) -> list[Any]:
        return list(self._run(block, env))

    def _case(self, env: list[Any], index: int, sides: tuple[Block, ...]) -> list[Any]:
        return list(tf.switch_case(env[index], [lambda s=s: self._copies(s, env) for s in sides]))

    def _while(
        self, env: list[Any], limit: int | None, starts: list[int], kinds: list[str], test: Block | None, body: Block,
        parallel: int, most: int | None,
    ) -> list[Any]:  # fmt: skip
        bound = 3 if limit is None else env[limit]

        def more(i: tf.Tensor, *values: tf.Tensor) -> tf.Tensor:
            go = i < bound
            return go if test is None else tf.logical_and(go, self._run(test, [*env, i, *values])[0])

        def turn(i: tf.Tensor, *values: tf.Tensor) -> list[tf.Tensor]:
            return [i + 1, *self._run(body, [*env, i, *values])]

        shapes = [tf.TensorShape([]), *(tf.TensorShape(KINDS[k][1]) for k in kinds)]
        out = tf.while_loop(more, turn, [tf.constant(0), *(env[k] for k in starts)], shape_invariants=shapes,
                            parallel_iterations=parallel, maximum_iterations=most)  # fmt: skip
        return list(out[1:])

    def _list(self, env: list[Any], size: int, kind: str, body: Block) -> list[Any]:
        dtype, shape = KINDS[kind]
        array = tf.TensorArray(dtype, size=env[size], element_shape=shape)

        def turn(i: tf.Tensor, a: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            return i + 1, a.write(i, self._run(body, [*env, i])[0])

        _, array = tf.while_loop(lambda i, a: i < env[size], turn, [tf.constant(0), array])
        every = array.stack()
        return [clip(tf.reduce_sum(every, 0)), tf.shape(every)[0]]

    def _call(self, env: list[Any], block: Block, apart: bool) -> list[Any]:
        attributes = {"_noinline": True} if apart else None
        return list(tf.function(lambda: self._copies(block, env), experimental_attributes=attributes)())

    def _write(self, env: list[Any], how: str, value: int) -> list[Any]:
        getattr(self.variable, how)(clip(env[value]))
        return []

    def _read(self, env: list[Any]) -> list[Any]:
        return [clip(self.variable.read_value())]


INPUTS: dict[str, list[Any]] = {
    "v": [[1, -2, 3], [0, 1, -1]], "m": [[[1, 0, -1], [2, 1, 0]], [[0, 0, 1], [-3, 2, 1]]], "f": [2, -1], "i": [3, 0],
    "b": [True, False], "d": [[1, 0, 2], [-1, 4, 0]], "j": [[1, 2, -1], [0, 0, 3]], "u": [[1, 2], []],
}  # fmt: skip
"""Two inputs of each kind; those of one program are of one length each, `u` of two."""


def run(drawn: Draw, device: str) -> list[list[np.ndarray[Any, Any]]]:
    """The results of a program on a device, called once with each set of inputs, its variable going on."""
    with tf.device(device):
        program = Program(drawn)
        specs = [tf.TensorSpec(KINDS[k][1], KINDS[k][0]) for k in drawn.inputs]
        f = tf.function(program, input_signature=specs)
        out = []
        for k in range(2):
            inputs = [tf.constant(INPUTS[kind][k], KINDS[kind][0]) for kind in drawn.inputs]
            out.append([r.numpy() for r in f(*inputs)])
    return out


def compare(drawn: Draw) -> None:
    """Asserts that a program computes on HPU what it computes on the CPU, and that the graph pass did not give up.

    The device must be loaded.
    """
    from habana_tf._native import _bridge

    failed = _bridge.counters()["optimize_errors"]
    expected, got = run(drawn, "/CPU:0"), run(drawn, "/HPU:0")
    assert _bridge.counters()["optimize_errors"] == failed, f"the graph pass failed on\n{drawn}"
    for call, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        assert [(r.dtype, r.shape) for r in mine] == [(r.dtype, r.shape) for r in theirs], (call, drawn)
        for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            np.testing.assert_array_equal(a, b, err_msg=f"call {call}, result {k} of\n{drawn}")


def _refused(seed: int) -> bool:
    """Whether TensorFlow itself cannot run a program."""
    try:
        run(Draw(random.Random(seed)), "/CPU:0")
    except Exception:
        return True
    return False


def main() -> int:
    """A long run; returns how many programs differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="programs to compare")
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the others follow")
    parser.add_argument("--show", action="store_true", help="print the program of --seed and end")
    parser.add_argument("--interpret", action="store_true", help="do not compile clusters: more programs in the time")
    options = parser.parse_args()
    if options.show:
        print(Draw(random.Random(options.seed)))
        return 0
    import habana_tf

    habana_tf.load_habana_module()
    if options.interpret:
        _interpret()
    compared = different = refused = 0
    begin, seed = time.monotonic(), options.seed
    while compared < options.count:
        with _watched(seed):
            try:
                compare(Draw(random.Random(seed)))
            except Exception as error:
                if _refused(seed):
                    refused, seed = refused + 1, seed + 1
                    continue
                different += 1
                print(f"seed {seed}: {type(error).__name__}: {str(error)[:1500]}", flush=True)
        compared, seed = compared + 1, seed + 1
        if compared % 100 == 0:
            print(f"{compared} programs in {time.monotonic() - begin:.0f} s, {different} different", flush=True)
    print(f"{compared} programs compared, {different} different, {refused} that TensorFlow refuses")
    return min(different, 100)


@contextmanager
def _watched(seed: int) -> Iterator[None]:
    """Ends the process with its threads' stacks if a program takes PATIENCE seconds."""
    late = threading.Timer(PATIENCE, lambda: print(f"seed {seed}: no end after {PATIENCE:.0f} s", flush=True))
    faulthandler.dump_traceback_later(PATIENCE + 1, exit=True)
    late.start()
    try:
        yield
    finally:
        late.cancel()
        faulthandler.cancel_dump_traceback_later()


def _interpret() -> None:
    """Lets the interpreter run every cluster of several ops."""
    import logging

    from habana_tf.compiler.view_indices import Unfit
    from habana_tf.resolver import recipes

    def refuse(*_: Any) -> Any:
        raise Unfit("by request")

    logging.getLogger("habana_tf").setLevel(logging.ERROR)
    recipes.compile_program = refuse


if __name__ == "__main__":
    sys.exit(main())
