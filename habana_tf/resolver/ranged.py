"""Finds a recipe for a range of sizes: one recipe for all signatures of a cluster that differ in some sizes only.

    met [64, 10] and [29, 10]     form [s0, 10]: one recipe, for any s0 that its conditions allow

Forms are guessed by comparing the signatures that a cluster has met (`cluster.ranges`). Lowering or code generation may
need a number where a form has a symbol. Such a form is remembered with the reason, and the signature gets a recipe of
its own. Since each guess may cost as much as compiling a recipe, a cluster stops guessing after many that failed.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from habana_tf import settings
from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.cluster.ranges import MOST_SIGNATURES, SizeRange, guesses, kin
from habana_tf.cluster.signature import Signature
from habana_tf.compiler.recipe import Recipe
from habana_tf.compiler.symbolic_products import with_loop_nests
from habana_tf.compiler.view_indices import Unfit
from habana_tf.hardware.cpu import Target
from habana_tf.ir.conditions import NeedsNumber, hold
from habana_tf.ir.primitives import Op, Program
from habana_tf.resolver import keys, recipes
from habana_tf.resolver.provenance import Provenance
from habana_tf.resolver.recompilations import ChangedNumber, History
from habana_tf.resolver.request import Request

log = logging.getLogger("habana_tf")

KeyParts = Sequence[tuple[str, object]]
RangeRecipe = tuple[Recipe, str, list[int]]
"""A recipe, how it came (compiled, from the cache, ...), and the values of its symbols."""

_NEEDS_NUMBERS = (NeedsNumber, Unfit, LoweringError)
"""Raised where a form cannot have a recipe: a number is needed, or two sizes are not known to be equal."""
_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Raised by a mistake in the compiler only. It is logged, and the signature gets a recipe of its own."""
_MOST_TRIES = 3
"""How often a form is tried. A second try may succeed: where lowering compares sizes, it decides by those at hand."""
MOST_PARTS = 8
"""Recipes of one form, each for the sizes that meet its conditions; sizes that meet none of them have recipes of their
own."""

MOST_CLUSTERS = 4096
"""Clusters whose ranges are remembered, those met last."""
MOST_FORMS = 64
"""Ranges of a cluster that are remembered, those used last."""
FIRST_ALONE = 6
"""Signatures of an op by itself that get recipes of their own before a range is tried: as many as an op meets in a
small model. Fewer would save compilations of 15 ms each, but code for a range takes 1.6 times as long for sums over
rows (of matrices of 250 by 250) and 1.3 times for running sums. More would not pay, because for ops that move elements
it is as fast (20 shapes cost 17 compilations where the first 16 have their own)."""
FIRST_PRODUCTS = 48
"""The same for products, whose code for known sizes is faster: a network's convolutions have some thirty shapes."""
FIRST_WALKED = 6
"""Signatures of a cluster that get recipes of their own before a range is tried in which products are plain loop nests
(`compiler.symbolic_products`), which are up to 1.4 times as slow. There is no waiting where the front end names earlier
signatures: it has seen that the weights kept their shapes, so that the data's sizes are what changes."""
MOST_WALKED = 8
"""How often a cluster tries such ranges in vain."""
MOST_ALONE = 64
"""Signatures that are remembered of an op by itself, those met last."""
MOST_REFUSED = 32
"""How often a cluster tries ranges in vain."""


@dataclass
class Ranges:
    """What is known of the ranges of a cluster.

    forms: those that have a recipe, the one used last at the end.
    refused: by form, the reason of each try that failed. tries, walks: how many failed, of forms whose products have
    tiles and of those whose products are walked (`SizeRange.walked`: plain loop nests).
    unfit: whether a form failed because something has no kernel for a range, as products may have none.
    alone: of an op by itself, the signatures that it met last.
    """

    forms: list[SizeRange] = field(default_factory=list)
    refused: dict[SizeRange, list[str]] = field(default_factory=dict)
    tries: int = 0
    walks: int = 0
    unfit: bool = False
    alone: list[Signature] = field(default_factory=list)

    def used(self, form: SizeRange) -> None:
        """Moves a form to the end, or adds it there."""
        if not self.forms or self.forms[-1] is not form:
            self.forms = [*(f for f in self.forms if f is not form), form][-MOST_FORMS:]

    def refuse(self, form: SizeRange, reason: str) -> None:
        """Notes why there is no recipe for a form."""
        self.refused.setdefault(form, []).append(reason)
        if form.walked:
            self.walks += 1
        else:
            self.tries += 1


@functools.lru_cache(maxsize=MOST_CLUSTERS)
def ranges_of(computed: str) -> Ranges:
    """The ranges of a cluster, by what it computes."""
    return Ranges()


def ranged(
    request: Request,
    computed: KeyParts,
    known: History,
    met: Signature,
    changed: tuple[ChangedNumber, ...],
    goal: Target,
) -> tuple[RangeRecipe | None, str]:
    """The recipe for a range that this signature is in; or None, and the reason.

    computed: what the cluster computes, as parts of a key. known: its earlier signatures. met: this one. changed: the
    numbers in which it differs from them.
    """
    if not settings.TF_ENABLE_DYNAMIC_SHAPES.get():
        return None, ""
    ranges = ranges_of(json.dumps(computed))
    if (found := _taken(ranges, request, computed, met, goal)) is not None:
        return found, ""
    if changed and all(c.value for c in changed) and (same := _same_program(request, goal)) is not None:
        return (same, "known", []), ""
    comparable = [*request.cluster.earlier, *known.comparable(met)]
    variables = [k for k, a in enumerate(request.cluster.inputs) if a.variable]
    earlier = kin(met, comparable, variables)[-MOST_SIGNATURES:]
    if not earlier:
        another = any(c.input == request.cluster.inputs[k].name for c in changed for k in variables)
        return None, "another model of these ops: a variable's shape differs" if another else request.cluster.alone
    walked = bool(request.cluster.earlier) or len(comparable) >= FIRST_WALKED
    return _guessed(ranges, request, computed, earlier, met, goal, walked)


def known_range(request: Request, met: Signature, goal: Target) -> RangeRecipe | None:
    """Of an op by itself the recipe of a known range that this signature is in; None where it is in none."""
    if not settings.TF_ENABLE_DYNAMIC_SHAPES.get():
        return None
    computed = request.cluster.computed()
    return _taken(ranges_of(json.dumps(computed)), request, computed, met, goal)


def ranged_alone(
    request: Request, program: Program, met: Signature, goal: Target
) -> tuple[RangeRecipe | None, list[Signature]]:
    """Of an op by itself the recipe of a new range that this signature is in, None where it gets a recipe of its own;
    and the signatures that got recipes of their own before.

    An op stands in many places of a program, so its first few shapes do not mean that sizes change: they get recipes of
    their own, unless the front end names earlier signatures that are of one range with this one.
    """
    if not settings.TF_ENABLE_DYNAMIC_SHAPES.get():
        return None, []
    ranges = ranges_of(json.dumps(computed := request.cluster.computed()))
    own, known = ranges.alone, request.cluster.earlier
    variables = [k for k, a in enumerate(request.cluster.inputs) if a.variable and not known]
    earlier = kin(met, [*known, *own], variables)
    ranges.alone = [*(s for s in own if s != met), met][-MOST_ALONE:]
    first = FIRST_PRODUCTS if any(n.op is Op.CONTRACT for n in program.nodes()) else FIRST_ALONE
    if not known and len(earlier) < first:
        return None, own
    return _guessed(ranges, request, computed, earlier[-MOST_SIGNATURES:], met, goal, walked=True)[0], own


def _taken(ranges: Ranges, request: Request, computed: KeyParts, met: Signature, goal: Target) -> RangeRecipe | None:
    """The recipe of a known range that a signature is in."""
    for form in reversed(ranges.forms):
        if (dims := form.dims(met)) is not None:
            found = _recipe_for(form, dims, request, computed, goal)
            ranges.used(form)
            return (*found, dims)
    return None


def _guessed(
    ranges: Ranges, request: Request, computed: KeyParts, earlier: Sequence[Signature], met: Signature, goal: Target,
    walked: bool,
) -> tuple[RangeRecipe | None, str]:  # fmt: skip
    """The recipe of a new range over earlier signatures and this one; or None, and the reason. walked: whether forms
    with walked products are tried, too."""
    reasons: list[str] = []
    forms = guesses([*earlier, met])
    for new in chain(forms, (replace(form, walked=True) for form in forms if walked and ranges.unfit)):
        dims = new.dims(met)
        if dims is None:
            continue
        refused = ranges.refused.get(new, [])
        tries, most = (ranges.walks, MOST_WALKED) if new.walked else (ranges.tries, MOST_REFUSED)
        if tries >= most and not refused:
            reasons.append(f"not for a range: {tries} guesses were tried in vain")
            continue
        if len(refused) < _MOST_TRIES and tries < most:
            try:
                recipe, how = _recipe_for(new, dims, request, computed, goal)
            except _NEEDS_NUMBERS as why:
                ranges.unfit |= isinstance(why, Unfit)
                ranges.refuse(new, f"not for a range: {why}")
            except _DEFECTS as why:
                name = request.cluster.name
                log.warning("%s: a defect of habana_tf, please report it: no recipe for a range", name, exc_info=why)
                ranges.refuse(new, f"not for a range: a defect of habana_tf ({type(why).__name__}: {why})")
            else:
                ranges.used(replace(new, conditions=recipe.conditions))
                return (recipe, how, dims), ""
        reasons.append(ranges.refused[new][-1])
    return None, reasons[0] if reasons else ""


def _recipe_for(
    form: SizeRange, dims: list[int], request: Request, computed: KeyParts, goal: Target
) -> tuple[Recipe, str]:
    """The recipe of a form for these sizes. Raises what lowering and code generation raise where a number is needed.

    The recipe under the form's key may have conditions that these sizes do not meet. Then the next key is tried, which
    also lists the conditions of the recipes before it.
    """
    shapes = form.shapes(len(request.shapes))
    values = form.values(request.values)
    inputs = [[a.dtype.label, [str(n) for n in s]] for a, s in zip(request.cluster.inputs, shapes, strict=True)]
    fixed = [[i, [str(n) for n in v.reshape(-1)]] for i, v in enumerate(values) if v is not None]
    source = Provenance(request.cluster, shapes, values, dims)
    beyond: list[list[str]] = []
    for _ in range(MOST_PARTS):
        parts = [*computed, ("inputs", inputs), ("fixed", fixed), *([("products", "walked")] if form.walked else [])]
        key = keys.recipe_key(goal, [*parts, ("beyond", beyond)] if beyond else parts, request.cluster.has_bf16)
        recipe, how = recipes.recipe_of(key, source, lambda: _program(form, source, goal), goal)
        if hold(recipe.conditions, dims):
            return recipe, how
        beyond.append([str(e) for e in recipe.conditions])
    raise NeedsNumber(f"its sizes fall into more than {MOST_PARTS} ranges")


def _program(form: SizeRange, source: Provenance, goal: Target) -> Program:
    """What the recipe of a form is compiled from."""
    if not form.walked:
        return source.program()
    program = source.program()
    if (walked := with_loop_nests(program, goal)) is program:
        raise Unfit("it has no product that could be walked")
    return walked


def _same_program(request: Request, goal: Target) -> Recipe | None:
    """The recipe that this process has for a cluster's program, if it has one: clusters that differ in values, such as
    where a slice begins, may have the same program."""
    try:
        program = request.program()
    except Exception:  # why it cannot be lowered is found where it is needed
        return None
    return recipes.known(program, goal)


def reset() -> None:
    """Forgets all ranges."""
    ranges_of.cache_clear()
