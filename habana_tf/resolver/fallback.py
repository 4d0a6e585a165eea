"""Runs a cluster that has no recipe: by the interpreter of the primitives, or else by its framework on the CPU.

A program the code generator cannot take is interpreted, with one warning that names it; a cluster that cannot even be
lowered is left to the framework that it comes from (`Cluster.other_way`). With TF_CPU_RUNTIME_FALLBACK=forbid both are
errors. The process says at its end, too, which clusters these were and what to report.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from habana_tf import settings, version
from habana_tf.cluster.cluster import InvalidArguments
from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.compiler.view_indices import Unfit
from habana_tf.ir import extent as ext
from habana_tf.ir import interpreter
from habana_tf.resolver import index_checks
from habana_tf.resolver.request import Request

if TYPE_CHECKING:
    from habana_tf._native._bridge import Program as Bound

log = logging.getLogger("habana_tf")

UNIMPLEMENTED = 12

_KEPT = 8
"""Clusters without a recipe that the end of the process names; the others are counted."""
_failed: dict[str, str] = {}
"""Why a cluster could not be compiled, by its name, in the order in which it was tried."""


class FallbackForbidden(RuntimeError):
    """TF_CPU_RUNTIME_FALLBACK=forbid, and a cluster cannot be compiled."""

    status_code = UNIMPLEMENTED


def interpreted(request: Request, why: Exception) -> Bound:
    """A program whose body is the interpreter."""
    _fall_back(request.cluster.name, why)
    program = request.program()
    log.warning("%s cannot be compiled (%s): it is interpreted, which is slow", request.cluster.name, _reason(why))

    def body(arrays: Sequence[Any], states: Sequence[Any]) -> Sequence[Any]:
        made = interpreter.run(program, arrays, states)
        index_checks.look(program, made[len(program.results) :], request)
        return made[: len(program.results)]

    results = [(n.dtype.number, [ext.evaluate(d, []) for d in n.shape]) for n in program.results]
    states = [(i, ext.evaluate(n, [])) for i, n in enumerate(program.states) if n != 0]
    return called(request, results, states, body)


def otherwise(request: Request, why: Exception) -> Bound:
    """A program for a cluster that lowering refused or where the compiler failed: interpreted, or else the
    framework's.

    Raises LoweringError in the framework's words where it does not take the arguments either.
    """
    cluster = request.cluster
    launched = len(cluster.nodes) > 1 or cluster.name != cluster.nodes[0].op
    refused = cluster.refusal(request.shapes, request.raw or request.values, launched)
    if refused is not None and not refused.taken:
        raise refused from why
    if refused is None:
        try:
            return interpreted(request, why)
        except (FallbackForbidden, MemoryError, TimeoutError):
            raise
        except Exception as further:  # what cannot be lowered cannot be interpreted: the framework is left
            log.debug("%s: %s", cluster.name, _reason(further))
    try:
        made = cluster.other_way(request.shapes, request.raw or request.values)
    except InvalidArguments as theirs:
        raise (refused or theirs) from why
    if made is None:
        raise why
    _fall_back(cluster.name, why)
    log.warning("%s cannot be lowered (%s): %s runs it on the CPU", cluster.name, _reason(why), cluster.framework)
    return called(request, made.results, [], lambda arrays, _: made.body(arrays))


def _fall_back(name: str, why: Exception) -> None:
    if settings.TF_CPU_RUNTIME_FALLBACK.get() == "forbid":
        raise FallbackForbidden(f"{name} cannot be compiled ({_reason(why)}) and TF_CPU_RUNTIME_FALLBACK=forbid")
    if not _failed:
        atexit.register(_tell_all)
    _failed.setdefault(name, _reason(why))


def _tell_all() -> None:
    """One message about all of them: the warning of each may have scrolled away."""
    names = list(_failed)
    shown = "; ".join(f"{name} ({_failed[name]})" for name in names[:_KEPT])
    more = f" and {len(names) - _KEPT} more" if len(names) > _KEPT else ""
    log.warning(
        "%d op%s or cluster%s of this process could not be compiled and ran slowly: %s%s. That is a defect or a gap of "
        "habana_tf: please report this line with the program. TF_CPU_RUNTIME_FALLBACK=forbid makes it an error that "
        "shows where (habana_tf %s)",
        len(names), *("s" if len(names) > 1 else "",) * 2, shown, more, version.__version__,
    )  # fmt: skip


def _reason(why: Exception) -> str:
    """An exception in one line: by its words where it was raised for people, else by its kind as well."""
    return str(why) if isinstance(why, (Unfit, LoweringError)) else f"{type(why).__name__}: {why}"


def called(
    request: Request, results: list[tuple[int, list[int]]], states: list[tuple[int, int]],
    body: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
) -> Bound:  # fmt: skip
    """The runtime's program that is a Python function from arrays to arrays."""
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

    return _bridge.make_interpreted(cluster.name, results, states, run)
