"""Finds the range of sizes that takes a signature, or compiles a recipe for a new one.

The forms of ranges are guessed from what a cluster met (`cluster.ranges`). A form that cannot be compiled is
remembered with the reason, and the cluster gets a recipe per shape. A cluster for which many cannot is not guessed
about any more: each guess may cost as much as a recipe.
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
"""A recipe, how it came, and the values of its symbols."""

_NEEDS_NUMBERS = (NeedsNumber, Unfit, LoweringError)
"""What says that there is no recipe for a range: a number is needed, or sizes are not known to agree."""
_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What only a mistake in the compiler raises: it is said, and the cluster gets a recipe for its shape."""
_MOST_TRIES = 3
"""How often a form is tried: at other sizes something else may hold that lowering has to decide."""
MOST_PARTS = 8
"""Ranges into which the conditions of its recipes may part one form; sizes beyond them have recipes of their own."""

MOST_CLUSTERS = 4096
"""Clusters whose ranges are remembered, those met last."""
MOST_FORMS = 64
"""Ranges of a cluster that are remembered, those used last."""
FIRST_ALONE = 6
"""Signatures of an op by itself that have recipes of their own before a range is tried: as many as an op meets in a
small model. Fewer would save compilations of 15 ms each. But code for a range is the slower for sums over rows (1.6
times the time, on matrices of 250 by 250) and running sums (1.3 times); for what moves elements it is as fast, so that
more than these are not worth waiting for (20 shapes cost 17 compilations with 16 of them)."""
FIRST_PRODUCTS = 48
"""The same of products: code for known sizes is the faster, and the convolutions of a network have some thirty."""
FIRST_WALKED = 6
"""Signatures of a cluster that have recipes of their own before products are walked in a range of them, which makes
these products up to 1.4 times as slow (see `compiler.symbolic_products`). A front end that names earlier signatures has
seen that the weights stay, so that the sizes of pictures change: there is no waiting then."""
MOST_WALKED = 8
"""How often that is tried in vain."""
MOST_ALONE = 64
"""Signatures of an op by itself that are remembered, those met last."""
MOST_REFUSED = 32
"""How often a range of a cluster is tried in vain before none is any more."""


@dataclass
class Ranges:
    """What is known of the ranges of a cluster. forms: those that have a recipe, the one used last at the end.

    refused: per form over symbolic extents why there is no recipe for it, once for each of all `tries`, and `walks` of
    those in which products are walked. unfit: whether something has no kernel for a range, as products may have none.
    alone: of an op by itself the signatures that it met, the last ones.
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
    """The recipe for a range that takes this signature, how it came and the symbols' values; or None and why not.

    computed: what the cluster computes, as parts of a key. changed: what is new about the signature. A form that cannot
    be compiled is remembered with the reason, and the cluster gets a recipe per shape.
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
    """The recipe for a range of an op by itself that takes what it met; None where there is none so far."""
    if not settings.TF_ENABLE_DYNAMIC_SHAPES.get():
        return None
    computed = request.cluster.computed()
    return _taken(ranges_of(json.dumps(computed)), request, computed, met, goal)


def ranged_alone(
    request: Request, program: Program, met: Signature, goal: Target
) -> tuple[RangeRecipe | None, list[Signature]]:
    """The recipe for a new range that takes what an op by itself met; None where it gets one for just this, and the
    signatures for which it got one before.

    An op stands in many places of a program, so that some shapes of it are no sign of sizes that change: the first
    ones have recipes of their own, but where the front end says which earlier ones are of one range with it.
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
    """The recipe of a range that is known and takes a signature."""
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
    """The recipe of a new range over earlier signatures and this one; or None and why not. walked: also of those in
    which products are walked."""
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

    A recipe found under the form's key may be one for other sizes, of which it takes something else for granted. The
    next one's key says for which sizes it is not.
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
    """The recipe of this process for what a cluster comes to, if it is there: other values may come to the same
    program, where a slice begins, say."""
    try:
        program = request.program()
    except Exception:  # why it cannot be lowered is found where it is needed
        return None
    return recipes.known(program, goal)


def reset() -> None:
    """Forgets all ranges."""
    ranges_of.cache_clear()
