"""Ops of eager models have one recipe for all shapes."""

from __future__ import annotations

import numpy as np

from habana_tf.hardware.cpu import Isa, any_cpu
from habana_tf.resolver.one_op import one_op
from tests.tensorflow.clusters.eager_forms import forms, met_by


def test_every_form_is_of_any_shape_or_of_shapes() -> None:
    """What is for its sizes only computes with shapes, of five numbers at most."""
    fixed = []
    for form in forms():
        met = met_by(form)
        if not one_op(met, any_cpu(Isa.AVX2)).dims:
            fixed.append((met.cluster.nodes[0].op, max(int(np.prod(s)) for s in met.shapes)))
    assert not [each for each in fixed if each[1] > 5]
