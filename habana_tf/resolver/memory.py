"""What each launch needs of the card's memory, exactly, by the plan that it was bound with.

A launch that updates variables writes their new values beside the old ones where its recipe cannot write over them; a
card would always write in place. So each launch has two peaks: what this host needs, and what the card would.
"""

from __future__ import annotations

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from habana_tf.ir import extent as ext

if TYPE_CHECKING:
    from habana_tf._native._bridge import Program as Bound
    from habana_tf.compiler.recipe import Recipe
    from habana_tf.resolver.request import Request

_LAUNCH = re.compile(r"cluster_[0-9a-f]{12}(?![0-9A-Za-z])")
"""How the graph pass names a launch."""
_lock = threading.Lock()
_plans: OrderedDict[str, OrderedDict[tuple[int, int, int], LaunchMemory]] = OrderedDict()
"""Per cluster, the one met last at the end, its last plans by bytes of inputs, outputs and workspace."""
_one_op: dict[str, LaunchMemory] = {}
"""Per kind of op that runs by itself, the plan with the highest peak."""
MOST_CLUSTERS, MOST_PLANS = 4096, 8


@dataclass(frozen=True)
class LaunchMemory:
    """One cluster on given shapes, in bytes. updates: the part of `outputs` that replaces variables.

    alive: most of the workspace in use at one moment; workspace: what is set aside for it. fed: the part of `inputs`
    that is no variable; made: the part of `fed` that other launches made. in_place: the part of `updates` that is
    written over the old values. program: its number, see `programs.find`. before: of the whole card, what was given out
    when it was first launched.
    """

    name: str
    inputs: int
    outputs: int
    updates: int
    workspace: int
    alive: int
    fed: int = 0
    made: int = 0
    in_place: int = 0
    program: int = 0
    before: int = 0

    @property
    def adds(self) -> int:
        """Bytes that a launch takes here."""
        return self.outputs - self.in_place + self.workspace

    @property
    def reached(self) -> int:
        """Bytes of the whole card that were given out while it was first launched."""
        return self.before + self.adds

    @property
    def host_peak(self) -> int:
        """Bytes needed here while it runs."""
        return self.inputs + self.adds

    @property
    def card_peak(self) -> int:
        """Bytes a card would need: variables are updated in place, and the plan wastes nothing."""
        return self.inputs + self.outputs - self.updates + self.alive


def plan_of(request: Request, recipe: Recipe, dims: Sequence[int], bound: Bound, before: int) -> LaunchMemory:
    """The plan of a launch that was bound; an op by itself is called by its kind."""
    from habana_tf._native import _bridge

    cluster = request.cluster
    sizes = [math.prod(s) * a.dtype.bytes for a, s in zip(cluster.inputs, request.shapes, strict=True)]
    outputs = [ext.evaluate(ext.product(s), list(dims)) * d.bytes for d, s in recipe.outputs]
    fed = [(a, n) for a, n in zip(cluster.inputs, sizes, strict=True) if not a.variable and not a.host]
    _, total, alive = recipe.workspace(dims)
    return LaunchMemory(
        cluster.name if len(cluster.nodes) > 1 else cluster.nodes[0].op, sum(sizes), sum(outputs),
        updates=sum(n for n, a in zip(outputs, cluster.results, strict=True) if a.variable),
        workspace=total, alive=alive, fed=sum(n for _, n in fed),
        made=sum(n for a, n in fed if _LAUNCH.match(a.name)),
        in_place=sum(outputs[k] for _, k in recipe.in_place), program=_bridge.program_number(bound), before=before,
    )  # fmt: skip


def record(plan: LaunchMemory) -> None:
    """Notes the plan of a launch that was bound to shapes."""
    with _lock:
        known = _plans.setdefault(plan.name, OrderedDict())
        _last(_plans, plan.name, known, MOST_CLUSTERS)
        _last(known, (plan.inputs, plan.outputs, plan.workspace), plan, MOST_PLANS)


def record_one_op(plan: LaunchMemory) -> None:
    """Notes the plan of an op that runs by itself, where it reached more than others of its kind."""
    with _lock:
        if (known := _one_op.get(plan.name)) is None or known.reached < plan.reached:
            _one_op[plan.name] = plan


def _last(table: OrderedDict[Any, Any], key: object, value: object, most: int) -> None:
    """Puts an item at the end of a table that keeps its last ones."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > most:
        table.popitem(last=False)


def launches() -> tuple[LaunchMemory, ...]:
    """The plans of clusters, of each the last few."""
    with _lock:
        return tuple(plan for known in _plans.values() for plan in known.values())


def one_op() -> tuple[LaunchMemory, ...]:
    """Of each kind of op that ran by itself the plan that reached most."""
    with _lock:
        return tuple(_one_op.values())
