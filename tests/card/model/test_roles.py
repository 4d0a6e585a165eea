"""Weights, state and gradients, told from update ops and from plain arithmetic."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from habana_tf.card.model.kernels import cut
from habana_tf.card.model.roles import Roles, roles
from tests.child import on_hpu

ROWS, COLUMNS = 48, 32


def found(step: Any) -> tuple[Roles, dict[str, Any]]:
    """The roles in a step's one cluster, and its inputs by name."""
    from habana_tf.tensorflow.dry_run.foreseen import foresee

    concrete = tf.function(step).get_concrete_function(tf.TensorSpec((16, ROWS)))
    (lowered,) = foresee(concrete).launches
    names = {arg.name: lowered.made[-1, k] for k, arg in enumerate(lowered.cluster.inputs)}
    return roles(lowered, cut(lowered.program, set(lowered.made.values()))), names


def variables() -> tuple[tf.Variable, tf.Variable]:
    return tf.Variable(tf.zeros((ROWS, COLUMNS)), name="w"), tf.Variable(tf.zeros((ROWS, COLUMNS)), name="m")


def gradient(x: Any, w: tf.Variable) -> Any:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
    return tape.gradient(loss, w)


@on_hpu
def test_an_update_op_names_its_arguments() -> None:
    w, m = variables()

    def step(x: Any) -> None:
        tf.raw_ops.ResourceApplyKerasMomentum(var=w.handle, accum=m.handle, lr=0.1, grad=gradient(x, w), momentum=0.9)

    who, _ = found(step)
    assert len(who.weights) == len(who.state) == 1 and not who.weights & who.state
    assert [n.shape for n in who.gradients] == [(ROWS, COLUMNS)]
    assert not {*who.gradients} & (who.weights | who.state)


@on_hpu
def test_in_plain_arithmetic_a_product_reads_the_weight() -> None:
    """Momentum as Keras writes it since 2.11: nothing but assignments."""
    w, m = variables()

    def step(x: Any) -> None:
        m.assign(m * 0.9 - gradient(x, w) * 0.1)
        w.assign_add(m)

    who, _ = found(step)
    assert len(who.weights) == len(who.state) == 1 and not who.gradients


@on_hpu
def test_a_function_without_variables_has_no_roles() -> None:
    who, names = found(lambda x: tf.tanh(x) * 2.0)
    assert not who.weights and not who.state and not who.gradients and names
