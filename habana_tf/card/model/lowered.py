"""Lowers a cluster for known sizes and keeps the outputs of each op: the input of the model of a card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from habana_tf.cluster.cluster import Cluster, Ref
from habana_tf.cluster.lower import ClusterLowering
from habana_tf.ir.primitives import Node, Program


@dataclass(frozen=True)
class Lowered:
    """made: (index of an op, which output) -> node; index -1 for the cluster's inputs."""

    cluster: Cluster
    program: Program
    made: dict[Ref, Node]

    def op(self, index: int) -> tuple[str, str]:
        """Type and name of an op of the cluster, by index; "inputs" for what comes from none."""
        if not 0 <= index < len(self.cluster.nodes):
            return "inputs", "inputs"
        return self.cluster.nodes[index].op, self.cluster.nodes[index].name


def lowered(cluster: Cluster, shapes: Sequence[Sequence[int]], values: Sequence[Any | None]) -> Lowered:
    """Arguments as `cluster.lower.lower` takes them, and raises what it raises."""
    walk = ClusterLowering(cluster, shapes, values)
    return Lowered(cluster, walk.run(), walk.made)
