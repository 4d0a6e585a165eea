"""Whole numbers of a program that is recorded and never run: what the host wrote, and what follows from it.

Programs read such numbers from the card and branch on them, as those of transformers do that ask whether positions are
consecutive or a mask is all ones. They are computed by the interpreter of the primitives when the program that makes
them would run. What depends on anything else, as on weights, is not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from habana_tf.card.model.lowered import lowered
from habana_tf.cluster.cluster import Arg, Ref
from habana_tf.ir.dtypes import DType, from_label
from habana_tf.ir.interpreter import run
from habana_tf.ir.loop_nest import as_number
from habana_tf.ir.primitives import Program
from habana_tf.torch.memory.storage import Block
from habana_tf.torch.record.inputs import Inputs
from habana_tf.torch.record.program import Recording, TorchCluster, TorchOp, op_of, signature

_MOST = 1 << 20
"""Bytes of a tensor up to which its contents are kept."""
_MOST_COMPUTED = 1 << 24
"""Elements of a tensor up to which it is computed on the way."""


def is_told(t: torch.Tensor) -> bool:
    """Whether the contents of a tensor are kept: whole numbers, and few."""
    return not (t.is_floating_point() or t.is_complex()) and t.nbytes <= _MOST


class KnownValues:
    """The storages whose contents are known, and are in their memory."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}

    def __contains__(self, block: Block) -> bool:
        return self._blocks.get(block.address) is block

    def tell(self, block: Block) -> None:
        """Says that the memory of a storage holds what it would hold on a card."""
        self._blocks[block.address] = block

    def would_run(
        self, recording: Recording, inputs: Inputs, results: Sequence[Block], numbers: Sequence[Sequence[float]]
    ) -> None:
        """Computes what a program would write, where that is known. numbers: floats and integers that it reads."""
        computed: dict[Block, Any] = {}
        for ref, block in zip(recording.outputs, results, strict=True):
            if not block.dtype.is_floating_point and block.size <= _MOST:
                computed[block] = self._value(recording, ref, inputs, numbers)
        for block in results:
            made = computed.get(block)
            if made is not None:
                block.host()[: made.nbytes].copy_(torch.from_numpy(made.reshape(-1).view(np.uint8)))
                self.tell(block)
            elif block in self:
                block.host().zero_()
                del self._blocks[block.address]

    def _value(self, recording: Recording, ref: Ref, inputs: Inputs, numbers: Sequence[Sequence[float]]) -> Any:
        """A result of a program; None where it is not known."""
        nodes, needed = _needed(recording, ref)
        if not all(inputs.blocks[k] in self for k in needed):
            return None
        labels = [label for _, label in recording.inputs]
        types = [*map(from_label, labels), *(dtype for _, dtype in recording.numbers())]
        shapes = [shape for _, shape, _ in signature(recording)]
        of = from_label(labels[ref[1]] if ref[0] < 0 else recording.ops[ref[0]][3][ref[1]][1])
        args = [Arg(dtype, False, "known") for dtype in types]
        cluster = TorchCluster("known", args, nodes, [ref], [Arg(of, False, "known")], [], b"", recording)
        made = lowered(cluster, shapes, [None] * len(args))
        if any(as_number(n.numel) > _MOST_COMPUTED for n in made.program.nodes()):
            return None
        given = {made.made[-1, k]: _contents(inputs, k, types[k], shapes[k]) for k in needed}
        vectors = (each for each in numbers if each)
        for k, vector in enumerate(vectors, len(labels)):
            given[made.made[-1, k]] = np.asarray(vector, types[k].numpy)
        return run(Program([*given], [made.made[ref]]), [*given.values()])[0]


def _needed(recording: Recording, ref: Ref) -> tuple[list[TorchOp], set[int]]:
    """The ops that make a result, in order, and the inputs that they read."""
    count = len(recording.inputs)
    floats, integers = recording.number_inputs()
    ops: dict[int, TorchOp] = {}
    inputs: set[int] = set()
    waiting = [ref]
    while waiting:
        at, output = waiting.pop()
        if at < 0:
            if output < count:
                inputs.add(output)
        elif at not in ops:
            ops[at] = op_of(at, recording.ops[at], floats, integers)
            waiting += ops[at].inputs
    return [ops[at] for at in sorted(ops)], inputs


def _contents(inputs: Inputs, number: int, dtype: DType, shape: Sequence[int]) -> Any:
    bytes_ = inputs.blocks[number].host().numpy()[inputs.offsets.get(number, 0) :]
    return bytes_[: math.prod(shape) * dtype.bytes].view(dtype.numpy).reshape(shape)
