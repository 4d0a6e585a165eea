"""Graphs under the bf16 conversion, and what they are fed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from habana_tf.tensorflow.graph import bf16, bf16_config, placement
from habana_tf.tensorflow.graph.bf16 import Why
from tests.tensorflow.graph.harness import v1, view

F32, BF16 = tf.float32, tf.bfloat16
X = np.linspace(-1.1, 2.3, 12, dtype="f4").reshape(3, 4)
FEED = {"x": X}


def config(**lists: Any) -> bf16_config.Config:
    return bf16_config.parse(json.dumps(lists), "test")


def converted(graph: graph_pb2.GraphDef, cfg: bf16_config.Config) -> tuple[graph_pb2.GraphDef, bf16.Conversion]:
    v = view(graph)
    done = bf16.convert(v, placement.place(v), cfg)
    return graph_pb2.GraphDef.FromString(v.write()), done


def verdicts(graph: graph_pb2.GraphDef, cfg: bf16_config.Config) -> dict[str, Why]:
    return {name: why for (name, _), why in converted(graph, cfg)[1].verdicts.items()}


def x() -> tf.Tensor:
    return v1.placeholder(F32, (3, 4), "x")
