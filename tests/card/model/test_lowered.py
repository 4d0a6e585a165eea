"""What ops gave is what the cluster's outputs are made of; the time of a launch follows from the sizes it met."""

from __future__ import annotations

import pytest

from tests.child import on_hpu


@on_hpu
def test_outputs_are_among_what_ops_gave() -> None:
    import tensorflow as tf

    from tests.card.model.test_kernels import launched

    found = launched(lambda x: tf.nn.relu(x) * 2.0, (4, 8))
    assert [found.made[ref] for ref in found.cluster.outputs] == found.program.outputs
    assert found.made[-1, 0] is found.program.inputs[0] and found.made[-1, 0].shape == (4, 8)


@on_hpu
def test_shapes_say_how_long_a_cluster_takes() -> None:
    """The cluster is the same for all sizes; operations, bytes and time are those of the sizes asked for."""
    import tensorflow as tf

    from habana_tf.card.model.lowered import launch_time
    from habana_tf.card.model.parameters import FITTED
    from habana_tf.hardware.chips import chip
    from tests.card.model.test_kernels import launched

    cluster = launched(lambda x, w: tf.nn.relu(tf.matmul(x, w)) * 2.0, (64, 256), (256, 128)).cluster
    seconds = []
    for rows in (64, 4096, 131072):
        lowered, time = launch_time(chip("gaudi2"), cluster, [(rows, 256), (256, 128)], [None, None])
        (product,) = (u for u in time.units if u.engine == "MME")
        assert product.flops == 2 * rows * 256 * 128
        assert [n.shape for n in lowered.program.outputs] == [(rows, 128)]
        least = rows * 128 * 4 / chip("gaudi2").hbm_bandwidth + 2 * FITTED.launch * (1 - FITTED.hidden)
        assert time.seconds >= least
        seconds.append(time.seconds)
    assert seconds == sorted(seconds)
    both = [launch_time(chip(name), cluster, [(131072, 256), (256, 128)], [None, None])[1].seconds
            for name in ("gaudi", "gaudi3")]  # fmt: skip
    assert both[0] > seconds[-1] > both[1]


@on_hpu
def test_values_that_fix_a_shape_are_taken() -> None:
    import numpy as np
    import tensorflow as tf

    from habana_tf.card.model.lowered import launch_time
    from habana_tf.cluster.lowering_context import LoweringError
    from habana_tf.hardware.chips import chip
    from habana_tf.tensorflow.clusters.cluster import parse
    from habana_tf.tensorflow.clusters.writer import of_node

    @tf.function
    def tiled(x: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
        return tf.tile(x, times)

    graph = tiled.get_concrete_function(tf.TensorSpec((8, 4)), tf.TensorSpec((2,), tf.int32)).graph
    (node,) = (op.node_def for op in graph.get_operations() if op.type == "Tile")
    cluster = parse(of_node(node.SerializeToString()))
    for times in ((1, 2), (5, 3)):
        lowered, _ = launch_time(chip("gaudi2"), cluster, [(8, 4), (2,)], [None, np.array(times, np.int32)])
        assert [n.shape for n in lowered.program.outputs] == [(8 * times[0], 4 * times[1])]
    with pytest.raises(LoweringError, match="Tile"):
        launch_time(chip("gaudi2"), cluster, [(8, 4), (2,)], [None, None])
