"""The digest of a serialized cluster: equal for equal computations, whatever their ops are called."""

from __future__ import annotations

import hashlib

from habana_tf.tensorflow.lowering.table import LOOP


def digest(data: bytes) -> str:
    """A name-free SHA-256 of a serialized cluster: equal for equal computations whatever the ops were called."""
    from tensorflow.core.framework import graph_pb2

    graph = graph_pb2.GraphDef.FromString(data)
    for n in graph.node:
        for key in ("_name", "_cluster"):
            if key in n.attr:
                del n.attr[key]
        if n.op == LOOP:
            n.attr["body"].s = digest(n.attr["body"].s).encode()
    return hashlib.sha256(graph.SerializeToString(deterministic=True)).hexdigest()
