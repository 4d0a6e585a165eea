"""From a cluster and the shapes it meets to a program the runtime can launch.

Called by native code when a launch meets shapes for the first time. A recipe is looked for under its key: in this
process, in the recipe cache, and compiled only when it is nowhere. A cluster of one op is keyed by its lowered
program, so that eager ops that come to the same primitives share a recipe, and generic ones (elementwise, fill,
random) are lowered over symbolic extents, so that one recipe serves all shapes. A larger cluster is keyed by what
it was before lowering: a warm start does not lower at all.

A program the code generator cannot take is interpreted, with one warning that names it; a cluster that cannot even be
lowered is left to TensorFlow on the CPU (`stock.py`). With TF_CPU_RUNTIME_FALLBACK=forbid both are errors.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from habana_tf import memory, settings
from habana_tf.cache import process
from habana_tf.cache.entry import Entry
from habana_tf.cache.key import Key
from habana_tf.cache.levels import KnownFailure
from habana_tf.hardware.cpu import Target, target

from ..graph.cluster import digest, parsed
from ..lowering.lower import LoweringError
from ..lowering.table import lookup
from . import extent as ext
from .compile import compile_program
from .dtypes import from_tf
from .extent import Extent
from .generic import Generic, generalize
from .ir import Program
from .premises import NeedsNumber, hold
from .ranges import MOST_SIGNATURES, Form, guesses, kin
from .recipe import Recipe, bind, pack, unpack
from .recompilations import History, Met, Signature, history, record, record_one_op
from .source import Source
from .views import Unfit

log = logging.getLogger("habana_tf")

FAILED_PRECONDITION = 9
UNIMPLEMENTED = 12


class CompileForbidden(RuntimeError):
    """HABANA_SIM_COMPILE=forbid, and a recipe is not in the cache."""

    tf_code = FAILED_PRECONDITION


class FallbackForbidden(RuntimeError):
    """TF_CPU_RUNTIME_FALLBACK=forbid, and a cluster cannot be compiled."""

    tf_code = UNIMPLEMENTED


@dataclass(frozen=True)
class _Request(Source):
    """A cluster with the shapes and fixed values it met: what a recipe for just these is compiled from."""

    shapes: Sequence[tuple[int, ...]]


_NEEDS_NUMBERS = (NeedsNumber, Unfit, LoweringError)
"""What says that there is no recipe for a range: a number is needed, or sizes are not known to agree."""
_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What only a mistake in the compiler raises: it is said, and the cluster gets a recipe for its shape."""
_MOST_TRIES = 3
"""How often a form is tried: at other sizes something else may hold that lowering has to decide."""
MOST_PARTS = 8
"""Ranges into which the conditions of its recipes may part one form; sizes beyond them have recipes of their own."""

_NOTED_SECONDS = 1.0
"""A compilation that takes longer is told in one line: who waits wants to know for what."""
_SHOWN_INPUTS = 6
"""Inputs that a line of a listing has room for, and more."""
_recipes: dict[str, Recipe] = {}
"""By key; and by what they were lowered to, which several keys may come to: where a slice begins is in the key of its
cluster, since it may fix a shape, but often not in the program."""
_forms: dict[str, list[Form]] = {}
"""Per cluster the ranges that have a recipe."""
_refused: dict[tuple[str, Form], list[str]] = {}
"""Per cluster and form over symbolic extents why there is no recipe for it, once for each time it was tried."""
_lock = threading.Lock()


def resolve(data: bytes, signature: Sequence[tuple[int, tuple[int, ...], bytes | None]]) -> int:
    """The runtime's handle of the program for a serialized cluster on inputs of this signature.

    signature: per input (TensorFlow's type number, shape, value or None). Raises LoweringError for arguments that
    an op refuses, in TensorFlow's words.
    """
    cluster = parsed(data)
    request = _Request(data, cluster, [tuple(s) for _, s, _ in signature], [_value(x) for x in signature])
    try:
        return _one_op(request, target()) if len(cluster.nodes) == 1 else _several_ops(request, target())
    except (CompileForbidden, FallbackForbidden, MemoryError, TimeoutError):
        raise
    except Exception as why:
        return _otherwise(request, why)


def _several_ops(request: _Request, goal: Target) -> int:
    start = time.perf_counter()
    cluster, content = request.cluster, digest(request.data)
    known = history(content, cluster.name, len(cluster.nodes), [a.name for a in cluster.inputs])
    met = Signature.of(request.shapes, request.values)
    changed = known.changes(met)
    ranged, reason = _ranged(request, content, known, met, goal)
    if ranged is not None:
        recipe, how, dims = ranged
    else:
        dims = []
        key = _key(goal, [("cluster", content), ("inputs", _inputs(request)), ("fixed", _fixed(request))])
        try:
            recipe, how = _recipe(key, request, request.program, goal)
        except Unfit as why:
            handle = _interpreted(request, why)
            record(known, Met(met, changed, "interpreted", time.perf_counter() - start, reason=str(why)))
            return handle
    memory.record(_plan(request, recipe, dims))
    handle = bind(recipe, dims, None, goal)
    symbols = tuple((f"s{k}", n) for k, n in enumerate(dims))
    record(known, Met(met, changed, how, time.perf_counter() - start, symbols, reason))
    return handle


def _same_program(request: _Request, goal: Target) -> Recipe | None:
    """The recipe of this process for what a cluster comes to, if it is there: other values may come to the same
    program, where a slice begins, say."""
    try:
        program = request.program()
    except Exception:  # why it cannot be lowered is found where it is needed
        return None
    return _recipes.get(_key(goal, [("program", program_text(program))]).digest)


def _ranged(
    request: _Request, content: str, known: History, met: Signature, goal: Target
) -> tuple[tuple[Recipe, str, list[int]] | None, str]:
    """The recipe for a range that takes this signature, how it came and the symbols' values; or None and why not.

    A form that cannot be compiled is remembered with the reason, and the cluster gets a recipe per shape.
    """
    if not settings.TF_ENABLE_DYNAMIC_SHAPES.get():
        return None, ""
    forms = _forms.setdefault(content, [])
    for form in list(forms):
        if (dims := form.dims(met)) is not None:
            return (*_recipe_for(form, dims, request, content, goal), dims), ""
    changed = known.changes(met)
    if changed and all(c.value for c in changed) and (same := _same_program(request, goal)) is not None:
        return (same, "known", []), ""
    earlier = kin(met, known.comparable(met))[-MOST_SIGNATURES:]
    reasons: list[str] = []
    for new in guesses([*earlier, met]) if earlier else []:
        dims = new.dims(met)
        if dims is None:
            continue
        refused = _refused.setdefault((content, new), [])
        if len(refused) < _MOST_TRIES:
            try:
                recipe, how = _recipe_for(new, dims, request, content, goal)
            except _NEEDS_NUMBERS as why:
                refused.append(f"not for a range: {why}")
            except _DEFECTS as why:
                name = request.cluster.name
                log.warning("%s: a defect of habana_tf, please report it: no recipe for a range", name, exc_info=why)
                refused.append(f"not for a range: a defect of habana_tf ({type(why).__name__}: {why})")
            else:
                forms.append(replace(new, conditions=recipe.conditions))
                return (recipe, how, dims), ""
        reasons.append(refused[-1])
    return None, reasons[0] if reasons else ""


def _recipe_for(form: Form, dims: list[int], request: _Request, content: str, goal: Target) -> tuple[Recipe, str]:
    """The recipe of a form for these sizes. Raises what lowering and code generation raise where a number is needed.

    A recipe found under the form's key may be one for other sizes, of which it takes something else for granted. The
    next one's key says for which sizes it is not.
    """
    shapes = form.shapes(len(request.shapes))
    values = form.values(request.values)
    inputs = [[a.dtype.label, [str(n) for n in s]] for a, s in zip(request.cluster.inputs, shapes, strict=True)]
    fixed = [[i, [str(n) for n in v.reshape(-1)]] for i, v in enumerate(values) if v is not None]
    source = Source(request.data, request.cluster, shapes, values, dims)
    beyond: list[list[str]] = []
    for _ in range(MOST_PARTS):
        parts: list[tuple[str, object]] = [("cluster", content), ("inputs", inputs), ("fixed", fixed)]
        key = _key(goal, [*parts, ("beyond", beyond)] if beyond else parts)
        recipe, how = _recipe(key, source, source.program, goal)
        if hold(recipe.conditions, dims):
            return recipe, how
        beyond.append([str(e) for e in recipe.conditions])
    raise NeedsNumber(f"its sizes fall into more than {MOST_PARTS} ranges")


def _plan(request: _Request, recipe: Recipe, dims: list[int]) -> memory.LaunchMemory:
    """The exact bytes of a launch."""
    cluster = request.cluster
    inputs = [math.prod(s) * a.dtype.bytes for a, s in zip(cluster.inputs, request.shapes, strict=True)]
    outputs = [ext.evaluate(ext.product(s), dims) * d.bytes for d, s in recipe.outputs]
    updates = sum(n for n, a in zip(outputs, cluster.results, strict=True) if a.variable)
    _, total, alive = recipe.workspace(dims)
    return memory.LaunchMemory(cluster.name, sum(inputs), sum(outputs), updates, total, alive)


def _one_op(request: _Request, goal: Target) -> int:
    node = request.cluster.nodes[0]
    row = lookup(node.op)
    form = generalize(row, node, request.shapes, request.values) if row and row.generic else None
    try:
        source: Source = request
        if form is not None:
            source = Source(request.data, request.cluster, form.shapes, form.values)
        program = source.program()
        key = _key(goal, [("program", program_text(program))])
        recipe, how = _recipe(key, source, lambda: program, goal)
    except Unfit as why:
        record_one_op(node.op, "interpreted")
        return _interpreted(request, why)
    record_one_op(node.op, how)
    return bind(recipe, form.dims if form else (), _shapes(recipe, form), goal)


def _shapes(recipe: Recipe, form: Generic | None) -> list[tuple[int, ...]] | None:
    return None if form is None else form.results([shape for _, shape in recipe.outputs])


def _value(item: tuple[int, tuple[int, ...], bytes | None]) -> Any | None:
    """A fixed input's value as a NumPy array."""
    import numpy as np

    tf_type, shape, value = item
    dtype = from_tf(tf_type)
    return None if value is None or dtype is None else np.frombuffer(value, dtype.numpy).reshape(shape)


# -- recipes ------------------------------------------------------------------------------------------------


def _recipe(key: Key, source: Source, program: Callable[[], Program], goal: Target) -> tuple[Recipe, str]:
    """The recipe of a key, and how it came (see `recompilations.Met`)."""
    known = _recipes.get(key.digest)
    if known is not None:
        return known, "known"
    name = source.cluster.name
    try:
        entry, how = process.lookup(key, name), "cache"
        if entry is None:
            made = program()
            lowered = _key(goal, [("program", program_text(made))]).digest
            if (known := _recipes.get(lowered)) is not None:
                process.same(key, name)
                with _lock:
                    return _recipes.setdefault(key.digest, known), "known"
            with process.compiling(key, lowered, name) as entry:
                if entry is None:
                    entry, how = _compile(key, lowered, source, made, goal), "compiled"
    except KnownFailure as why:
        raise Unfit(why.reason) from None
    recipe = unpack(entry.name, entry.sections)
    with _lock:
        _recipes.setdefault(str(entry.header.get("program", key.digest)), recipe)
        return _recipes.setdefault(key.digest, recipe), how


def _compile(key: Key, lowered: str, source: Source, program: Program, goal: Target) -> Entry:
    name = source.cluster.name
    if settings.HABANA_SIM_COMPILE.get() == "forbid":
        raise CompileForbidden(
            f"{name}: no recipe in the cache for inputs {_inputs(source)} and HABANA_SIM_COMPILE=forbid; "
            f"unset it, or point TF_RECIPE_CACHE_PATH at a cache that has the recipe"
        )
    from habana_tf._native import _bridge

    about: dict[str, Any] = {
        "program": lowered,
        "tools": _tools(),
        "ops": dict(sorted(Counter(n.op for n in source.cluster.nodes).items())),
        "inputs": [_described(n.dtype, n.shape) for n in program.inputs],
        "outputs": [_described(n.dtype, n.shape) for n in program.outputs],
        "scopes": source.scopes(),
        "takes": ", ".join(f"{n.dtype.label}[{','.join(map(str, n.shape))}]" for n in program.inputs[:_SHOWN_INPUTS]),
    }
    start = time.perf_counter()
    try:
        recipe = compile_program(program, name, goal)
    except Unfit as why:
        # Only this: an interruption, a time-out or lack of memory says nothing about the program.
        process.store_failure(key, name, about, str(why), time.perf_counter() - start)
        raise
    seconds = time.perf_counter() - start
    _bridge.count_recipe()
    header, sections = pack(recipe)
    sections.update(source.sections())
    header.update(about, memory=_memory(recipe))
    if seconds > _NOTED_SECONDS:
        log.info("compiled %s (%d ops, %s) in %.1f s", name, len(source.cluster.nodes), about["takes"], seconds)
    else:
        log.debug("compiled %s in %.0f ms", name, seconds * 1e3)
    return process.store(key, name, header, sections, seconds)


def _described(dtype: Any, shape: Sequence[Extent]) -> dict[str, Any]:
    return {"dtype": dtype.label, "shape": [n if isinstance(n, int) else str(n) for n in shape]}


def _memory(recipe: Recipe) -> dict[str, int]:
    """The plan's exact bytes; nothing for a recipe over symbolic extents, whose plan is made per shape."""
    if any(not isinstance(b.nbytes, int) for b in recipe.buffers):
        return {"constant_bytes": len(recipe.constants)}
    _, total, peak = recipe.workspace()
    return {"workspace_bytes": total, "peak_bytes": peak, "constant_bytes": len(recipe.constants)}


def _interpreted(request: _Request, why: Exception) -> int:
    """A program whose body is the interpreter."""
    from . import interpreter

    _fall_back(request.cluster.name, why)
    program = request.program()
    log.warning("%s cannot be compiled (%s): it is interpreted, which is slow", request.cluster.name, _reason(why))

    def body(arrays: Sequence[Any], states: Sequence[Any]) -> Sequence[Any]:
        return interpreter.run(program, arrays, states)

    results = [(n.dtype.tf_enum, [ext.evaluate(d, []) for d in n.shape]) for n in program.outputs]
    states = [(i, ext.evaluate(n, [])) for i, n in enumerate(program.states) if n != 0]
    return _called(request, results, states, body)


def _otherwise(request: _Request, why: Exception) -> int:
    """A program for a cluster that lowering refused or where the compiler failed: interpreted, or else TensorFlow's.

    Raises LoweringError in TensorFlow's words where TensorFlow does not take the arguments either.
    """
    from ..lowering import words
    from . import stock

    cluster = request.cluster
    launched = len(cluster.nodes) > 1 or cluster.name != cluster.nodes[0].op
    refused = words.refusal(cluster, request.shapes, request.values, launched)
    if refused is not None and not refused.taken:
        raise refused from why
    if refused is None:
        try:
            return _interpreted(request, why)
        except (FallbackForbidden, MemoryError, TimeoutError):
            raise
        except Exception as further:  # what cannot be lowered cannot be interpreted: TensorFlow is left
            log.debug("%s: %s", cluster.name, _reason(further))
    try:
        made = stock.stock(cluster, request.shapes, request.values)
    except stock.Refused as theirs:
        raise (refused or theirs) from why
    _fall_back(cluster.name, why)
    log.warning("%s cannot be lowered (%s): TensorFlow runs it on the CPU", cluster.name, _reason(why))
    return _called(request, made.results, [], lambda arrays, _: made.body(arrays))


def _fall_back(name: str, why: Exception) -> None:
    if settings.TF_CPU_RUNTIME_FALLBACK.get() == "forbid":
        raise FallbackForbidden(f"{name} cannot be compiled ({_reason(why)}) and TF_CPU_RUNTIME_FALLBACK=forbid")


def _reason(why: Exception) -> str:
    """An exception in one line: by its words where it was raised for people, else by its kind as well."""
    return str(why) if isinstance(why, (Unfit, LoweringError)) else f"{type(why).__name__}: {why}"


def _called(
    request: _Request, results: list[tuple[int, list[int]]], states: list[tuple[int, int]],
    body: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
) -> int:  # fmt: skip
    """The runtime's handle of a program that is a Python function from arrays to arrays."""
    from habana_tf._native import _bridge

    cluster, shapes = request.cluster, request.shapes

    def run(inputs: list[memoryview], outputs: list[memoryview], words: list[bytes]) -> None:
        import numpy as np

        arrays = [
            np.frombuffer(m, a.dtype.numpy).reshape(shape)
            for m, a, shape in zip(inputs, cluster.inputs, shapes, strict=True)
        ]
        made = body(arrays, [np.frombuffer(s, np.uint32) for s in words])
        for out, value in zip(outputs, made, strict=True):
            np.frombuffer(out, np.uint8)[:] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)

    handle: int = _bridge.make_interpreted(cluster.name, results, states, run)
    return handle


# -- keys ---------------------------------------------------------------------------------------------------


def _key(goal: Target, parts: list[tuple[str, object]]) -> Key:
    return Key.of(
        [*parts, ("compiler", compiler_version()), *goal.key_parts(), *settings.key_parts()]
    )  # fmt: skip


def _inputs(asked: Source) -> list[list[object]]:
    return [[a.dtype.label, list(s)] for a, s in zip(asked.cluster.inputs, asked.shapes, strict=True)]


def _fixed(request: _Request) -> list[list[object]]:
    return [[i, v.tobytes()] for i, v in enumerate(request.values) if v is not None]


def program_text(program: Program) -> str:
    """A program as text: the same for the same computation, whatever its ops were called."""
    lines = []
    nodes = program.nodes()
    number = {n: k for k, n in enumerate(nodes)}
    for n in (*program.inputs, *nodes):
        shape = ",".join(map(str, n.shape))
        arg = hashlib.sha256(n.arg).hexdigest() if isinstance(n.arg, bytes) else n.arg
        lines.append(f"{n.op.name}[{shape}]{n.dtype}{[number[s] for s in n.src]}{arg}")
    lines.append(f"{[number[n] for n in program.outputs]} {[str(s) for s in program.states]}")
    lines.extend(f"{e} >= 0" for e in program.conditions)
    return "\n".join(lines)


@functools.cache
def compiler_version() -> str:
    """SHA-256 over all that makes code of clusters: the sources that do, and the libraries that generate code and
    compute constants. Another compiler never meets this one's recipes."""
    package = Path(__file__).parent.parent
    total = hashlib.sha256(json.dumps(_libraries(), sort_keys=True).encode())
    for path in compiler_sources():
        total.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def compiler_sources() -> list[Path]:
    """The files whose content is in the recipe key, sorted."""
    package = Path(__file__).parent.parent
    folders = (package / "compiler", package / "lowering")
    found = [path for folder in folders for path in folder.rglob("*.py")]
    return sorted([*found, package / "graph" / "cluster.py", package / "hardware" / "cpu.py"])


@functools.cache
def _libraries() -> dict[str, str]:
    """Versions of what compiles (llvmlite and its LLVM) and what computes constants (NumPy)."""
    import llvmlite
    import numpy as np
    from llvmlite import binding

    llvm = ".".join(map(str, binding.llvm_version_info))
    return {"llvmlite": llvmlite.__version__, "llvm": llvm, "numpy": np.__version__}


@functools.cache
def _tools() -> dict[str, str]:
    import habana_tf

    return {"habana_tf": habana_tf.__version__, **_libraries()}


__all__ = ["CompileForbidden", "FallbackForbidden", "LoweringError", "resolve"]
