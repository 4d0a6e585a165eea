"""How far sums are from those of float64, on HPU and on stock TensorFlow: by kind of sum, length and numbers.

    python tests/benchmarks/sum_errors.py [--only KIND ...] [--most 10000000]

An error is the largest distance from float64's result over the sum of the terms' absolute values, in units of float32's
rounding (2^-24): a chain of n additions may come to n of them, a tree to log2(n). Numbers that are all equal are the
worst case, because each addition of a chain is rounded in the same direction.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import habana_tf

UNIT = 2.0**-24
LENGTHS = (1_000, 10_007, 100_000, 250_007, 1_000_003, 10_000_000)
NUMBERS: dict[str, Callable[[tuple[int, ...]], Any]] = {
    "equal": lambda shape: np.full(shape, 0.1, np.float32),
    "uniform": lambda shape: np.random.default_rng(1).random(shape, np.float32),
    "normal": lambda shape: np.random.default_rng(2).standard_normal(shape, np.float32),
}


class Kind(NamedTuple):
    """A kind of sum. shape: of its operand for a length; run: in TensorFlow; exact: in float64; size: the sum of the
    absolute values of the terms, or what else an error is relative to."""

    shape: Callable[[int], tuple[int, ...]]
    run: Callable[[Any], Any]
    exact: Callable[[Any], Any]
    size: Callable[[Any], Any]
    most: int = 10_000_000


def _log_softmax_gradient(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_mean(tf.nn.log_softmax(x))
    return tape.gradient(loss, x)


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _log_softmax_gradient_exact(x: Any) -> Any:
    return (1 - x.shape[-1] * _softmax(x)) / x.size


KINDS: dict[str, Kind] = {
    "all": Kind(lambda n: (n,), tf.reduce_sum, np.sum, lambda x: np.abs(x).sum()),
    "rows": Kind(
        lambda n: (3, n), lambda x: tf.reduce_sum(x, -1), lambda x: x.sum(-1), lambda x: np.abs(x).sum(-1), 1_000_003
    ),
    "few columns": Kind(
        lambda n: (n, 8), lambda x: tf.reduce_sum(x, 0), lambda x: x.sum(0), lambda x: np.abs(x).sum(0), 1_000_003
    ),
    "wide columns": Kind(
        lambda n: (n, 1030), lambda x: tf.reduce_sum(x, 0), lambda x: x.sum(0), lambda x: np.abs(x).sum(0), 100_000
    ),
    "middle axis": Kind(
        lambda n: (5, n, 6), lambda x: tf.reduce_sum(x, 1), lambda x: x.sum(1), lambda x: np.abs(x).sum(1), 250_007
    ),
    "variance": Kind(lambda n: (n,), tf.math.reduce_variance, np.var, np.var),
    "norm": Kind(lambda n: (n,), lambda x: tf.norm(x), np.linalg.norm, np.linalg.norm),
    "softmax": Kind(lambda n: (3, n), tf.nn.softmax, _softmax, _softmax, 250_007),
    "log_softmax gradient": Kind(
        lambda n: (3, n), _log_softmax_gradient, _log_softmax_gradient_exact, lambda x: 1 / x.size, 250_007
    ),
    "cumsum": Kind(lambda n: (n,), tf.cumsum, np.cumsum, lambda x: np.cumsum(np.abs(x))),
    "cumsum of columns": Kind(
        lambda n: (n, 3),
        lambda x: tf.cumsum(x, 0, exclusive=True, reverse=True),
        lambda x: np.cumsum(x[::-1], 0)[::-1] - x,
        lambda x: np.cumsum(np.abs(x)[::-1], 0)[::-1],
        1_000_003,
    ),
    "product, two vectors": Kind(
        lambda n: (1, n), lambda x: tf.matmul(x, x, transpose_b=True), lambda x: x @ x.T, lambda x: (x * x).sum()
    ),
    "product, narrow": Kind(
        lambda n: (n, 4), lambda x: tf.matmul(x, x, transpose_a=True), lambda x: x.T @ x,
        lambda x: np.abs(x).T @ np.abs(x), 1_000_003,
    ),
    "product, wide": Kind(
        lambda n: (n, 48), lambda x: tf.matmul(x, x, transpose_a=True), lambda x: x.T @ x,
        lambda x: np.abs(x).T @ np.abs(x), 1_000_003,
    ),
    "product and bias gradient": Kind(
        lambda n: (n, 32), lambda x: tf.reduce_sum(tf.matmul(x, tf.eye(32)), 0), lambda x: x.sum(0),
        lambda x: np.abs(x).sum(0), 1_000_003,
    ),
    "segments": Kind(
        lambda n: (n, 4), lambda x: tf.math.unsorted_segment_sum(x, tf.zeros(tf.shape(x)[:1], tf.int32), 1),
        lambda x: x.sum(0), lambda x: np.abs(x).sum(0), 1_000_003,
    ),
}  # fmt: skip


def error(kind: Kind, x: Any, device: str) -> float:
    """Of a kind of sum of x: the largest error, in units."""
    with tf.device(device):
        got = tf.function(kind.run)(tf.constant(x)).numpy().astype(np.float64)
    wide = x.astype(np.float64)
    size = np.maximum(kind.size(wide), np.finfo(np.float32).tiny)
    return float(np.max(np.abs(got - kind.exact(wide)) / size) / UNIT)


def rows(only: list[str], most: int) -> Iterator[str]:
    for name in only or KINDS:
        kind = KINDS[name]
        for n in (n for n in LENGTHS if n <= min(most, kind.most)):
            for numbers, make in NUMBERS.items():
                if name == "variance" and numbers == "equal":
                    continue  # zero
                x = make(kind.shape(n))
                hpu, stock = (error(kind, x, device) for device in ("/HPU:0", "/CPU:0"))
                yield f"| {name} | {n:,} | {numbers} | {hpu:.3g} | {stock:.3g} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors of sums, in units of 2^-24 of the sum of absolute values.")
    parser.add_argument("--only", nargs="*", default=[], choices=list(KINDS), metavar="KIND")
    parser.add_argument("--most", type=int, default=max(LENGTHS), help="longest sum")
    args = parser.parse_args()
    habana_tf.load_habana_module()
    print("| sum | length | numbers | HPU | stock |\n|---|---|---|---|---|")
    for row in rows(args.only, args.most):
        print(row, flush=True)


if __name__ == "__main__":
    main()
