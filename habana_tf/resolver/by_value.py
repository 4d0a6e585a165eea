"""Stops compiling a recipe per value: after some values of an input the framework runs a cluster on the CPU.

A diagonal's number decides what `matrix_diag` computes, and no recipe serves all of them. A program in which it is
data would compile in every call. So once a cluster has MOST_VALUES recipes for the same shapes and other values, which
no range takes, further values are left to the framework on the CPU; the placement report says so, and a warning, once.

Where that would change what is computed, or may not be, each value has its recipe as before: with random states, loops,
and TF_CPU_RUNTIME_FALLBACK=forbid.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from habana_tf import settings
from habana_tf.cluster import left_to_cpu
from habana_tf.cluster.cluster import InvalidArguments
from habana_tf.cluster.signature import Number, Signature
from habana_tf.resolver.fallback import called
from habana_tf.resolver.request import Request

if TYPE_CHECKING:
    from habana_tf._native._bridge import Program as Bound

log = logging.getLogger("habana_tf")

MOST_VALUES = 16
"""Recipes of a cluster for the same shapes and other values. An axis, or the order of axes, has no more in programs,
and each is worth a recipe; 16 of them are compiled in half a second."""
MOST_VALUES_AND_SIZES = 48
"""The same where sizes change with the values: an op stands in many places of a program, in each with its own."""


def had_enough(request: Request, earlier: Sequence[Signature], met: Signature) -> bool:
    """Whether a cluster had enough recipes of its own for the CPU to run others. earlier: what those are for."""
    cluster = request.cluster
    if settings.TF_CPU_RUNTIME_FALLBACK.get() == "forbid" or not _by_value(earlier, met):
        return False
    return not cluster.states and not any(n.is_loop for n in cluster.nodes)


def run_on_cpu(request: Request) -> Bound | None:
    """The program of a cluster that the framework runs; None where it does not take what the cluster met."""
    cluster = request.cluster
    try:
        made = cluster.other_way(request.shapes, request.raw or request.values)
    except InvalidArguments:  # its lowering says why
        return None
    if made is None:
        return None
    if left_to_cpu.note(cluster.name):
        log.warning(
            "%s met %d values of an input that decides its recipe: %s runs further ones on the CPU. A "
            "constant, or a size that follows from a shape, would not need that",
            cluster.name, MOST_VALUES, cluster.framework,
        )  # fmt: skip
    return called(request, made.results, [], lambda arrays, _: made.body(arrays))


def _by_value(earlier: Sequence[Signature], met: Signature) -> bool:
    """Whether enough signatures had other values: with these shapes, or with any."""
    alike = [s for s in earlier if s.slots == met.slots and _numbers(s, True) != _numbers(met, True)]
    here = [s for s in alike if _numbers(s, False) == _numbers(met, False)]
    return len(here) >= MOST_VALUES or len({_numbers(s, True) for s in alike}) >= MOST_VALUES_AND_SIZES


def _numbers(signature: Signature, value: bool) -> tuple[Number, ...]:
    """Those of values, or the sizes."""
    return tuple(n for slot, n in zip(signature.slots, signature.numbers, strict=True) if slot.value is value)
