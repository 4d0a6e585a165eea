"""Eager ops and a served model from several threads, every answer checked against NumPy: for as long as is asked.

    python tests/device/threads_soak.py --minutes 60 --threads 4

Prints each minute, and in the end for each case, how many answers there were and how many were wrong; ends with 1 if
one was. The inputs of most cases are in host memory: int32 tensors, axes, indices, shapes and strings. Threads take
turns far more often than they would.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)
Case = tuple[Callable[[Any], Any], Callable[[np.ndarray], Any], list[np.ndarray]]
"""What is called with a tensor, what NumPy makes of the same, and the inputs of which each call takes one."""


def _vectors(*rows: Any) -> list[np.ndarray]:
    return [np.array(row, np.int32) for row in rows]


_INDICES = _vectors([0, 1], [2, 3], [3, 0], [1, 2], [2, 0])
_AXES = [np.array(axis, np.int32) for axis in (0, 1)]

CASES: dict[str, Case] = {
    "identity": (tf.identity, lambda n: n, [np.array([k, k + 1, 7], np.int32) for k in range(50)]),
    "negative": (tf.negative, lambda n: -n, [np.array([k, k + 1, 7], np.int32) for k in range(50)]),
    "gather": (lambda n: tf.gather(VALUES, n), lambda n: VALUES[n], _INDICES),
    "sum": (lambda n: tf.reduce_sum(VALUES, n), lambda n: VALUES.sum(int(n)), _AXES),
    "argmax": (lambda n: tf.argmax(VALUES, n), lambda n: VALUES.argmax(int(n)), _AXES),
    "concat": (lambda n: tf.concat([VALUES, VALUES], n), lambda n: np.concatenate([VALUES, VALUES], int(n)), _AXES),
    "slice": (
        lambda n: tf.slice(VALUES, n, [1, 2]),
        lambda n: VALUES[n[0] : n[0] + 1, n[1] : n[1] + 2],
        _vectors([0, 1], [2, 3], [3, 0]),
    ),
    "transpose": (lambda n: tf.transpose(VALUES, n), lambda n: VALUES.transpose(n), _vectors([0, 1], [1, 0])),
    "pad": (
        lambda n: tf.pad(VALUES, n),
        lambda n: np.pad(VALUES, n),
        _vectors([[0, 1], [1, 0]], [[2, 0], [0, 1]], [[1, 1], [1, 1]]),
    ),
    "reshape": (
        lambda n: tf.reshape(VALUES, n),
        lambda n: VALUES.reshape(n),
        _vectors([6, 4], [2, 12], [24, 1], [3, 8]),
    ),
    "fill": (lambda n: tf.fill(n, 2.5), lambda n: np.full(n, 2.5, np.float32), _vectors([2, 3], [3, 2], [1, 4])),
    "one_hot": (lambda n: tf.one_hot(n, 5), lambda n: np.eye(5, dtype=np.float32)[n], _INDICES),
    "strings": (
        lambda n: tf.strings.join([n, "!"]),
        lambda n: np.array(n.item().encode() + b"!"),
        [np.array(word) for word in ("one", "two", "three", "four")],
    ),
    "function": (
        tf.function(lambda n: tf.gather(VALUES, n) + tf.cast(tf.reduce_sum(tf.fill(n + 1, 1)), tf.float32)),
        lambda n: VALUES[n] + np.prod(n + 1),
        _INDICES,
    ),
    "float": (lambda n: n * 2.0, lambda n: n * 2, [np.full(5, k, np.float32) for k in range(20)]),
}


def serving() -> dict[str, Case]:
    """A small model as a server calls it, with batches of three sizes: by itself, and by Keras' `predict`.

    For `predict` each thread has a model of its own: Keras sets attributes of the model in each call, so that several
    threads with one model fail with stock TensorFlow, too (`no attribute 'predict_function'`, KeyError of History).
    """
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Dense(12, activation="relu", input_shape=(6,)),
            layers.Reshape((3, 4)),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    w, b, gamma, beta, mean, variance, w2, b2 = (v.numpy().astype(np.float64) for v in _in_order(model))

    def numbers(x: np.ndarray) -> np.ndarray:
        hidden = np.maximum(x @ w + b, 0).reshape(-1, 3, 4)
        normal = (hidden - mean) / np.sqrt(variance + 1e-3) * gamma + beta
        out = np.exp(normal.reshape(-1, 12) @ w2 + b2)
        return out / out.sum(1, keepdims=True)

    own, lock = threading.local(), threading.Lock()

    def predict(x: Any) -> Any:
        if not hasattr(own, "model"):
            with lock:
                own.model = tf.keras.models.clone_model(model)
                own.model.set_weights(model.get_weights())
        return tf.convert_to_tensor(own.model.predict(x, verbose=0))

    rng = np.random.default_rng(0)
    batches = [rng.random((rows, 6), np.float32) for rows in (1, 2, 4, 4, 2)]
    return {"serving": (model, numbers, batches), "predict": (predict, numbers, batches)}


def _in_order(model: Any) -> list[Any]:
    return [v for layer in model.layers for v in layer.weights]


def _mapped(start: Any) -> Any:
    """The elements of a dataset whose map calls Python, which runs eager ops, from four threads."""

    def gather(n: Any) -> Any:
        with tf.device("/HPU:0"):
            return tf.gather(tf.range(100, 200), tf.cast(n, tf.int32)) + tf.reduce_sum(tf.fill([2, 3], 1))

    numbers = tf.data.Dataset.range(start, start + 16)
    return tf.stack(list(numbers.map(lambda n: tf.py_function(gather, [n], tf.int32), num_parallel_calls=4)))


DATASET: Case = (_mapped, lambda n: np.arange(106, 122) + n, [np.array(n, np.int64) for n in (0, 7, 31, 80)])


@contextlib.contextmanager
def hurried() -> Iterator[None]:
    """Threads take turns every ten microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def soak(
    cases: dict[str, Case],
    threads: int,
    more: Callable[[int], bool],
    calls: int = 40,
    report: Callable[[Counter[str], Counter[str]], None] = lambda done, wrong: None,
) -> tuple[Counter[str], Counter[str]]:
    """Calls all cases from all threads, so many times each in a round, while `more(rounds)`.

    Counts answers, and those that were wrong or an error, by case. `report` gets both counts after each case.
    """
    inputs = {name: [(tf.constant(n), answer(n)) for n in given] for name, (_, answer, given) in cases.items()}
    for name, (call, _, _) in cases.items():  # compiled once, and right from one thread
        assert not any(_wrong(call(x), want) for x, want in inputs[name]), name
    done, wrong, lock = Counter[str](), Counter[str](), threading.Lock()

    def work(first: int) -> None:
        rounds = 0
        while more(rounds):
            for name, (call, _, _) in cases.items():
                answers, bad = 0, []
                for k in range(calls):
                    x, want = inputs[name][(first + k) % len(inputs[name])]
                    try:
                        found = _wrong(call(x), want)
                    except Exception as error:
                        found = f"{type(error).__name__}: {error}"
                    answers += 1
                    if found:
                        bad.append(found)
                with lock:
                    done[name] += answers
                    wrong[name] += len(bad)
                    report(done, wrong)
                if bad:
                    print(name, bad[0], file=sys.stderr)
            rounds += 1

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    with hurried():
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return done, wrong


def _wrong(got: Any, want: Any) -> str:
    """What is wrong with an answer, or nothing."""
    found, expected = np.asarray(got.numpy()), np.asarray(want)
    if found.shape != expected.shape:
        return f"shape {found.shape}, not {expected.shape}"
    text = found.dtype.kind == "S"
    same = bool(found == expected) if text else np.allclose(found, expected, rtol=1e-4, atol=1e-5)
    return "" if same else f"{found.tolist()}, not {expected.tolist()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=4)
    arguments = parser.parse_args()
    from habana_tf import load_habana_module

    load_habana_module()
    assert tf.identity(tf.constant([1])).device.endswith("HPU:0")
    start = time.monotonic()
    end, reported = start + 60 * arguments.minutes, start

    def report(done: Counter[str], wrong: Counter[str]) -> None:
        nonlocal reported
        if (now := time.monotonic()) > reported + 60:
            reported = now
            answers, bad = sum(done.values()), sum(wrong.values())
            print(f"{(now - start) / 60:.0f} min {answers:,} answers {bad:,} wrong", flush=True)

    cases = {**CASES, **serving(), "dataset": DATASET}
    done, wrong = soak(cases, arguments.threads, lambda _: time.monotonic() < end, report=report)
    for name in done:
        print(f"{name:10} {done[name]:10,} answers {wrong[name]:6,} wrong")
    answers, bad = sum(done.values()), sum(wrong.values())
    print(f"{answers:,} answers of {arguments.threads} threads, {bad:,} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
