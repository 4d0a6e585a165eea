"""Memory: the chip's true capacity, backed by host pages when they are touched; copies keep every bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.child import on_hpu
from tests.device.launching import F32, address, doubled, launch, make_cluster, program, programs


@on_hpu
def test_memory_is_counted_and_comes_back() -> None:
    import tensorflow as tf

    value = np.zeros([1 << 20], np.float32)
    tf.identity(tf.constant(value))
    before = tf.config.experimental.get_memory_info("HPU:0")["current"]
    x = tf.identity(tf.constant(value))
    during = tf.config.experimental.get_memory_info("HPU:0")["current"]
    assert during >= before + (4 << 20)
    del x
    assert tf.config.experimental.get_memory_info("HPU:0")["current"] == before


@on_hpu
def test_tensors_are_aligned_to_64_bytes() -> None:
    import tensorflow as tf

    for n in (1, 3, 17, 1000, 12345):
        assert address(tf.identity(tf.zeros([n]))) % 64 == 0


@on_hpu
def test_untouched_memory_takes_no_host_pages() -> None:
    def resident() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    def nothing(ins: list[Any], outs: list[Any], states: list[bytes]) -> None:
        pass

    import tensorflow as tf

    x = tf.zeros([1])
    before = resident()
    with programs(lambda c, s: program([(F32, [1 << 29])], nothing)):
        y = launch(make_cluster(["x"], name="2 GiB"), [x])
    assert y[0].shape == [1 << 29]
    # TensorFlow's allocator keeps 8 bytes per 256: 64 MiB for these two GiB.
    assert resident() - before < 80 << 20, f"{(resident() - before) >> 20} MiB"


@on_hpu
def test_a_launch_larger_than_the_card_names_bytes_asked_in_use_and_total() -> None:
    import tensorflow as tf

    x = tf.zeros([1])
    with programs(lambda c, s: program([(F32, [1 << 36])], doubled)):
        try:
            launch(make_cluster(["x"], name="256 GiB"), [x])
        except tf.errors.ResourceExhaustedError as error:
            text = str(error)
        else:
            raise AssertionError("256 GiB fitted")
    assert f"asks for {4 << 36} bytes" in text
    assert "bytes in use" in text
    assert f"{96 << 30} bytes total" in text


@on_hpu
def test_a_launch_larger_than_the_host_says_host_memory() -> None:
    import tensorflow as tf

    from habana_tf._native import _bridge

    bytes_asked = _bridge.host_memory()[0] + (1 << 30)
    x = tf.zeros([1])
    with programs(lambda c, s: program([(F32, [bytes_asked // 4])], doubled)):
        try:
            launch(make_cluster(["x"], name="larger than the host"), [x])
        except tf.errors.ResourceExhaustedError as error:
            assert "host memory" in str(error) or bytes_asked > 96 << 30
        else:
            raise AssertionError("more than the host's memory fitted")


@on_hpu
def test_copies_keep_every_bit() -> None:
    import tensorflow as tf

    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float64, np.float16, np.int64, np.int8, np.uint8, np.bool_, np.complex64):
        for shape in ((), (1,), (0, 3), (7, 5), (3, 1, 2)):
            raw = rng.integers(0, 2, size=shape).astype(dtype) if dtype == np.bool_ else None
            want = raw if raw is not None else rng.normal(size=shape).astype(dtype)
            got = tf.identity(tf.constant(want))
            assert got.device.endswith("HPU:0")
            assert got.numpy().tobytes() == want.tobytes()
    nan = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)
    assert tf.identity(tf.constant(nan)).numpy().tobytes() == nan.tobytes()


@on_hpu
def test_strings_and_int32_stay_on_the_host() -> None:
    import tensorflow as tf

    assert tf.constant(["a", "b"]).numpy().tolist() == [b"a", b"b"]
    assert (tf.constant([1, 2]) + tf.constant([3, 4])).numpy().tolist() == [4, 6]


@on_hpu
def test_a_dataset_feeds_the_card() -> None:
    import tensorflow as tf

    seen = [tf.identity(x).numpy().tolist() for x in tf.data.Dataset.from_tensor_slices(np.eye(2, dtype=np.float32))]
    assert seen == [[1.0, 0.0], [0.0, 1.0]]
