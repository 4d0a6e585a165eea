"""Single ops, each a function by itself, on HPU beside stock TensorFlow's CPU, in one process and by turns.

    python tests/benchmarks/single_ops.py --ops conv transpose --json ops.json

Says which ops are the slowest in comparison: the least of some times in milliseconds on either device, and the stock
one over HPU's, so more than 1 means that HPU is faster. A name's part chooses ops.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed package

ROUNDS, CALLS = 3, 6
"""Turns of each device, and calls in each."""

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def cases() -> list[Case]:
    """(name, function, inputs)."""
    import tensorflow as tf

    def floats(*shape: int) -> Any:
        return tf.random.stateless_normal(shape, (1, len(shape)))

    def numbers(below: int, *shape: int) -> Any:
        return tf.random.stateless_uniform(shape, (2, 3), 0, below, tf.int32)

    wide, square, image = floats(2048, 1024), floats(2048, 2048), floats(16, 56, 56, 64)
    pictures, rows = floats(32, 224, 224, 3), numbers(10_000, 4096)
    nn = tf.nn
    return [
        ("sum of columns", lambda x: tf.reduce_sum(x, 0), (square,)),
        ("sum of rows", lambda x: tf.reduce_sum(x, 1), (square,)),
        ("sum in the middle", lambda x: tf.reduce_sum(x, 1), (floats(64, 128, 512),)),
        ("argmax of rows", lambda x: tf.argmax(x, 1), (square,)),
        ("argmax of columns", lambda x: tf.argmax(x, 0), (square,)),
        ("cumsum", lambda x: tf.cumsum(x, 1), (floats(1024, 1024),)),
        ("sort", lambda x: tf.sort(x, 1), (floats(512, 1024),)),
        ("top_k 5", lambda x: tf.math.top_k(x, 5)[0], (floats(256, 4096),)),
        ("top_k 100", lambda x: tf.math.top_k(x, 100)[0], (floats(256, 4096),)),
        ("softmax", nn.softmax, (floats(2048, 1000),)),
        ("cross entropy", lambda x, y: nn.sparse_softmax_cross_entropy_with_logits(y, x),
         (floats(2048, 1000), numbers(1000, 2048))),
        ("moments", lambda x: nn.moments(x, [0, 1, 2]), (image,)),
        ("gather", tf.gather, (floats(10_000, 256), rows)),
        ("scatter_nd", lambda i, u: tf.scatter_nd(i[:, None], u, [10_000, 64]), (rows, floats(4096, 64))),
        ("segment sum", lambda x, i: tf.math.unsorted_segment_sum(x, i, 1000),
         (floats(20_000, 64), numbers(1000, 20_000))),
        ("sorted segment sum", tf.math.segment_sum, (floats(20_000, 64), tf.sort(numbers(1000, 20_000)))),
        ("searchsorted", tf.searchsorted, (tf.sort(floats(4096)), floats(20_000))),
        ("exp", tf.exp, (wide,)), ("tanh", tf.tanh, (wide,)), ("erf", tf.math.erf, (wide,)), ("sin", tf.sin, (wide,)),
        ("square by **", lambda x: x**2, (wide,)), ("root by **", lambda x: tf.abs(x) ** 0.5, (wide,)),
        ("pow", lambda x: tf.pow(tf.abs(x), 1.7), (wide,)), ("atan2", tf.atan2, (wide, wide[::-1])),
        ("lgamma", lambda x: tf.math.lgamma(tf.abs(x)), (wide,)), ("gelu", nn.gelu, (wide,)),
        ("integer division", lambda x: x // 7, (numbers(10_000, 2048, 1024),)),
        ("bias", lambda x, b: x + b, (image, floats(64))),
        ("float64", lambda x: x * 2 + 1, (tf.cast(wide, tf.float64),)),
        ("distances of all pairs", lambda x, y: tf.reduce_sum((x[:, None] - y[None]) ** 2, -1),
         (floats(256, 64), floats(256, 64))),
        ("transpose", tf.transpose, (square,)), ("transpose int64", tf.transpose, (tf.cast(wide, tf.int64),)),
        ("transpose to channels first", lambda x: tf.transpose(x, (0, 3, 1, 2)), (image,)),
        ("transpose 3 channels first", lambda x: tf.transpose(x, (0, 3, 1, 2)), (pictures,)),
        ("transpose 3 channels last", lambda x: tf.transpose(x, (0, 2, 3, 1)), (floats(32, 3, 224, 224),)),
        ("transpose heads", lambda x: tf.transpose(x, (0, 2, 1, 3)), (floats(16, 128, 12, 64),)),
        ("reverse", lambda x: tf.reverse(x, [1]), (wide,)), ("roll", lambda x: tf.roll(x, 3, 1), (wide,)),
        ("concat", lambda x, y: tf.concat([x, y], 1), (wide, square)),
        ("pad", lambda x: tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), (image,)),
        ("one channel", lambda x: x[..., 1], (pictures,)), ("every other", lambda x: x[::2, ::2], (square,)),
        ("matmul", tf.matmul, (floats(512, 512), floats(512, 512))),
        ("matmul of a row", tf.matmul, (floats(1, 2048), square)),
        ("matmul of a column", tf.matmul, (square, floats(2048, 1))),
        ("matmuls of 64", tf.matmul, (floats(256, 64, 64), floats(256, 64, 64))),
        ("matmuls of 8", tf.matmul, (floats(4096, 8, 8), floats(4096, 8, 8))),
        ("conv 3x3", lambda x, w: nn.conv2d(x, w, 1, "SAME"), (image, floats(3, 3, 64, 64))),
        ("conv 1x1", lambda x, w: nn.conv2d(x, w, 1, "SAME"), (floats(16, 28, 28, 256), floats(1, 1, 256, 64))),
        ("conv 3x3 to colours", lambda x, w: nn.conv2d(x, w, 1, "SAME"), (image, floats(3, 3, 64, 3))),
        ("matmul to classes", tf.matmul, (floats(4096, 1024), floats(1024, 10))),
        ("gradient of classes", lambda x, y: tf.matmul(x, y, transpose_a=True), (floats(4096, 1024), floats(4096, 10))),
        ("conv 7x7 of pictures", lambda x, w: nn.conv2d(x, w, 2, "SAME"), (pictures, floats(7, 7, 3, 64))),
        ("conv 5x5 of digits", lambda x, w: nn.conv2d(x, w, 1, "SAME"), (floats(64, 28, 28, 1), floats(5, 5, 1, 32))),
        ("conv in groups", lambda x, w: nn.conv2d(x, w, 1, "SAME"), (floats(8, 28, 28, 128), floats(3, 3, 4, 128))),
        ("conv of lines", lambda x, w: nn.conv1d(x, w, 1, "SAME"), (floats(32, 1024, 64), floats(5, 64, 64))),
        ("conv of volumes", lambda x, w: nn.conv3d(x, w, [1] * 5, "SAME"),
         (floats(4, 16, 32, 32, 16), floats(3, 3, 3, 16, 32))),
        ("depthwise conv", lambda x, w: nn.depthwise_conv2d(x, w, [1] * 4, "SAME"), (image, floats(3, 3, 64, 1))),
        ("max pool", lambda x: nn.max_pool2d(x, 3, 2, "SAME"), (image,)),
        ("average pool", lambda x: nn.avg_pool2d(x, 2, 2, "SAME"), (image,)),
        ("resize", lambda x: tf.image.resize(x, [224, 224]), (floats(8, 112, 112, 3),)),
    ]  # fmt: skip


def measure(case: Case) -> dict[str, Any]:
    """The least milliseconds of a case on each device, and their ratio."""
    import tensorflow as tf

    name, function, inputs = case
    least, ready = {"HPU": float("inf"), "CPU": float("inf")}, {}
    for device in least:
        with tf.device(f"/{device}:0"):
            there = [tf.identity(x) for x in inputs]
            ready[device] = tf.function(function, autograph=False), there
            ready[device][0](*there)
    for _ in range(ROUNDS):
        for device, (call, there) in ready.items():
            with tf.device(f"/{device}:0"):
                for _ in range(CALLS):
                    start = time.perf_counter()
                    call(*there)
                    least[device] = min(least[device], 1e3 * (time.perf_counter() - start))
    return {"op": name, "hpu_ms": least["HPU"], "stock_ms": least["CPU"], "ratio": least["CPU"] / least["HPU"]}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Single ops on HPU beside stock TensorFlow on the CPU.")
    parser.add_argument("--ops", nargs="+", default=[""], metavar="PART", help="parts of names; default: all")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for HPU and stock alike")
    parser.add_argument("--json", metavar="FILE", help="write the lines there too")
    options = parser.parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["HABANA_SIM_THREADS"] = str(options.threads)
    os.environ.setdefault("HABANA_SIM_LOG", "warning")
    import tensorflow as tf

    import habana_tf

    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    habana_tf.load_habana_module()
    chosen = [case for case in cases() if any(part in case[0] for part in options.ops)]
    if not chosen:
        parser.error(f"no op has {' or '.join(options.ops)} in its name")
    lines = sorted((measure(case) for case in chosen), key=lambda line: float(line["ratio"]))
    print(f"{'op':30} {'HPU ms':>9} {'stock ms':>9} {'ratio':>6}")
    for line in lines:
        print(f"{line['op']:30} {line['hpu_ms']:9.3f} {line['stock_ms']:9.3f} {line['ratio']:6.2f}")
    if options.json:
        Path(options.json).write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
