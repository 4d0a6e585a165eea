"""Tells the compiler of the launches that the graph pass made, before they are run.

What: where a launch has many products, and the recipe cache has nothing of its cluster, the processes that will help to
compile it are started now (`compiler.codegen.objects.expect`).

Why here: from the pass to the first launch TensorFlow optimizes and builds the graph, on one core. That takes about as
long as such a process takes to start, on another one. A warm start needs none of them, and starts none.
"""

from __future__ import annotations

from collections.abc import Iterable

from habana_tf import settings
from habana_tf.cache import process_cache
from habana_tf.compiler.codegen import objects

from .launch_nodes import LaunchNode
from .partition import is_product

__all__ = ["announce"]


def announce(launches: Iterable[LaunchNode]) -> None:
    """Starts what helps to compile these."""
    if settings.HABANA_SIM_COMPILE.get() == "forbid":
        return
    for launch in launches:
        products = sum(count for op, count in launch.ops.items() if is_product(op))
        if products >= objects.LARGE and not process_cache.has(launch.name):
            objects.expect(products)
