"""Says where a cluster's input comes from, and which layer takes it at which line of the user's program, for inputs
whose names in the graph do not."""

from __future__ import annotations

import re

from habana_tf.cluster.cluster import Cluster
from habana_tf.reports.layer_names import layer

_DATASET = re.compile(r"(?:.*/)?(?:IteratorGetNext|MultiDeviceIteratorGetNextFromShard)(?:_\d+)?(?::(\d+))?")


def origins(cluster: Cluster) -> list[str]:
    """Per input; empty for a variable, and for an argument, which has the name that the program gave it."""
    takers: dict[int, str] = {}
    for node in cluster.nodes:
        for op, output in node.inputs:
            if op == -1 and output not in takers:
                line = cluster.line(node.index)
                takers[output] = layer(node.name) + (f" at {line}" if line else "")
    found = []
    for k, arg in enumerate(cluster.inputs):
        item = _DATASET.fullmatch(arg.name)
        parts = [f"item {item[1] or 0} of the dataset"] if item else []
        unnamed = cluster.numbered_inputs or "/" in arg.name or ":" in arg.name
        if k in takers and not arg.variable and (item or unnamed):
            parts.append(f"into {takers[k]}")
        found.append(", ".join(parts))
    return found
