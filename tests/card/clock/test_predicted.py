"""Predictions of launches, by the program's number, against the model of the card asked directly."""

from __future__ import annotations

import math

from tests.child import on_hpu


@on_hpu
def test_a_launch_takes_what_the_cluster_takes() -> None:
    import tensorflow as tf

    import habana_tf
    from habana_tf.card.clock import counted, predicted
    from habana_tf.hardware.chips import chips

    @tf.function
    def f(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(tf.matmul(a, b)) * 2.0

    before = counted.now()
    f(tf.ones((96, 64)), tf.ones((64, 32)))
    (number,) = [p.number for p in counted.now().after(before).programs.values() if p.name.startswith("cluster")]
    for chip in chips():
        found = predicted.launch(number, chip)
        told = habana_tf.predict(f, (96, 64), (64, 32), chip=chip.name, precision="fp32")
        assert found.time.seconds is not None and math.isclose(found.time.seconds, told.step.launches)
        assert {*found.inputs} == {(96, 64), (64, 32)} and found.what.startswith("4 ops")
        assert found.time.units == len(told.step.units)
        assert predicted.launch(number, chip) is found, "computed once"


@on_hpu
def test_what_is_not_known_any_more_says_so() -> None:
    from habana_tf.card.clock import predicted
    from habana_tf.hardware.chips import chip

    found = predicted.launch(10**12, chip("gaudi"))
    assert found.time.seconds is None and found.time.why == predicted.FORGOTTEN


@on_hpu
def test_an_op_that_its_lowering_refuses_has_a_reason() -> None:
    import tensorflow as tf

    from habana_tf.card.clock.predicted import of_cluster
    from habana_tf.hardware.chips import chip
    from habana_tf.tensorflow.clusters.cluster import parse
    from habana_tf.tensorflow.clusters.writer import of_node

    with tf.Graph().as_default() as graph:
        tf.matmul(tf.compat.v1.placeholder(tf.float32), tf.compat.v1.placeholder(tf.float32))
    node = graph.as_graph_def().node[-1]
    made = parse(of_node(node.SerializeToString()))
    found = of_cluster(chip("gaudi2"), made, [(2, 3), (4, 5)], [None, None])
    assert found.seconds is None and "MatMul" in found.why
