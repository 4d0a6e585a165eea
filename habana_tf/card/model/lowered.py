"""Lowers a cluster for known sizes and keeps the outputs of each op: the input of the model of a card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from habana_tf.card.model.cluster_time import ClusterTime, cluster_time
from habana_tf.card.model.parameters import LATEST_FITTED
from habana_tf.cluster.cluster import Cluster, Ref
from habana_tf.cluster.lower import ClusterLowering
from habana_tf.hardware.chips import Chip
from habana_tf.ir.primitives import Node, Program


@dataclass(frozen=True)
class Lowered:
    """made: (index of an op, which output) -> node; index -1 for the cluster's inputs."""

    cluster: Cluster
    program: Program
    made: dict[Ref, Node]

    @cached_property
    def variables(self) -> set[Node]:
        """The inputs that are values of variables."""
        return {self.made[-1, k] for k, arg in enumerate(self.cluster.inputs) if arg.variable}

    def op(self, index: int) -> tuple[str, str]:
        """Type and name of an op of the cluster, by index; "inputs" for what comes from none."""
        if not 0 <= index < len(self.cluster.nodes):
            return "inputs", "inputs"
        return self.cluster.nodes[index].op, self.cluster.nodes[index].name


def lowered(cluster: Cluster, shapes: Sequence[Sequence[int]], values: Sequence[Any | None]) -> Lowered:
    """Arguments as `cluster.lower.lower` takes them, and raises what it raises."""
    walk = ClusterLowering(cluster, shapes, values)
    return Lowered(cluster, walk.run(), walk.made)


def launch_time(
    chip: Chip, cluster: Cluster, shapes: Sequence[Sequence[int]], values: Sequence[Any | None]
) -> tuple[Lowered, ClusterTime]:
    """The cluster lowered for these sizes, and its units of work with when each is done, in seconds.

    shapes, values: of its inputs; of values those that fix a shape. Raises what `cluster.lower.lower` raises.
    """
    made = lowered(cluster, shapes, values)
    return made, cluster_time(chip, made.program, frozenset(made.made.values()), LATEST_FITTED)
