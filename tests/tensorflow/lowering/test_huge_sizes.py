"""Sizes whose product passes 2^63 give TensorFlow's errors, for every op of the table, by itself and in a function.

Stock TensorFlow and HPU try the same cases (`huge_sizes.py`), each in processes of their own, because stock TensorFlow
ends its process over some: where it gives shapes or an error HPU must give the same shapes, or an error of that class.
Where both end, it is in TensorFlow's own passes over graphs.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
from collections import ChainMap, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from habana_tf.tensorflow.lowering.table import rows
from tests import forked
from tests.child import environment, on_hpu
from tests.effort import THOROUGH
from tests.tensorflow.lowering import huge_sizes

DRAWS = 6 if THOROUGH else 1
SECONDS = 60
"""That a case may take; stock TensorFlow walks the empty rows of some tensors one by one."""

Case = tuple[str, int]
ENDED, HANGS = "ended", "hangs"

OTHERWISE = frozenset(
    # their state, or their dense form, is TensorFlow's own
    "AccumulateNV2 "
    # no bound on indices (docs/ops.md)
    "Gather GatherV2 GatherNd ResourceGather ResourceGatherNd TensorScatterAdd TensorScatterSub TensorScatterMin "
    "TensorScatterMax TensorScatterUpdate ScatterNd UnsortedSegmentSum UnsortedSegmentMin UnsortedSegmentMax "
    "UnsortedSegmentProd "
    # stock looks at less of what it does not need
    "Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput TruncateDiv "
    "MaxPoolWithArgmax StatefulTruncatedNormal Mean "
    # stock's eager op and its function have kernels of oneDNN, which refuse in another order
    "AvgPool3DGrad Conv2DBackpropInput Conv3DBackpropFilterV2".split()
)
"""Ops that take or refuse other arguments than stock does, for reasons that are no size's: only that they do not end
the process is tested."""


def _outcomes(device: str, cases: deque[Case], log: Any) -> dict[Case, Any]:
    """What every case of a queue gives: a pair of outcomes, ENDED or HANGS. After either of these a new process goes
    on. Several calls may take their cases from one queue."""
    out: dict[Case, Any] = {}
    while cases:
        stdin, asks = os.pipe()
        answers, stdout = os.pipe()
        env = environment(TF_CPU_RUNTIME_FALLBACK="allow")
        child = forked.Child(
            [huge_sizes.__file__, device], env, stdin=stdin, stdout=stdout, stderr=log.fileno(), hpu="HPU" in device
        )
        os.close(stdin)
        os.close(stdout)
        with os.fdopen(answers, "rb", buffering=0) as said, os.fdopen(asks, "wb", buffering=0) as ask:
            line: bytes | None = b""
            while line is not None:
                try:
                    case = cases.popleft()
                except IndexError:
                    break
                line = _answer(ask, said, case)
                if line is not None:
                    out[case] = json.loads(line)
                else:
                    out[case] = HANGS if child.poll() is None and not _over(said) else ENDED
        with contextlib.suppress(ProcessLookupError):  # it ends by itself once its input does
            child.kill()
        child.wait(60)
    return out


def _side_by_side(device: str, cases: Sequence[Case], log: Any) -> dict[Case, Any]:
    """`_outcomes` by four processes at a time: stock TensorFlow's allocator waits ten seconds before it gives up."""
    first = _outcomes(device, deque(cases[:4]), log)  # by now the process that the others are forked from is there
    rest = deque(cases[4:])
    with ThreadPoolExecutor(4) as pool:
        return dict(ChainMap(first, *pool.map(lambda _: _outcomes(device, rest, log), range(4))))


def _answer(ask: Any, said: Any, case: Case) -> bytes | None:
    """The line that a case gives; None where the process ends or hangs."""
    try:
        ask.write("{} {}\n".format(*case).encode())
    except BrokenPipeError:
        return None
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([said], [], [], SECONDS)
        part = said.read(1 << 20) if ready else b""
        if not part:
            return None
        line += part
    return line


def _over(said: Any) -> bool:
    ready, _, _ = select.select([said], [], [], 0)
    return bool(ready)


def _same(stock: Any, ours: Any) -> bool:
    """Whether an outcome is one that stock TensorFlow's allows."""
    failed = [bool(x) and isinstance(x[0], str) for x in (stock, ours)]
    if stock and stock[0] == "NotFoundError":  # no CPU kernel
        return True
    if failed == [True, True]:  # of several faults oneDNN's kernels tell another one first
        return bool(stock[0] == ours[0]) or stock[0] == "UnimplementedError"
    return failed == [False, False] and stock == ours


@pytest.mark.part
def test_no_op_ends_the_process_over_a_huge_size(tmp_path: Any) -> None:
    from tensorflow.python.framework import op_def_registry

    ops = [op for op in rows() if op_def_registry.get(op) is not None and op != "Const"]
    ops = ops[::8] if THOROUGH else ops[1::40]  # all of them take ten minutes
    cases = [(op, number) for op in ops for number in range(DRAWS)]
    with open(tmp_path / "stock", "w") as log:
        stock = _side_by_side("CPU:0", cases, log) if THOROUGH else _outcomes("CPU:0", deque(cases), log)
    with open(tmp_path / "ours", "w+") as log:
        ours = _outcomes("HPU:0", deque(cases), log)
    wrong, compared = [], 0
    for case in cases:
        drawn = huge_sizes.draw(rows()[case[0]], case[1])
        if ours[case] in (ENDED, HANGS):
            if stock[case] == ours[case]:
                continue  # in TensorFlow's own passes over graphs, which run before a device is asked
            wrong.append(f"{drawn}: {ours[case]}")
        elif stock[case] not in (ENDED, HANGS) and case[0] not in OTHERWISE:
            compared += 2
            for where, a, b in zip(("eager", "in a function"), stock[case], ours[case], strict=True):
                if not _same(a, b):
                    wrong.append(f"{drawn} {where}\n  stock {str(a)[:300]}\n  HPU   {str(b)[:300]}")
    ended = sum(x in (ENDED, HANGS) for x in stock.values())
    print(f"{2 * len(cases)} cases of {len(ops)} ops, {compared} compared; stock ended or hung in {ended} processes")
    assert not wrong, "\n".join([f"{len(wrong)} are wrong", *wrong[:20]])
    assert compared > 1.4 * len(cases)


@on_hpu
def test_sizes_past_what_can_be_counted_or_held_are_refused_in_the_words_of_tensorflow() -> None:
    import tensorflow as tf

    raw = tf.raw_ops
    huge = tf.constant([2**31, 2**33], tf.int64)
    pads = tf.reshape(tf.stack([huge, huge]), [2, 2])
    ones = tf.ones([2, 2])
    calls = {
        "Fill": lambda: raw.Fill(dims=huge, value=1.0),
        "Fill of none": lambda: raw.Fill(dims=tf.concat([huge, [0]], 0), value=1.0),
        "BroadcastTo": lambda: raw.BroadcastTo(input=tf.constant(1.0), shape=huge),
        "Tile": lambda: raw.Tile(input=ones, multiples=huge),
        "Pad": lambda: raw.Pad(input=ones, paddings=pads),
        "PadV2": lambda: raw.PadV2(input=ones, paddings=pads, constant_values=1.0),
        "RandomUniform": lambda: raw.RandomUniform(shape=huge, dtype=tf.float32),
        "Stateless": lambda: raw.StatelessRandomUniform(shape=huge, seed=[1, 2], dtype=tf.float32),
    }
    for name, call in calls.items():
        said = []
        for device in ("/CPU:0", "/HPU:0"):
            with tf.device(device), pytest.raises(tf.errors.InvalidArgumentError) as error:
                call()
            said.append(error.value.message.split("}} ", 1)[-1].split(" [Op:")[0].splitlines()[0])
        assert said[0] == said[1], name
    for dims in ([2**61], [2**40, 2**20], [2**31, 2**31]):  # counted in 64 bits, but no memory holds it
        with pytest.raises(tf.errors.ResourceExhaustedError, match="output 0 of launch 'Fill' asks for"):
            raw.Fill(dims=tf.constant(dims, tf.int64), value=1.0)
