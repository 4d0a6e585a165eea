"""What each kernel of a training step takes, beside what the CPU can do: `--models kernels`, for models in `--scale`.

A model is trained for two steps in a fresh process, which leaves its recipe. The kernels of that are then run here, in
their order, on one thread and on memory full of zeros, and the least CPU time of a few rounds counts for each; so a
kernel finds the caches as it does in a step. One in a loop is run once, and counts as often as it is made. Sums are per
class of kernels, in milliseconds, GFLOP/s and GB/s (tensors read and written, each once; see `compiler.describe`), with
the share of what a loop of multiply-adds in fp32 does in registers; pairs in bf16 may do twice that, and convolutions
count the multiplications of their definition, of which Winograd's algorithm needs less than half.

How evenly many threads could share the work is counted, not measured: of each call its largest share by the number of
its work items, as the thread pool deals them out, with MANY threads; ideal is a MANYth of each.

    products          forward
    input gradients   of a product's first operand
    weight gradients  of its second operand
    other classes     what is no product, by what it does
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from habana_tf.cache.entry import Entry
    from habana_tf.compiler.recipe import Recipe

WORKER = Path(__file__).with_name("worker.py")
ROUNDS = 5
SLOWEST = 12
"""Kernels that the list names."""
SUMS, TURNS = 12, 20_000
MANY = 64
"""Threads of a large server, for how many of which there is work."""
PARTS = 64
"""Parts for each thread into which the pool cuts a grid (kPartsPerThread of kernels/runtime/thread_pool.cc)."""


@dataclass(frozen=True)
class Row:
    """A kernel as it was measured. what: one of the ops that it computes. shared: seconds, if MANY threads had it."""

    kind: str
    what: str
    shape: tuple[int, ...]
    flops: int
    nbytes: int
    seconds: float
    shared: float = 0.0


def measure(model: str, options: argparse.Namespace) -> dict[str, list[Row]]:
    """The rows of one training step by precision."""
    found = {}
    for precision in options.precision:
        with tempfile.TemporaryDirectory() as recipes:
            _train(model, precision, recipes)
            found[precision] = rows(_step(recipes))
    return found


def _train(model: str, precision: str, recipes: str) -> None:
    command = [sys.executable, str(WORKER), "--model", model, "--device", "hpu", "--threads", "1", "--steps", "2"]
    done = subprocess.run(
        [*command, "--precision", precision], env={**os.environ, "TF_RECIPE_CACHE_PATH": recipes},
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{model} in {precision} failed:\n{done.stderr[-4000:]}")


def _step(recipes: str) -> Entry:
    """The recipe of a training step: of all that the run left, the one with most arithmetic."""
    from habana_tf.cache.reader import Reader

    reader = Reader.of(recipes)
    most = max(reader.listing(), key=lambda row: (row.header or {}).get("flops") or 0)
    return reader.inspect(most)


def rows(entry: Entry, rounds: int = ROUNDS) -> list[Row]:
    """What each kernel of a recipe takes."""
    from habana_tf.cli.recipes import contents
    from habana_tf.compiler.packed_recipe import unpack

    recipe = unpack(entry.name, entry.sections)
    seconds = _seconds(recipe, rounds)
    shares = [took * largest_share(call.grid, call.grain) for took, call in zip(seconds, recipe.calls, strict=True)]
    ops, found = contents.ops(entry), []
    for row in contents.kernels(entry):
        first, count = row["launches"]
        named = [(ops[k].type, ops[k].name) for k in row["ops"]]
        kind, what = _classified(row["does"], named)
        took, shared = (sum(each[first : first + count]) * row.get("times", 1) for each in (seconds, shares))
        found.append(Row(kind, what, tuple(row["shape"]), row["flops"], row["bytes"], took, shared))
    return found


def largest_share(grid: int, grain: int, threads: int = MANY) -> float:
    """The part of a call that the thread has that has most, if all begin at once and work alike."""
    if grid <= grain:
        return 1.0
    part = max(grain, -(-grid // (threads * PARTS)))
    parts = -(-grid // part)
    return min(grid, -(-parts // min(parts, threads)) * part) / grid


def _classified(does: str, ops: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """A kernel's class, and the op to call it by: the last product, since what a gradient reads may have been padded
    for the product before. Gradients are named after that one, the second operand's with a number behind."""
    what = ops[0][1] if ops else ""
    if does != "contract":
        return does, what
    product = [
        (type_, name) for type_, name in ops if type_.startswith(("Conv", "Depthwise", "MatMul", "Batch", "Ein"))
    ]
    type_, what = product[-1] if product else ("", what)
    if "gradient" not in what and "Backprop" not in type_:
        return "products", what
    second = type_.endswith("BackpropFilter") or what.endswith("_1")
    return ("weight gradients" if second else "input gradients"), what


def _seconds(recipe: Recipe, rounds: int) -> list[float]:
    """The least CPU time of each kernel call. Raises ValueError for a recipe over symbolic sizes."""
    import numpy as np

    from habana_tf.compiler.codegen.machine import Loaded
    from habana_tf.compiler.codegen.objects import split
    from habana_tf.compiler.recipe import Kind
    from habana_tf.hardware.cpu import target

    loaded = Loaded(split(recipe.code), {call.function for call in recipe.calls}, target())
    offsets, total, _ = recipe.workspace()

    def memory(nbytes: int) -> Any:
        room = np.empty(nbytes + 4096, np.uint8)
        room.fill(0)
        return room

    workspace, constants = memory(total), memory(len(recipe.constants))
    constants_at, workspace_at = (-(-x.ctypes.data // 64) * 64 for x in (constants, workspace))
    ctypes.memmove(constants_at, bytes(recipe.constants), len(recipe.constants))
    owned, places = [], []
    for number, buffer in enumerate(recipe.buffers):
        if not isinstance(buffer.nbytes, int):
            raise ValueError(f"{recipe.name} is over sizes known at run time only")
        if buffer.kind is Kind.WORKSPACE:
            places.append(workspace_at + offsets[number])
        elif buffer.kind is Kind.CONSTANT:
            places.append(constants_at + buffer.index)
        else:
            owned.append(memory(buffer.nbytes))
            places.append(-(-owned[-1].ctypes.data // 64) * 64)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    prepared = []
    for call in recipe.calls:
        pointers = (ctypes.c_void_p * len(call.buffers))(*(places[b] for b in call.buffers))
        numbers = (ctypes.c_int64 * max(1, len(call.constants)))(*call.constants)
        prepared.append((signature(loaded.address(call.function)), pointers, numbers, call.grid))
    least = [float("inf")] * len(prepared)
    for _ in range(rounds):
        for k, (function, pointers, numbers, grid) in enumerate(prepared):
            start = time.thread_time_ns()
            function(ctypes.addressof(pointers), ctypes.addressof(numbers), 0, grid)
            least[k] = min(least[k], (time.thread_time_ns() - start) / 1e9)
    return least


def peak() -> float:
    """Floating-point operations per second of one thread in a loop of multiply-adds in registers."""
    from habana_tf.compiler.codegen import emit
    from habana_tf.compiler.codegen.machine import Loaded, compile_ir
    from habana_tf.compiler.codegen.turns import repeat
    from habana_tf.hardware.cpu import target

    goal = target()
    fn, vector = emit.Function("peak"), f"<{goal.lanes} x float>"
    memory = fn.buffer(0)
    factor = fn.load(vector, memory, 4)
    with repeat(fn, TURNS, [(vector, factor)] * SUMS) as turns:
        name = f"llvm.fmuladd.v{goal.lanes}f32"
        turns.next = [fn.call(vector, name, (vector, x), (vector, factor), (vector, factor)) for x in turns.carried]
    for i, x in enumerate(turns.next):
        fn.store(vector, x, fn.op(f"getelementptr i8, ptr {memory}, i64 {i * goal.vector_bytes}"), 4)
    loaded = Loaded([compile_ir(emit.module([fn.text()], fn.declarations, ""), goal)], ["peak"], goal)
    room = (ctypes.c_char * (SUMS * 64))()
    pointers, numbers = (ctypes.c_void_p * 1)(ctypes.addressof(room)), (ctypes.c_int64 * 1)()
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    function, best = signature(loaded.address("peak")), float("inf")
    for _ in range(20):
        start = time.thread_time_ns()
        function(ctypes.addressof(pointers), ctypes.addressof(numbers), 0, 1)
        best = min(best, (time.thread_time_ns() - start) / 1e9)
    return 2 * goal.lanes * SUMS * TURNS / best


def summary(model: str, threads: int, measured: dict[str, list[Row]]) -> dict[str, Any]:
    """One JSON line: per precision its classes and its slowest kernels."""
    most = peak()
    line: dict[str, Any] = {"model": f"kernels {model}", "peak_gflops": most / 1e9}
    for precision, found in measured.items():
        kinds = sorted({r.kind for r in found}, key=lambda kind: -sum(r.seconds for r in found if r.kind == kind))
        classes = {kind: _total([r for r in found if r.kind == kind], most) for kind in kinds}
        slowest = sorted(found, key=lambda r: -r.seconds)[:SLOWEST]
        line[precision] = {
            "all": {**_total(found, most), "shared_by_many": _shared(found)},
            "classes": classes,
            "slowest": [{"what": r.what, "kind": r.kind, "shape": list(r.shape), **_total([r], most)} for r in slowest],
        }
    return line


def _shared(found: Sequence[Row]) -> float:
    """The part of MANY threads' time that is work, if calls take as long as who has most of them."""
    return sum(r.seconds for r in found) / MANY / max(sum(r.shared for r in found), 1e-12)


def _total(some: Sequence[Row], most: float) -> dict[str, Any]:
    seconds = max(sum(r.seconds for r in some), 1e-9)
    rate = sum(r.flops for r in some) / seconds
    return {
        "kernels": len(some), "ms": seconds * 1e3, "gflops": rate / 1e9,
        "gb_per_s": sum(r.nbytes for r in some) / seconds / 1e9, "share_of_peak": rate / most,
    }  # fmt: skip


def sentence(line: dict[str, Any]) -> str:
    """The line for people."""
    out = [f"{line['model']}, one thread, {line['peak_gflops']:.0f} GFLOP/s in registers"]
    for precision in (p for p in ("fp32", "bf16") if p in line):
        found = line[precision]
        for kind, total in {"all": found["all"], **found["classes"]}.items():
            out.append(f"  {precision} {kind:18}{_figures(total)}  {total['kernels']} kernels")
        busy = found["all"]["shared_by_many"]
        out.append(f"  {precision} of {MANY} threads' time {busy:.0%} would be work, by the number of work items")
        out += [f"  {precision} slowest{'':11}{_figures(r)}  {r['kind']} {r['shape']} {r['what']}"
                for r in found["slowest"]]  # fmt: skip
    return "\n".join(out)


def _figures(total: dict[str, Any]) -> str:
    share = f"{total['share_of_peak']:4.0%}"
    return f"{total['ms']:9.2f} ms {total['gflops']:7.1f} GFLOP/s {share} {total['gb_per_s']:6.1f} GB/s"
