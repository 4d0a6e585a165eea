"""The ops that TensorFlow runs on the CPU by itself, outside graphs."""

from __future__ import annotations

import contextlib
import json

import tensorflow as tf

from tests.child import on_hpu


@on_hpu
def test_the_report_has_what_ran_on_the_cpu() -> None:
    import habana_tf

    x = tf.constant([[2.0, 1.0], [1.0, 3.0]])
    before = habana_tf.placement_report().eager
    assert "MatrixInverse" not in before and "Unique" not in before
    assert tf.linalg.inv(x).device.endswith("HPU:0")  # computed by TensorFlow's CPU kernel
    tf.unique(tf.constant([4, 9, 4]))
    tf.strings.as_string(x)
    tf.constant([1.0], tf.float64) * 2
    tf.identity(tf.constant([1.0], tf.float64))
    tf.concat([tf.tanh(x), x], 0)
    tf.Variable(1.0).assign_add(2.0)
    list(tf.data.Dataset.range(3).map(lambda n: n + 1))
    report = habana_tf.placement_report()
    new = {op: reason.name for op, reason in report.eager.items() if op not in before}
    assert new == {"MatrixInverse": "NO_ROW", "Unique": "NO_ROW", "AsString": "STRING", "Mul": "TYPE_OR_PROGRAM"}
    rows = {row["op"]: row["text"] for row in json.loads(report.to_json())["eager"]}
    assert rows["MatrixInverse"] == "HPU has no such op"
    assert "On the CPU outside graphs" in str(report)


@on_hpu
def test_they_can_be_made_an_error_and_explained() -> None:
    """As docs/ops.md says."""
    import habana_tf

    x = tf.constant([[2.0, 1.0], [1.0, 3.0]])
    told = {row["op"]: row["reason"] for row in habana_tf.explain(lambda x: tf.linalg.inv(x), x).on_cpu}
    assert told["MatrixInverse"] == "NO_ROW"
    tf.config.set_soft_device_placement(False)
    try:
        assert tf.tanh(x).device.endswith("HPU:0")
        with contextlib.suppress(tf.errors.InvalidArgumentError):
            tf.linalg.det(x)
            raise AssertionError("an op without an HPU kernel ran")
    finally:
        tf.config.set_soft_device_placement(True)


def test_nothing_is_told_without_the_device() -> None:
    from habana_tf.tensorflow.graph import eager

    tf.linalg.inv(tf.constant([[2.0]]))
    assert eager.on_cpu() == {}


@on_hpu
def test_an_op_that_is_pinned_to_hpu_and_lacks_a_kernel_there_fails_with_our_reason() -> None:
    words = tf.constant(["a"])

    @tf.function
    def join(x: tf.Tensor) -> tf.Tensor:
        with tf.device("/HPU:0"):
            return tf.strings.join([x, x])

    cases = {
        "StringJoin (works on strings)": [lambda: tf.strings.join([words, words])],
        "ReadFile (works on strings)": [lambda: tf.io.read_file("/dev/null")],
        "Timestamp (has an effect outside the graph)": [tf.raw_ops.Timestamp],
        "WriteFile (has an effect outside the graph)": [lambda: tf.io.write_file("/dev/null", "text")],
    }
    tf.config.set_soft_device_placement(False)
    try:
        for sentence, calls in cases.items():
            for call in calls:
                try:
                    call()
                except tf.errors.InvalidArgumentError as error:
                    text = str(error)
                    pinned = "is to run on HPU, which has no kernel for it, and soft device placement is off"
                    assert f"HPU has no kernel for this {sentence}" in text or pinned in text, text
                    assert sentence.split()[0] in text and "tf.device('/CPU:0')" in text
                else:
                    raise AssertionError(f"{sentence}: ran")
        assert join(words).numpy().tolist() == [b"aa"]  # in a graph, work in host memory stands in
        try:
            tf.reshape(tf.constant([1.0, 2.0]), [3])  # another error is TensorFlow's alone
        except tf.errors.InvalidArgumentError as error:
            assert "HPU has no kernel" not in str(error)
    finally:
        tf.config.set_soft_device_placement(True)
