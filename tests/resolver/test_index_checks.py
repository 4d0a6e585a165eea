"""Indices out of range: told once, an error where that is asked for, and never where all are in range."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from tests.child import on_hpu
from tests.value_checks import setting, told

BAD, WORST = 7, -3


def cases() -> dict[str, tuple[Callable[[Any], Any], int, int, str]]:
    """By name: an op of an index, an index that is out of range, the bound, and the op's argument."""
    import tensorflow as tf

    x = tf.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
    rows = tf.ones([2, 3])
    raw = tf.raw_ops

    def pair(i: Any) -> Any:
        return tf.stack([tf.zeros_like(i), i])

    return {
        "GatherV2": (lambda i: tf.gather(x, pair(i)), BAD, 4, "indices"),
        "GatherV2 of a negative one": (lambda i: tf.gather(x, pair(i)), WORST, 4, "indices"),
        "GatherV2 of int64": (lambda i: tf.gather(x, tf.cast(pair(i), tf.int64)), WORST, 4, "indices"),
        "GatherV2 along the last axis": (lambda i: tf.gather(x, i, axis=1), 3, 3, "indices"),
        "GatherNd": (lambda i: tf.gather_nd(x, tf.reshape(pair(i), [1, 2])), 3, 3, "indices"),
        "ScatterNd": (lambda i: tf.scatter_nd(tf.reshape(pair(i), [2, 1]), rows, [4, 3]), 4, 4, "indices"),
        "TensorScatterAdd": (
            lambda i: tf.tensor_scatter_nd_add(x, tf.reshape(pair(i), [2, 1]), rows), WORST, 4, "indices",
        ),
        "UnsortedSegmentSum": (lambda i: tf.math.unsorted_segment_sum(rows, pair(i), 4), BAD, 4, "segment_ids"),
        "SparseSoftmaxCrossEntropyWithLogits": (
            lambda i: tf.nn.sparse_softmax_cross_entropy_with_logits(pair(i), rows), 3, 3, "labels",
        ),
        "InvertPermutation": (lambda i: raw.InvertPermutation(x=pair(i)), 2, 2, "x"),
        "ReverseSequence": (lambda i: raw.ReverseSequence(input=x, seq_lengths=tf.fill([4], i), seq_dim=1), 4, 4,
                            "seq_lengths"),
        "CropAndResize": (
            lambda i: raw.CropAndResize(image=tf.ones([1, 4, 4, 1]), boxes=[[0.0, 0.0, 1.0, 1.0]], crop_size=[2, 2],
                                        box_ind=tf.reshape(i, [1])), 1, 1, "box_ind",
        ),
    }  # fmt: skip


@on_hpu
def test_a_launch_warns_once_with_op_argument_value_and_bound() -> None:
    import tensorflow as tf

    for name, (make, bad, bound, argument) in cases().items():
        fn = tf.function(lambda i, make=make: make(i * 1) + 0, jit_compile=False)
        with told() as texts:
            fn(tf.constant(0))
            assert not texts, (name, texts)
            for _ in range(3):
                fn(tf.constant(bad))
        found = [t for t in texts if f"{argument} = {bad} is not in [0, {bound})" in t]
        assert len(texts) == len(found) == 1, (name, texts)
        assert name.split()[0].removesuffix("Add") in found[0] and "HABANA_SIM_CHECK_INDICES" in found[0]


@on_hpu
def test_stock_refuses_the_same_indices() -> None:
    import tensorflow as tf

    with tf.device("/CPU:0"):
        for name, (make, bad, bound, _) in cases().items():
            make(tf.constant(min(1, bound - 1)))
            try:
                make(tf.constant(bad))
            except (tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError):
                continue
            raise AssertionError(f"the CPU takes {name}")


@on_hpu
def test_eager_ops_warn_too_and_empty_indices_do_not() -> None:
    import tensorflow as tf

    x = tf.ones([5, 2])
    with told() as texts:
        tf.gather(x, tf.constant([], tf.int32))
        tf.gather(tf.ones([0, 2]), tf.constant([], tf.int64))
        tf.math.unsorted_segment_sum(x, [-1, 0, 1, -5, 2], 3)
        assert not texts
        tf.gather(x, [1, 5])
    assert len(texts) == 1 and "GatherV2: indices = 5 is not in [0, 5)" in texts[0]


@on_hpu
def test_a_training_step_names_the_layer() -> None:
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Embedding(6, 4, input_length=2, name="words"),
                                 tf.keras.layers.Flatten(), tf.keras.layers.Dense(3)])  # fmt: skip
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    ids = np.array([[0, 5], [1, 6]], np.int32)
    with told() as texts:
        model.fit(ids, np.array([0, 1]), epochs=2, batch_size=2, verbose=0)
    assert len(texts) == 1 and "words" in texts[0] and "= 6 is not in [0, 6)" in texts[0], texts


@on_hpu
def test_error_makes_it_tensorflows_error() -> None:
    import tensorflow as tf

    def refused(call: Callable[[], Any], text: str) -> None:
        try:
            call()
        except tf.errors.InvalidArgumentError as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"went on: {text}")

    with setting("error"):
        for make, bad, bound, argument in cases().values():
            fn = tf.function(lambda i, make=make: make(i * 1) + 0, jit_compile=False)
            good = tf.constant(min(1, bound - 1))
            fn(good)
            refused(lambda fn=fn, bad=bad: fn(tf.constant(bad)), f"{argument} = {bad} is not in [0, {bound})")
            fn(good)
        x = tf.ones([17, 2])  # a shape that no other test compiles an eager op for
        refused(lambda: tf.gather(x, [1, 17]), "GatherV2: indices = 17 is not in [0, 17)")


@on_hpu
def test_off_says_nothing() -> None:
    import tensorflow as tf

    with told() as texts, setting("off"):
        assert float(tf.gather(tf.ones([19]), 25)) == 0.0
    assert not texts


@on_hpu
def test_an_interpreted_launch_looks_too() -> None:
    import tensorflow as tf

    from habana_tf.compiler.view_indices import Unfit
    from habana_tf.resolver import recipes

    def unfit(*_: Any, **__: Any) -> NoReturn:
        raise Unfit("not today")

    kept, recipes.compile_program = recipes.compile_program, unfit
    forbids, os.environ["TF_CPU_RUNTIME_FALLBACK"] = os.environ.get("TF_CPU_RUNTIME_FALLBACK", ""), "allow"
    try:
        with told() as texts:
            tf.function(lambda x, i: tf.gather(x * 2.0, i * 1) + 1.0)(tf.ones([5]), tf.constant([0, 9]))
    finally:
        recipes.compile_program = kept
        os.environ["TF_CPU_RUNTIME_FALLBACK"] = forbids
    assert [t for t in texts if "indices = 9 is not in [0, 5)" in t]
