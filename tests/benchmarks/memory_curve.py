"""What many shapes and many clusters cost a process: its memory and the time of each, as they come.

    python tests/benchmarks/memory_curve.py --shapes 20000 --clusters 5000 --models 40

Three kinds of program that meet ever new things, each in a process of its own:

    shapes      one cluster of four ops, met with another batch size each time; the sizes are one range
    clusters    clusters of two to four ops, all different, each made, launched and dropped
    models      small networks that differ in their width only, each made, trained and dropped

A line per `--every` has the resident memory of the process in MiB and milliseconds per shape, cluster or model since
the line before. `--device /CPU:0` gives stock TensorFlow's figures for the same program. `--own` leaves TensorFlow
out: programs for shapes and clusters are asked of the resolver and not run, so that what grows is habana_tf's.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))  # behind the installed package

KINDS = ("shapes", "clusters", "models")
CHAIN = ("Relu", "Tanh", "Square", "Neg", "Abs", "Exp", "Sigmoid", "Softplus")
"""Ops of which three, of eight kinds each, make 512 clusters for one constant."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="N")
    parser.add_argument("--every", type=int, help="a line each; a tenth of all if not given")
    parser.add_argument("--device", default="/HPU:0")
    parser.add_argument("--own", action="store_true", help="without TensorFlow's executor (shapes and clusters)")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this process: one kind
    options = parser.parse_args(arguments)
    wanted = [kind for kind in KINDS if getattr(options, kind)]
    if not options.here:
        for kind in wanted:
            line = [sys.executable, __file__, f"--{kind}", str(getattr(options, kind)), "--device", options.device]
            line += ["--every", str(options.every)] if options.every else []
            subprocess.run([*line, "--here", *(["--own"] if options.own else [])], check=True)
        return
    (kind,) = wanted
    count = getattr(options, kind)
    if options.device.startswith("/HPU") and not options.own:
        import habana_tf

        habana_tf.load_habana_module()
    own = {"shapes": own_shapes, "clusters": own_clusters}
    through = {"shapes": shapes, "clusters": clusters, "models": models}
    steps = own[kind](count) if options.own and kind in own else through[kind](count, options.device)
    print(f"{kind}: {'the resolver alone' if options.own else options.device}", flush=True)
    curve(steps, options.every or max(1, count // 10))


def curve(steps: Iterator[None], every: int) -> None:
    """Prints a line per `every` steps. The first step is apart: it imports and compiles what all need."""
    next(steps)
    print(f"{1:>7} {resident():8.1f} MiB", flush=True)
    done, start = 1, time.perf_counter()
    while taken := len(list(itertools.islice(steps, every - done % every))):
        done += taken
        each = (time.perf_counter() - start) / taken
        gc.collect()
        print(f"{done:>7} {resident():8.1f} MiB {each * 1e3:9.3f} ms each", flush=True)
        start = time.perf_counter()


def resident() -> float:
    """Resident memory of this process in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status says nothing of VmRSS")


def shapes(count: int, device: str) -> Iterator[None]:
    """One cluster on batches of 1, 2, 3, ... rows."""
    import numpy as np
    import tensorflow as tf

    with tf.device(device):
        weights, bias = tf.Variable(tf.ones((4, 3))), tf.Variable(tf.zeros(3))

        @tf.function(input_signature=[tf.TensorSpec((None, 4))])
        def step(x: Any) -> Any:
            return tf.reduce_sum(tf.nn.relu(tf.matmul(x, weights) + bias), 1)

        for n in range(1, count + 1):
            assert step(tf.constant(np.ones((n, 4), np.float32))).shape == (n,)
            yield


def clusters(count: int, device: str) -> Iterator[None]:
    """Clusters that differ in their ops or a constant, each traced, run once and dropped."""
    import tensorflow as tf

    with tf.device(device):
        x = tf.ones((8, 4))
        for k in range(count):
            names, constant = chosen(k)

            @tf.function
            def step(y: Any, names: Any = names, constant: float = constant) -> Any:
                for name in names:
                    y = getattr(tf.raw_ops, name)(**{"features" if name in ("Relu", "Softplus") else "x": y})
                return y * constant

            step(x)
            yield


def models(count: int, device: str) -> Iterator[None]:
    """Networks of two layers of 8, 9, 10, ... units, each made and trained for three epochs of a batch and a part."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(39, 20)).astype(np.float32), rng.integers(0, 5, 39)
    with tf.device(device):
        for k in range(count):
            layers = tf.keras.layers
            model = tf.keras.Sequential(
                [layers.Dense(8 + k, activation="relu"), layers.Dense(8 + k, activation="tanh"), layers.Dense(5)]
            )
            loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(tf.keras.optimizers.Adam(), loss)
            model.fit(x, y, batch_size=32, epochs=3, verbose=0)
            tf.keras.backend.clear_session()
            yield


def chosen(k: int) -> tuple[list[str], float]:
    """The ops and the constant of cluster `k`."""
    digits, kinds = k % len(CHAIN) ** 3, len(CHAIN)
    ops = [CHAIN[digits % kinds], CHAIN[digits // kinds % kinds], CHAIN[digits // kinds**2]]
    return ops, 1.0 + k // kinds**3


def own_shapes(count: int) -> Iterator[None]:
    """As `shapes`; the last thousand programs live, as they do in a kernel of TensorFlow's."""
    from collections import deque

    data = written([("MatMul", 1), ("BiasAdd", 1), ("Relu", 0), ("Tanh", 0)])
    kept: Any = deque(maxlen=1000)
    for n in range(1, count + 1):
        kept.append(asked(data, [(n, 4), (4, 3), (3,)]))
        yield


def own_clusters(count: int) -> Iterator[None]:
    """As `clusters`; the last hundred programs live."""
    from collections import deque

    kept: Any = deque(maxlen=100)
    for k in range(count):
        names, constant = chosen(k)
        kept.append(asked(written([(name, 0) for name in names], constant), [(8, 4)]))
        yield


def written(ops: Sequence[tuple[str, int]], constant: float | None = None) -> bytes:
    """A serialized cluster: a chain of ops on float32, each on the one before and so many new inputs, and a product
    with a constant."""
    import tensorflow as tf
    from tensorflow.core.framework import node_def_pb2

    from habana_tf.cluster.cluster import Arg
    from habana_tf.ir.dtypes import DType
    from habana_tf.tensorflow.clusters.writer import ClusterWriter

    writer = ClusterWriter("chain")
    last = writer.arg(Arg(DType.F32, False, "x"))
    more = [[writer.arg(Arg(DType.F32, False, f"{op}{k}")) for k in range(n)] for op, n in ops]

    def node(op: str) -> Any:
        made = node_def_pb2.NodeDef(op=op, name=op)
        made.attr["dtype" if op == "Const" else "T"].type = DType.F32.number
        return made

    for (op, _), added in zip(ops, more, strict=True):
        last = writer.node(node(op), [last, *added])
    if constant is not None:
        const = node("Const")
        const.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(constant, tf.float32))
        last = writer.node(node("Mul"), [last, writer.node(const, [])])
    writer.result(last, Arg(DType.F32, False))
    return writer.bytes()


def asked(data: bytes, shapes: Sequence[tuple[int, ...]]) -> Any:
    """The program of a cluster for these shapes."""
    from habana_tf.ir.dtypes import DType
    from habana_tf.resolver.resolve import resolve
    from habana_tf.tensorflow.clusters.cluster import parse

    return resolve(parse(data), [(DType.F32.number, shape, None) for shape in shapes])


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))  # `bench` and others stand here
    main()
