"""Weights of a trained ResNet for the backbone of an SSD, by the names of its variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2 as saved


def load(variables: list[Any], checkpoint: str) -> int:
    """Assigns every variable the one of its name, e.g. `conv2d_3/kernel`, whatever stands before; gives their number.

    checkpoint: of TensorFlow 1, where names are the keys, or of TensorFlow 2, which keeps them; a directory means its
    latest. Optimizers' slots are passed over. Raises ValueError where a variable is missing or has another shape.
    """
    path = tf.train.latest_checkpoint(checkpoint) if Path(checkpoint).is_dir() else checkpoint
    if not path or not tf.io.gfile.glob(f"{path}.index"):
        raise ValueError(f"--resnet_checkpoint: there is no checkpoint {checkpoint}")
    reader = tf.train.load_checkpoint(path)
    shapes, keys = reader.get_variable_to_shape_map(), _keys(reader)
    wrong, pairs = [], []
    for variable in variables:
        name = variable.name.removesuffix(":0")
        named = [full for full in keys if full == name or full.endswith("/" + name)]
        # The shortest: a slot has its variable's name behind that of the optimizer.
        key = keys[min(named, key=len)] if named else ""
        if not named or shapes[key] != variable.shape.as_list():
            wrong.append(f"{name} {variable.shape.as_list()} ({shapes[key] if named else 'not there'})")
        else:
            pairs.append((variable, key))
    if wrong:
        raise ValueError(f"--resnet_checkpoint {path} is no backbone of this depth and width: {len(wrong)} of "
                         f"{len(variables)} variables differ, first {', '.join(wrong[:3])}")  # fmt: skip
    for variable, key in pairs:
        variable.assign(reader.get_tensor(key))
    return len(pairs)


def _keys(reader: Any) -> dict[str, str]:
    """Full name of a variable -> its key in the checkpoint."""
    if not reader.has_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"):
        return {name: name for name in reader.get_variable_to_shape_map()}
    graph = saved.TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH"))
    return {
        each.full_name: each.checkpoint_key
        for node in graph.nodes
        for each in node.attributes
        if each.full_name and not each.checkpoint_key.startswith("optimizer/")
    }
