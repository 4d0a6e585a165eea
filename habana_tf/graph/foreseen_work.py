"""Tells the compiler of work to come, before it is asked for.

What: where a graph or a launch has many products, and the recipe cache has nothing of them, the processes that will
help to compile them are started now (`compiler.codegen.objects.expect`).

Why here: from before the pass to the first launch the graph is worked on on one core. That takes about as long as such
a process takes to start, on another one. A warm start needs none of them, and starts none: before clusters have names
that the cache can be asked for, it counts as cold if it was of no use so far.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from habana_tf import settings
from habana_tf.cache import process_cache
from habana_tf.compiler.codegen import objects
from habana_tf.compiler.costs import WORKER_PRODUCTS
from habana_tf.graph.products import count, is_product

if TYPE_CHECKING:
    from habana_tf.graph.launch_nodes import LaunchNode


def announce_graph(graph_def: bytes) -> None:
    """Starts what helps to compile a graph, unless the recipe cache may have its launches."""
    if settings.HABANA_SIM_COMPILE.get() != "forbid" and not process_cache.is_warm():
        objects.expect(count(graph_def))


def announce(launches: Iterable[LaunchNode]) -> None:
    """Starts what helps to compile these, unless the recipe cache has them."""
    if settings.HABANA_SIM_COMPILE.get() == "forbid":
        return
    for launch in launches:
        products = sum(times for op, times in launch.ops.items() if is_product(op))
        if products >= WORKER_PRODUCTS and not process_cache.has(launch.name):
            objects.expect(products)
