"""One card per process, under every spelling of its name; the CPU stays available."""

from __future__ import annotations

from tests.child import on_hpu


@on_hpu
def test_one_physical_and_one_logical_device() -> None:
    import tensorflow as tf

    assert [d.name for d in tf.config.list_physical_devices("HPU")] == ["/physical_device:HPU:0"]
    assert [d.name for d in tf.config.list_logical_devices("HPU")] == ["/device:HPU:0"]


@on_hpu
def test_every_spelling_of_the_device_is_valid() -> None:
    import tensorflow as tf

    for name in ("/device:HPU:0", "/HPU:0", "HPU:0", "/job:localhost/replica:0/task:0/device:HPU:0"):
        with tf.device(name):
            assert tf.identity(tf.constant(1.0)).device.endswith("device:HPU:0")


@on_hpu
def test_the_cpu_stays_available() -> None:
    import tensorflow as tf

    with tf.device("/CPU:0"):
        assert (tf.constant(1.0) + 1.0).device.endswith("CPU:0")
