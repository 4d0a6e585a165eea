"""What people call an op: the layer it belongs to, read from its name."""

from __future__ import annotations


def layer(name: str) -> str:
    """The layer of an op: at most two parts of its name, without `gradient_tape/` and without the op's own part.

    gradient_tape/sequential/conv2d/Conv2D/Conv2DBackpropFilter -> sequential/conv2d
    """
    path = [part for part in name.split("/") if part != "gradient_tape" and "PartitionedCall" not in part]
    return "/".join(path[:2] if len(path) > 2 else path[:1]) or name
