"""XLA's dynamic slices on the device: caches of keys and values, as text generation fills them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.child import on_hpu

F32 = np.float32


@on_hpu
def test_a_cache_of_keys_is_filled_token_by_token_with_one_recipe() -> None:
    """In a function, eagerly and in a loop; the cache is read in the same step, as attention does."""
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    import habana_tf

    @tf.function
    def step(cache: Any, key: Any, at: Any) -> Any:
        cache = gen_xla_ops.xla_dynamic_update_slice(cache, key, tf.stack([0, 0, at, 0]))
        scores = tf.einsum("bhld,bhqd->bhlq", cache, key)
        first = gen_xla_ops.xla_dynamic_slice(cache, tf.stack([0, 0, at - 1, 0]), tf.constant([2, 3, 2, 4]))
        return cache, scores, first

    @tf.function
    def loop(cache: Any, keys: Any) -> Any:
        for at in tf.range(tf.shape(keys)[0]):
            cache = gen_xla_ops.xla_dynamic_update_slice(cache, keys[at], tf.stack([0, 0, at, 0]))
        return cache

    rng = np.random.default_rng(1)
    keys = rng.normal(size=(6, 2, 3, 1, 4)).astype(F32)
    want = np.zeros((2, 3, 8, 4), F32)
    cache = eager = tf.zeros([2, 3, 8, 4])
    for at in range(6):
        want[:, :, at : at + 1] = keys[at]
        cache, scores, first = step(cache, tf.constant(keys[at]), tf.constant(at))
        eager = gen_xla_ops.xla_dynamic_update_slice(eager, keys[at], [0, 0, at, 0])
        np.testing.assert_array_equal(cache.numpy(), want)
        np.testing.assert_array_equal(eager.numpy(), want)
        assert "HPU" in eager.device
        np.testing.assert_allclose(scores, np.einsum("bhld,bhqd->bhlq", want, keys[at]), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(first.numpy(), want[:, :, max(at - 1, 0) :][:, :, :2])
    np.testing.assert_array_equal(loop(tf.zeros([2, 3, 8, 4]), tf.constant(keys)).numpy(), want)
    refused = [row for g in habana_tf.placement_report().to_dict()["graphs"] for row in g.get("refused", [])]
    assert not [row for row in refused if "Xla" in str(row)], refused


@on_hpu
def test_a_cache_that_nobody_else_holds_is_updated_in_place() -> None:
    """In a loop the old cache is given up at every turn; what the caller passed in is not touched."""
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    from habana_tf._native import _bridge

    turns = 20

    @tf.function
    def generate(cache: Any, keys: Any) -> Any:
        for at in tf.range(turns):
            cache = gen_xla_ops.xla_dynamic_update_slice(cache, tf.exp(keys[at]), tf.stack([0, at, 0]))
            tf.print("", output_stream="file:///dev/null")  # keeps the loop out of a single launch
        return cache

    cache = tf.zeros([2, turns, 4])
    keys = tf.random.normal([turns, 2, 1, 4])
    generate(cache, keys)
    before = _bridge.counters()["copies_spared"]
    got = generate(cache, keys)
    spared = _bridge.counters()["copies_spared"] - before
    assert spared >= turns - 1, spared
    np.testing.assert_allclose(got, tf.transpose(tf.exp(keys)[:, :, 0], [1, 0, 2]), rtol=1e-5)
    assert not np.any(cache.numpy())


@on_hpu
def test_a_cache_in_a_variable_keeps_what_was_read_before() -> None:
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    cache = tf.Variable(tf.zeros([4, 3]))

    @tf.function
    def step(row: Any, at: Any) -> Any:
        old = tf.identity(cache)
        cache.assign(gen_xla_ops.xla_dynamic_update_slice(cache, row, tf.stack([at, 0])))
        return old

    olds = [step(tf.fill([1, 3], float(k + 1)), tf.constant(k)) for k in range(4)]
    for k, old in enumerate(olds):
        assert old.numpy()[:, 0].tolist() == [*range(1, k + 1), *[0] * (4 - k)]
    assert cache.numpy()[:, 0].tolist() == [1, 2, 3, 4]
