"""What people call an op: the layer it belongs to, read from its name."""

from __future__ import annotations

import re
from collections.abc import Callable

_NUMBERED = re.compile(r"_\d+$")
_PASSES = {
    "gradient_tape/": "backward", "gradients/": "backward", "backward/": "backward", "update/": "update",
}  # fmt: skip
"""What names of the backward pass's and of updates' ops begin with: Keras', those of TensorFlow 1, those of PyTorch."""


def pass_of(name: str) -> tuple[str, str]:
    """(backward, update, or nothing where the name does not say; the name without what says it)."""
    for prefix, found in _PASSES.items():
        if name.startswith(prefix):
            return found, name[len(prefix) :]
    return "", name


def layer(name: str, is_op_type: Callable[[str], bool] = lambda part: False) -> str:
    """The layer of an op: at most two parts of its name, without that of the backward pass and the op's own part.

    is_op_type: whether a part is a type of op, as in the framework's default names; a layer's name ends before it.

    gradient_tape/sequential/conv2d/Conv2D/Conv2DBackpropFilter -> sequential/conv2d
    """
    name = name.removeprefix("backward/").removeprefix("update/")
    path = [part for part in name.split("/") if part not in ("gradient_tape", "") and "PartitionedCall" not in part]
    path = path[:2] if len(path) > 2 else path[:1]
    typed = (k for k, part in enumerate(path) if k and is_op_type(_NUMBERED.sub("", part)))
    return "/".join(path[: next(typed, None)]) or name
