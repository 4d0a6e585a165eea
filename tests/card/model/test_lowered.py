"""What ops gave is what the cluster's outputs are made of."""

from __future__ import annotations

from tests.child import on_hpu


@on_hpu
def test_outputs_are_among_what_ops_gave() -> None:
    import tensorflow as tf

    from tests.card.model.test_kernels import launched

    found = launched(lambda x: tf.nn.relu(x) * 2.0, (4, 8))
    assert [found.made[ref] for ref in found.cluster.outputs] == found.program.outputs
    assert found.made[-1, 0] is found.program.inputs[0] and found.made[-1, 0].shape == (4, 8)
