"""Arguments with huge sizes for any op of the table, and the process that tries them.

Sizes lie near 2^31, 2^32 and 2^62, alone, in products past 2^63, and with a zero among them: in tensors without
elements, in values that fix a shape, in attributes. A case is a pure function of (op, number).

    python huge_sizes.py CPU:0|HPU:0      cases as lines "op number"; per line the outcomes of an eager call and in a
                                          function

It has little memory, so that what does not overflow is refused for its bytes: nothing large is ever computed.
"""

from __future__ import annotations

import json
import math
import random
import resource
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from habana_tf.tensorflow.lowering.row import Row
from tests.tensorflow.lowering.arguments import Draw
from tests.tensorflow.lowering.arguments import draw as ordinary

HUGE = [2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**33, 2**40, 2**61, 2**62, 2**62 + 1, 2**63 - 1]
SIZES = ("strides", "ksize", "ksizes", "rates", "dilations", "block_size", "k", "depth_radius", "shape", "size", "dims")
"""Attributes that are sizes."""
ROOM = 2 << 30
"""Bytes of address space that the process may take once it has begun."""

Outcome = list[Any]
"""The shapes of the outputs, or the class and the text of an error."""


@dataclass(frozen=True)
class Case:
    """arguments: tensors without elements have their shape in `shapes`, by their number, and no array that has it."""

    arguments: Draw
    shapes: dict[int, list[int]]

    def __str__(self) -> str:
        given = [
            f"{name}: {self.shapes.get(k, list(a.shape))}" + (f" = {a.tolist()}" if a.size and a.size < 9 else "")
            for k, (name, _, a) in enumerate(self.arguments.inputs)
        ]
        return f"{self.arguments.op}({', '.join(given)}) {self.arguments.attrs}"


def draw(row: Row, number: int) -> Case:
    """Arguments for an op, some of whose sizes are huge."""
    rng = random.Random(f"huge {row.op}{number}")
    case = ordinary(row, number)
    shapes: dict[int, list[int]] = {}
    inputs = list(case.inputs)
    empty = rng.random() < 0.5
    shape = _shape(rng, rng.choice([1, 2, 2, 3, 4, 5]))
    for k, (name, variable, array) in enumerate(inputs):
        if name in (*row.fixed, *row.host) and array.dtype.kind in "iu" and rng.random() < 0.8:
            inputs[k] = name, variable, _values(rng, array, row, name)
        elif empty and not variable and rng.random() < 0.7:
            sizes = shape if rng.random() < 0.7 else _shape(rng, array.ndim or 1)
            shapes[k], inputs[k] = sizes, (name, variable, np.zeros([0], array.dtype))
    attrs = dict(case.attrs)
    for name, value in attrs.items():
        if rng.random() < 0.25 and _is_size(name, value):
            attrs[name] = _attribute(rng, value)
    return Case(replace(case, inputs=inputs, attrs=attrs), shapes)


def _is_size(name: str, value: Any) -> bool:
    numbers = value if isinstance(value, list) else [value]
    return name in SIZES and bool(numbers) and all(type(n) is int and n >= 0 for n in numbers)


def _attribute(rng: random.Random, value: Any) -> Any:
    """Of 31 bits: over more a pass of TensorFlow's over graphs ends the process before HPU sees the graph."""
    most = [2**31 - 1, 2**31 - 2, 2**30]
    if isinstance(value, list):
        return [rng.choice(most) if rng.random() < 0.5 else n for n in value]
    return rng.choice(most)


def _shape(rng: random.Random, rank: int) -> list[int]:
    """Of a tensor without elements that TensorFlow takes: the product up to the zero is below 2^63."""
    sizes = [rng.choice([0, 1, 3, *HUGE]) for _ in range(rank)]
    at = rng.randrange(rank)
    while any(math.prod(sizes[:k]) > 2**63 - 1 for k in range(at + 1)):
        at -= 1
    sizes[at] = 0
    return sizes


def _values(rng: random.Random, array: Any, row: Row, name: str) -> Any:
    most = int(np.iinfo(array.dtype).max)
    fits = [n for n in HUGE if n <= most]
    several = name in ("dims", "shape", "multiples", "size", "input_sizes", "filter_sizes", "orig_input_shape")
    shape = [rng.choice([1, 2, 3, 4])] if several and rng.random() < 0.5 else array.shape
    given = np.resize(array, shape) if array.size else np.ones(shape, array.dtype)
    flat = given.reshape(-1)
    for k in range(flat.size):
        if rng.random() < 0.7:
            flat[k] = rng.choice([*fits, *fits, 0, -1 if array.dtype.kind == "i" else 0])
    return given


def outcome(case: Case, device: str, graph: bool) -> Outcome:
    """What an op gives by itself, or in a function with others behind it."""
    import tensorflow as tf

    with tf.device("/CPU:0"):
        given = [tf.constant(array) for _, _, array in case.arguments.inputs]
        for k, shape in case.shapes.items():
            given[k] = tf.reshape(given[k], tf.constant(shape, tf.int64))
    with tf.device(device):
        kept = {k: tf.Variable(x) for k, x in enumerate(given) if case.arguments.inputs[k][1]}
        tensors = [x for k, x in enumerate(given) if k not in kept]

        def call(*tensors: Any) -> Any:
            rest = iter(tensors)
            inputs = [kept[k].handle if k in kept else next(rest) for k in range(len(given))]
            return _in_graph(case.arguments, inputs) if graph else _eagerly(case.arguments, inputs)

        specs = [tf.TensorSpec(None, x.dtype) for x in tensors]
        try:
            made = (tf.function(call, input_signature=specs) if graph else call)(*tensors)
        except (tf.errors.OpError, ValueError, TypeError, NotImplementedError) as error:
            return [type(error).__name__, getattr(error, "message", str(error))]
    return [[int(n) for n in x.shape] for x in made or []]


def _eagerly(case: Draw, inputs: list[Any]) -> Any:
    from tensorflow.python.eager import context, execute
    from tensorflow.python.framework import op_def_registry

    outputs = 0
    for arg in op_def_registry.get(case.op).output_arg:
        number = case.attrs.get(arg.number_attr) if arg.number_attr else None
        outputs += number or (len(case.attrs[arg.type_list_attr]) if arg.type_list_attr else 1)
    attrs = [x for pair in case.attrs.items() for x in pair]
    return execute.quick_execute(case.op, outputs, inputs, tuple(attrs), context.context())


def _in_graph(case: Draw, inputs: list[Any]) -> list[Any]:
    import tensorflow as tf
    from tensorflow.python.framework import op_def_library, op_def_registry

    op_def = op_def_registry.get(case.op)
    lists = {a.name for a in op_def.input_arg if a.number_attr or a.type_list_attr}
    inferred = {n for a in op_def.input_arg for n in (a.type_attr, a.number_attr, a.type_list_attr) if n}
    words: dict[str, Any] = {n: v for n, v in case.attrs.items() if n not in inferred}
    for (name, _, _), x in zip(case.inputs, inputs, strict=True):
        words[name] = [*words.get(name, []), x] if name in lists else x
    _, _, op, _ = op_def_library._apply_op_helper(case.op, **words)
    outputs = op.outputs
    return [x + x if x.dtype in (tf.float32, tf.int64) else tf.identity(x) for x in outputs]


def main() -> None:
    device = "/" + sys.argv[1]
    import tensorflow as tf

    from habana_tf.tensorflow.lowering.table import rows

    if "HPU" in device:
        import habana_tf

        habana_tf.load_habana_module()
        with tf.device(device):
            tf.exp(tf.constant([1.0]))
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))
    for line in sys.stdin:
        op, number = line.split()
        case = draw(rows()[op], int(number))
        print(json.dumps([outcome(case, device, graph) for graph in (False, True)]), flush=True)


if __name__ == "__main__":
    main()
