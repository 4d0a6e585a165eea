"""Starts the processes that help to compile before the first launch asks for a recipe.

What: where a graph or a launch has many products, and the recipe cache has none of its recipes, the processes are
started early (`compiler.codegen.objects.expect`).

Why: from the start of the pass to the first launch one core is busy, for about as long as such a process takes to start
on another one. A warm start needs no such processes: before clusters have names to look up in the cache, a process
counts as cold if the cache had no hit so far.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from habana_tf import settings
from habana_tf.cache import process_cache
from habana_tf.compiler.codegen import objects
from habana_tf.compiler.costs import WORKER_PRODUCTS
from habana_tf.tensorflow.graph.products import count, is_product

if TYPE_CHECKING:
    from habana_tf.tensorflow.graph.launch_nodes import LaunchNode


def announce_graph(graph_def: bytes) -> None:
    """Starts compile processes for a graph, unless the recipe cache may have its launches."""
    if settings.HABANA_SIM_COMPILE.get() != "forbid" and not process_cache.CACHE.is_warm():
        objects.expect(count(graph_def))


def announce(launches: Iterable[LaunchNode]) -> None:
    """Starts compile processes for these launches, unless the recipe cache has them."""
    if settings.HABANA_SIM_COMPILE.get() == "forbid":
        return
    for launch in launches:
        products = sum(times for op, times in launch.ops.items() if is_product(op))
        if products >= WORKER_PRODUCTS and not process_cache.CACHE.has(launch.name):
            objects.expect(products)
