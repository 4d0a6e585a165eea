"""The moment at which a launch needs most of its workspace, and what is in it then: by category, and by layer.

    activations   what a kernel of the forward pass made and a later kernel reads, in the backward pass or before it
    gradients     what the backward pass made and a later kernel reads: of activations, and of weights where the update
                  is a kernel of its own (where it is the epilogue of a product, a gradient is never in memory)
    workspace     what one kernel has for itself, what an update makes, and what the plan leaves empty

A kernel is of the backward pass where TensorFlow's tape or `tf.gradients` has named one of its ops; those that follow
the first of these and are none belong to updates.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from habana_tf.compiler.recipe import Kind
from habana_tf.ir import extent as ext
from habana_tf.ir.lifetimes import in_use
from habana_tf.reports.layer_names import layer
from habana_tf.resolver.programs import Made

_BACKWARD = ("gradient_tape", "gradients")


@dataclass(frozen=True)
class LaunchPeak:
    """op: the name of the op at work, "" where the program is interpreted. parts: bytes of the workspace in use, by
    category. layers: the same bytes by the layer that made them, the most first. curve: bytes of the workspace in use
    during each kernel call."""

    op: str = ""
    parts: dict[str, int] = field(default_factory=dict)
    layers: dict[str, int] = field(default_factory=dict)
    curve: tuple[int, ...] = ()


def launch_peak(made: Made) -> LaunchPeak:
    """See `LaunchPeak`; the cluster is read by its front end."""
    sizes = [(b, ext.evaluate(b.nbytes, list(made.dims))) for b in made.buffers if b.kind is Kind.WORKSPACE]
    calls = made.calls
    curve = tuple(in_use(calls, ((b.first, b.last, n) for b, n in sizes)))
    if not curve:
        return LaunchPeak()
    at = max(range(calls), key=curve.__getitem__)
    names = _names(made, calls)
    backward = {call for call in range(calls) if any(map(_is_backward, names[call]))}
    begin = min(backward, default=calls)
    parts: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    for b, n in sizes:
        if not b.first <= at <= b.last:
            continue
        if b.first == b.last or (b.first > begin and b.first not in backward):
            category = "workspace"
        else:
            category = "gradients" if b.first in backward else "activations"
        parts[category] += n
        layers[_maker(names[b.first])] += n
    return LaunchPeak(_last(names[at]), dict(parts), dict(layers.most_common()), curve)


def _names(made: Made, calls: int) -> list[list[str]]:
    """Of each kernel call the names of its ops."""
    ops = [name for _, name in made.ops()]
    names: list[list[str]] = [[] for _ in range(calls)]
    for row in made.kernels():
        first, count = row["launches"]
        for call in range(first, min(first + count, calls)):
            names[call] = [ops[k] for k in row["ops"]]
    return names


def _is_backward(name: str) -> bool:
    return name.startswith("backward/") or any(part.startswith(_BACKWARD) for part in name.split("/"))


def _last(names: list[str]) -> str:
    """The op that a kernel is called by: the last one, whose result it stores."""
    return names[-1] if names else ""


def _maker(names: list[str]) -> str:
    return layer(_last(names)) if names else "(not named)"
