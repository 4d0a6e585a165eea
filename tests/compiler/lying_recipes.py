"""Recipes whose plans are changed anywhere: each is loaded, checked, bound and run in a process of its own.

    python -m tests.compiler.lying_recipes 500 7    # plans per kind of recipe, seed: prints what became of them

What is counted: `refused` before anything ran, `same` or `other` numbers, an `error` of the launch, `crashed` or
`endless` code; a process that ends after its numbers are known has `crashed` too, since what it wrote beside its
buffers is met when they are freed. Plans are changed with a seal that fits, which shows what the checks find by
themselves; `unsealed` says how many a seal alone would have stopped. Machine code that is given other buffers, sizes or
work items than it was made for can do anything, so that the last two are possible here; loading must never end a
process.
"""

from __future__ import annotations

import copy
import faulthandler
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from habana_tf._native import _bridge
from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.packed_recipe import pack, seal, unpack
from habana_tf.compiler.recipe import bind
from habana_tf.compiler.recipe_checks import check
from habana_tf.hardware.cpu import target
from habana_tf.ir import extent as ext
from habana_tf.ir import interpreter
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Contraction, Loop, Program

SECONDS = 60
F32 = DType.F32
MATRIX = Contraction((0, 1), (1, 2), (0, 2))
ODD = (-1, 0, 1, 2, 7, 64, 1 << 20, 1 << 31, 1 << 40, 1 << 62, (1 << 63) - 1, 1 << 63, 1 << 70, -(1 << 63))


def _products() -> tuple[Program, list[int]]:
    b = Builder()
    x, y, z = b.input((33, 65), F32), b.input((65, 40), F32), b.input((40, 7), F32)
    return Program(b.inputs, [b.contract(b.map("exp", b.contract(x, y, MATRIX)), z, MATRIX)]), []


def _recurrent() -> tuple[Program, list[int]]:
    """A loop in blocks: what an iteration leaves, rows, and a weight that all share."""
    body = Builder()
    h, x, w = body.input((32, 16), F32), body.input((32, 16), F32), body.input((16, 16), F32)
    left = body.map("tanh", body.map("add", x, body.contract(h, w, MATRIX)))
    loop = Loop(5, Program(body.inputs, [left, left]), 1, ((0, 1),), ((0, 1),))
    b = Builder()
    xs, h0, w0 = b.input((5, 32, 16), F32), b.input((32, 16), F32), b.input((16, 16), F32)
    return Program(b.inputs, b.loop(loop, [h0, xs, w0])), []


def _ranged() -> tuple[Program, list[int]]:
    """Sizes that are symbols."""
    b = Builder()
    x, y = b.input((ext.sym(0), ext.sym(1)), F32), b.input((ext.sym(1),), F32)
    return Program(b.inputs, [b.reduce("sum", b.map("exp", b.binary("add", x, y)), [1])]), [12, 40]


def _updated() -> tuple[Program, list[int]]:
    """A row of a cache is replaced, in place where it may be."""
    b = Builder()
    cache, row, at = b.input((8, 5), F32), b.input((1, 5), F32), b.input((), DType.I32)
    made = b.scatter(cache, row, [b.reshape(at, (1,))], [0], "set")
    return Program(b.inputs, [b.map("neg", row), made], updates=((0, 1),)), []


KINDS: dict[str, Callable[[], tuple[Program, list[int]]]] = {
    "products": _products, "recurrent": _recurrent, "ranged": _ranged, "updated": _updated,
}  # fmt: skip


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every (list or mapping, key) in a plan."""
    for key in list(data) if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], (dict, list)):
            yield from _places(data[key])


def changed(plan: Any, rng: np.random.Generator) -> Any:
    """The plan with something else at one to three places: a number, a kind, an order, a name, a symbolic size."""
    out = copy.deepcopy(plan)
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(out))
        holder, key = places[int(rng.integers(len(places)))]
        old, choice = holder[key], int(rng.integers(6))
        if isinstance(old, list) and old and choice < 4:
            other, at = (int(rng.integers(len(old))) for _ in range(2))
            if choice == 0:
                old[other], old[at] = old[at], old[other]
            elif choice == 1:
                old.append(copy.deepcopy(old[at]))
            else:
                del old[at]
        elif type(old) is int and choice < 3:
            holder[key] = old + int(rng.integers(-2, 3))
        elif type(old) is int and choice == 3:
            holder[key] = {"c": int(rng.integers(-2, 3)), "t": [[int(rng.integers(0, 3)), int(rng.integers(1, 9))]]}
        else:
            values = (*ODD, old, str(old), None, [], 1.5, True, "abort", ["/", {"c": 1, "t": [[0, 1]]}, 0])
            holder[key] = values[int(rng.integers(len(values)))]
    return out


def _become(kind: str, sections: Mapping[str, bytes], program: Program, dims: list[int], want: Any, to: int) -> None:
    """Writes how far it comes, a letter at a time."""
    inputs, outputs = ([(n.dtype, n.shape) for n in nodes] for nodes in (program.inputs, program.results))
    try:
        recipe = unpack(kind, sections)
        check(recipe, inputs, outputs)
        bound = bind(recipe, dims, None, target())
    except Exception:
        os.write(to, b"refused")
        return
    os.write(to, b"ran ")
    try:
        got = [a.tobytes() for a in _bridge.run_program(bound, _arrays(program, dims), [])]
    except Exception:
        os.write(to, b"error")
        return
    os.write(to, b"same" if got == want else b"other")


def _arrays(program: Program, dims: list[int]) -> list[Any]:
    rng = np.random.default_rng(3)
    shapes = [interpreter.dims(n) for n in interpreter.bind(program, dims).inputs]
    return [rng.integers(0, 4, shape).astype(n.dtype.numpy) for n, shape in zip(program.inputs, shapes, strict=True)]


def _outcome(work: Callable[[int], None]) -> str:
    """What a child process wrote, and how it ended where that was not by itself."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reads)
            faulthandler.disable()
            signal.alarm(SECONDS)
            work(writes)
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    os.close(writes)
    with os.fdopen(reads) as stream:
        said = stream.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended == 0:
        return said.removeprefix("ran ")
    if not said.startswith("ran "):
        return f"ended by {ended} while it was loaded"
    return "endless" if ended == -signal.SIGALRM else "crashed"


def outcomes(kind: str, count: int, seed: int) -> Counter[str]:
    """How often each outcome was met, over `count` changed plans of a kind of recipe."""
    program, dims = KINDS[kind]()
    sections = pack(compile_program(program, kind, target()))[1]
    honest = unpack(kind, sections)
    want = [a.tobytes() for a in _bridge.run_program(bind(honest, dims, None, target()), _arrays(program, dims), [])]
    plan = json.loads(sections["plan"])
    found: Counter[str] = Counter()
    for k in range(count):
        other = changed(plan, np.random.default_rng((seed, k)))
        if other == plan:
            continue
        lie = {**sections, "plan": json.dumps(other).encode()}
        found["unsealed"] += seal("a", lie) != seal("a", sections)
        found[_outcome(lambda to, lie=lie: _become(kind, lie, program, dims, want, to))] += 1
        found["changed"] += 1
    return found


def main(count: int, seed: int) -> None:
    _bridge.set_threads(1)  # a forked process has no others
    print(json.dumps({kind: outcomes(kind, count, seed) for kind in KINDS}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
