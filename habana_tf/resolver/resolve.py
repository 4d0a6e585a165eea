"""Resolves a launch: a cluster and the shapes it meets become a program that the runtime can launch.

Called by a front end when a launch meets shapes for the first time. A recipe is looked for under its key: in this
process, in the recipe cache, and compiled only when it is nowhere (`recipes`). A cluster of one op is keyed by its
lowered program, over all shapes where it can be (`one_op`). A larger cluster is keyed by what it was before lowering: a
warm start does not lower at all. What has no recipe is run otherwise (`fallback`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from habana_tf.cluster.cluster import Cluster
from habana_tf.cluster.lowering_context import CustomLoweringError
from habana_tf.cluster.signature import Signature
from habana_tf.compiler.recipe import Recipe, TooLarge
from habana_tf.compiler.view_indices import Unfit
from habana_tf.hardware.cpu import Target, target
from habana_tf.resolver import memory, programs, recipes
from habana_tf.resolver.by_value import had_enough, run_on_cpu
from habana_tf.resolver.fallback import FallbackForbidden, interpreted, otherwise
from habana_tf.resolver.input_origins import origins
from habana_tf.resolver.keys import program_key, recipe_key
from habana_tf.resolver.one_op import one_op
from habana_tf.resolver.ranged import known_range, ranged, ranged_alone
from habana_tf.resolver.recipes import CompileForbidden, StaleRecipe, bind_recipe, recipe_of, recipe_of_program
from habana_tf.resolver.recompilations import Met, history, record, record_one_op
from habana_tf.resolver.request import Request, TensorMet

if TYPE_CHECKING:
    from habana_tf._native._bridge import Program as Bound


@dataclass(frozen=True)
class _Resolved:
    """A program for a launch. how: it came (see `recompilations.Met`); count: adds it to the recompilation report,
    given the seconds it took. recipe, dims: its recipe and the numbers behind the symbols; None where it has none."""

    bound: Bound
    how: str
    count: Callable[[float], None] = lambda took: None
    recipe: Recipe | None = None
    dims: Sequence[int] = ()


def resolve(cluster: Cluster, signature: Sequence[TensorMet], in_use: int = 0) -> Bound:
    """The runtime's program for a cluster on inputs of this signature.

    signature: per input (number of the element type, shape, value or None). in_use: bytes of the card that are given
    out now, for the memory report. Raises LoweringError for arguments that an op refuses, in the front end's words.
    """
    from habana_tf._native import _bridge

    start = time.perf_counter()
    request = Request.met(cluster, signature)
    alone = len(cluster.nodes) == 1 and not cluster.nodes[0].is_loop
    try:
        look = _one_op if alone else _several_ops
        try:
            found = look(request, target())
        except StaleRecipe:
            found = look(request, target())
    except (CompileForbidden, FallbackForbidden, CustomLoweringError, MemoryError, TimeoutError, TooLarge):
        raise
    except Exception as why:
        found = _Resolved(otherwise(request, why), "interpreted")
    took = time.perf_counter() - start
    found.count(took)
    if found.how == "cache":
        _bridge.count_hit()
    programs.remember(found.bound, request, found.recipe, found.dims, found.how, took)
    if found.recipe is not None:
        plan = memory.plan_of(request, found.recipe, found.dims, found.bound, in_use)
        (memory.record_one_op if alone else memory.record)(plan)
    return found.bound


def _several_ops(request: Request, goal: Target) -> _Resolved:
    cluster = request.cluster
    known = history(
        cluster.content, cluster.name, len(cluster.nodes), [a.name for a in cluster.inputs], partial(_origin, request)
    )
    met = Signature.of(request.shapes, request.values)
    changed = known.changes(met)

    def resolved(
        bound: Bound, how: str, reason: str, recipe: Recipe | None = None, dims: Sequence[int] = ()
    ) -> _Resolved:
        symbols = tuple((f"s{k}", n) for k, n in enumerate(dims))
        return _Resolved(
            bound, how, lambda took: record(known, Met(met, changed, how, took, symbols, reason, cluster.because)),
            recipe, dims,
        )  # fmt: skip

    parts = cluster.computed()
    found, reason = ranged(request, parts, known, met, changed, goal)
    own = [m.signature for m in known.met if not m.range]
    if found is None and had_enough(request, own, met) and (bound := run_on_cpu(request)) is not None:
        return resolved(bound, "cpu", reason)
    if found is not None:
        recipe, how, dims = found
    else:
        dims = []
        parts += [("inputs", request.described()), ("fixed", request.fixed_values())]
        key = recipe_key(goal, parts, cluster.has_bf16)
        try:
            recipe, how = recipe_of(key, request, request.program, goal)
        except Unfit as why:
            return resolved(interpreted(request, why), "interpreted", str(why))
    return resolved(bind_recipe(recipe, dims, None, request, goal), how, reason, recipe, dims)


def _origin(request: Request) -> tuple[list[str], str]:
    """Where a cluster's inputs come from, and the scopes that most of its ops are of."""
    return origins(request.cluster), ", ".join([*request.scopes()][:2])


def _one_op(request: Request, goal: Target) -> _Resolved:
    op, line = request.cluster.nodes[0].op, request.cluster.line(0)

    def resolved(bound: Bound, how: str, recipe: Recipe | None = None, dims: Sequence[int] = ()) -> _Resolved:
        return _Resolved(bound, how, lambda took: record_one_op(op, how, line), recipe, dims)

    met = Signature.of(request.shapes, request.values)
    try:
        if (known := known_range(request, met, goal)) is not None:  # for which nothing has to be lowered
            recipe, how, dims = known
            return resolved(bind_recipe(recipe, dims, None, request, goal), how, recipe, dims)
        form = one_op(request, goal)
        found, own = ranged_alone(request, form.program, met, goal) if not form.dims else (None, [])
        if found is not None:
            recipe, how, dims = found
            form = replace(form, dims=dims)
        else:
            enough = had_enough(request, own, met) and recipes.known(form.program, goal) is None
            if enough and (bound := run_on_cpu(request)) is not None:  # where other values do not come to one program
                return resolved(bound, "cpu")
            recipe, how = recipe_of_program(program_key(form.program, goal), form.source, form.program, goal)
    except Unfit as why:
        return resolved(interpreted(request, why), "interpreted")
    return resolved(bind_recipe(recipe, form.dims, form.shapes, request, goal), how, recipe, form.dims)
