"""The graph pass: the list of phases that lead from TensorFlow's placed graph to `HpuLaunch` nodes.

TensorFlow's Grappler calls `optimize` twice for every function, after placement and after its own optimizers. In a
graph that already has `HpuLaunch` nodes, only nodes without a kernel are moved. None means that the graph is unchanged.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from habana_tf import settings
from habana_tf.tensorflow.graph import (
    bf16,
    bf16_config,
    conds_by_shape,
    conds_to_selects,
    constants,
    cpu_round_trips,
    dump,
    foreseen_work,
    frames,
    inline_xla,
    launch_nodes,
    loops,
    partition,
    placement,
    report,
    tensor_lists,
    updates_in_place,
    variables,
)
from habana_tf.tensorflow.graph.census import Census
from habana_tf.tensorflow.graph.frames import Flow
from habana_tf.tensorflow.graph.placement import Placement
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.shapes import Shapes
from habana_tf.tensorflow.graph.view import CycleError, View

_log = logging.getLogger("habana_tf")


@dataclass
class Work:
    """One graph on its way through the phases."""

    view: View
    shapes: Shapes
    excluded: dict[str, Reason] = field(default_factory=dict)
    flow: Flow = field(default_factory=Flow)
    placement: Placement = field(default_factory=Placement)
    before: Census = field(default_factory=Census)
    folded: int = 0
    opened: int = 0
    loops: int = 0
    conversion: bf16.Conversion | None = None
    groups: list[partition.NodeGroup] = field(default_factory=list)
    launches: list[launch_nodes.LaunchNode] = field(default_factory=list)


def _conds(work: Work) -> None:
    work.folded = conds_by_shape.fold(work.view, work.shapes)
    work.before = Census.of(work.view)


def _place(work: Work) -> None:
    work.opened = inline_xla.marked(work.view)
    work.placement = placement.place(work.view, settings.TF_PLACE_ON_CPU.get(), work.excluded)
    placement.keep_names(work.view, work.placement)
    cpu_round_trips.bypass(work.view, work.placement)


def _lists(work: Work) -> None:
    tensor_lists.stay(work.view, work.placement)
    placement.judge_new(work.view, work.placement)


def _bf16(work: Work) -> None:
    config = bf16_config.active()
    if config is not None:
        bf16_config.dump(config)
        work.conversion = bf16.convert(work.view, work.placement, config)


def _selects(work: Work) -> None:
    work.flow = conds_to_selects.convert(work.view, frames.analyse(work.view), work.shapes)
    placement.judge_new(work.view, work.placement)
    constants.free(work.view, work.flow, work.placement)


def _variables(work: Work) -> None:
    work.placement.moved += variables.convert(work.view, work.flow, work.placement)


def _loops(work: Work) -> None:
    work.loops = loops.convert(work.view, work.flow, work.placement, work.shapes, work.excluded)


def _clusters(work: Work) -> None:
    work.groups = partition.grow(work.view, work.flow, work.placement)


def _launches(work: Work) -> None:
    work.launches = launch_nodes.encapsulate(work.view, work.flow, work.groups)
    updated = updates_in_place.convert(work.view, work.flow)
    work.launches = [replace(launch, updated=updated.get(launch.node, 0)) for launch in work.launches]
    # TensorFlow's executor says nothing of a cycle: it ends with nothing left that can run, and results never made
    work.view.topological()


PHASES: tuple[tuple[str, Callable[[Work], None]], ...] = (
    ("conds", _conds),  # first: later phases need not look at branches that never run
    ("placement", _place),  # every later phase asks which nodes HPU takes
    ("lists", _lists),  # before the phases that ask which loop a node is in
    ("bf16", _bf16),  # before the phases that move or merge nodes: it adds casts
    ("selects", _selects),  # before variables: it takes reads and assignments out of branches
    ("variables", _variables),  # before clusters: an update in the graph would split a cluster
    ("loops", _loops),  # after the phases that change the bodies of loops
    ("clusters", _clusters),
    ("launches", _launches),
)


class _Watch(threading.local):
    """The observer of the graphs of this thread (see `watched`)."""

    see: Callable[[report.GraphRecord, View, Shapes], None] | None = None


_watch = _Watch()


@contextmanager
def watched(see: Callable[[report.GraphRecord, View, Shapes], None]) -> Iterator[None]:
    """Hands what the pass does to graphs of this thread to `see`, and leaves it out of reports and logs.

    see: gets the record, the graph after the pass, and the shapes of the graph before it.
    """
    _watch.see = see
    try:
        yield
    finally:
        _watch.see = None


def optimize(graph_def: bytes, item: Any) -> bytes | None:
    """The graph with clusters replaced by `HpuLaunch` nodes; None if HPU has nothing to do in it.

    item: TensorFlow's Grappler item (`nodes_to_preserve()`, `fetch_nodes()`, `output_properties(node)`).
    """
    collecting = gc.isenabled()
    gc.disable()  # tens of thousands of objects without a cycle: collection took half of the time
    try:
        return _optimize(graph_def, item)
    except CycleError as why:
        try:
            View.parse(graph_def).topological()
        except CycleError:  # TensorFlow's optimizers may leave one behind a branch that is never taken
            _log.info("a graph has a cycle as TensorFlow made it, its ops run one by one: %s", why)
            return None
        raise
    finally:
        if collecting:
            gc.enable()


def _names(tensors: list[str]) -> frozenset[str]:
    """The nodes behind names of tensors or nodes."""
    return frozenset(name.lstrip("^").split(":")[0] for name in tensors)


def _optimize(graph_def: bytes, item: Any) -> bytes | None:
    begin = time.perf_counter()
    preserved = _names(item.nodes_to_preserve()) if item is not None else frozenset[str]()
    fetched = _names(item.fetch_nodes()) if item is not None else frozenset[str]()
    view = View.parse(graph_def, preserved | fetched, fetched)
    if any(node.op == "HpuLaunch" for node in view.nodes):
        return view.write() if placement.rescue(view) else None
    fuel = settings.HABANA_SIM_CLUSTER_FUEL.get()
    numbers = dump.Dumps()
    work = Work(view, Shapes(item))
    while True:
        numbers.write("placed", work.view)
        try:
            for name, phase in PHASES:
                if name == "launches" and 0 <= fuel < len(work.groups):
                    left, reason = [n for group in work.groups[fuel:] for n in group.nodes], Reason.FUEL
                    break
                phase(work)
                numbers.write(name, work.view)
            else:
                break
        except launch_nodes.Unreadable as why:
            _log.warning("%s: they run one by one", why)
            left, reason = why.nodes, Reason.UNREADABLE
        # once more without the clusters that are too many
        excluded = {**work.excluded, **{n.proto.name: reason for n in left}}
        work = Work(View.parse(graph_def, view.preserved, fetched), Shapes(item), excluded)
    conversion = work.conversion
    casts = conversion is not None and conversion.casts
    changed = work.launches or work.placement.moved or work.opened or work.folded or casts
    out = work.view.write() if changed else None
    made = report.describe(
        work.before, work.placement, conversion, [n for group in work.groups for n in group.nodes], work.launches,
        time.perf_counter() - begin,
    )  # fmt: skip
    if _watch.see is None:
        report.remember(made)
        foreseen_work.announce(work.launches)
    else:
        _watch.see(made, work.view, work.shapes)
    return out
