"""Eager ops of several threads: each gets its own inputs and answers."""

from __future__ import annotations

import pytest

from tests.child import on_hpu, python


@on_hpu
def test_an_eager_op_is_no_function() -> None:
    """Functions made of one op are where threads take each other's inputs."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    before = set(context.context().list_function_names())
    x = tf.constant([[1.0, 2.0], [3.0, 5.0]])
    tf.gather(x, [1, 0])
    tf.reduce_sum(x, 1)
    tf.identity(tf.constant([7], tf.int32))
    tf.linalg.inv(x)
    with tf.device("/CPU:0"):
        tf.tanh(x)
    assert set(context.context().list_function_names()) == before


def test_also_where_ops_ran_before_and_the_context_is_built_again() -> None:
    python(
        """
        import tensorflow as tf
        from tensorflow.python.eager import context
        tf.identity(tf.constant([1]))
        from habana_tf import load_habana_module
        load_habana_module()
        before = set(context.context().list_function_names())
        tf.gather(tf.constant([1.0, 2.0]), [1])
        assert set(context.context().list_function_names()) == before
        context._reset_context()
        assert tf.gather(tf.constant([1.0, 2.0]), [1]).device.endswith("HPU:0")
        assert not [n for n in context.context().list_function_names() if b"wrapped" in n]
        """,
        imported=True,
    )


def test_a_tensorflow_that_runs_ops_as_functions_only_is_an_error_that_says_what_to_do() -> None:
    done = python(
        """
        from tensorflow.python import pywrap_tfe
        del pywrap_tfe.TFE_ContextSetRunEagerOpAsFunction
        from habana_tf import loader
        try:
            loader.load_habana_module()
        except loader.LoadError as error:
            print(error)
        """,
        imported=True,
    )
    assert "threads take each other's inputs" in done.stdout and "pip install 'tensorflow>=2.15,<2.22'" in done.stdout


@on_hpu
def test_variables_are_updated_in_the_context_that_there_is() -> None:
    """Kernels that call TensorFlow know its context, which may be built again."""
    import tensorflow as tf
    from tensorflow.python.eager import context

    def update() -> list[float]:
        v = tf.Variable(tf.zeros([2], tf.float64))  # computed by the CPU on a copy
        v.scatter_add(tf.IndexedSlices(tf.ones([1], tf.float64), [1]))
        return v.numpy().tolist()

    for _ in range(3):
        assert update() == [0.0, 1.0] == update()
        context._reset_context()


@on_hpu
def test_every_answer_of_eight_threads_is_right() -> None:
    from tests.device.threads_soak import CASES, soak

    done, wrong = soak(CASES, 8, lambda rounds: rounds < 1)
    assert set(done.values()) == {8 * 40} and not +wrong, wrong


@on_hpu
def test_a_model_is_served_from_four_threads() -> None:
    from tests.device.threads_soak import serving, soak

    done, wrong = soak(serving(), 4, lambda rounds: rounds < 1, calls=15)
    assert set(done.values()) == {4 * 15} and not +wrong, wrong


@on_hpu
def test_a_dataset_calls_python_from_four_threads() -> None:
    from tests.device.threads_soak import DATASET, soak

    done, wrong = soak({"dataset": DATASET}, 2, lambda rounds: rounds < 1)
    assert done == {"dataset": 2 * 40} and not +wrong, wrong


@pytest.mark.rest
@pytest.mark.slow
@on_hpu
def test_many_answers_of_many_threads() -> None:
    from tests.device.threads_soak import CASES, DATASET, serving, soak

    done, wrong = soak({**CASES, **serving(), "dataset": DATASET}, 12, lambda rounds: rounds < 5, calls=10)
    assert set(done.values()) == {12 * 5 * 10} and not +wrong, wrong
