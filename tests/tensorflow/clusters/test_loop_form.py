"""What the results of a loop follow from."""

from __future__ import annotations

from habana_tf.tensorflow.clusters.loop_form import LoopForm, LoopSlot


def test_a_counter_follows_from_counters_alone() -> None:
    """i < n; i + 1, x * w, list[i] = x"""
    slots = [
        LoopSlot("value"),
        LoopSlot("same", fixed=True),
        LoopSlot("value"),
        LoopSlot("same"),
        LoopSlot("set"),
    ]
    form = LoopForm(slots, order=[0, 2, 3, 1, 4], results=[0, 2, 4])
    assert form.inner() == [0, 1, 2, 3]
    i, n, x, w = ((-1, k) for k in range(4))
    sources = [(i, n), (i,), (x, w)]  # less, add, mul
    outputs = [(0, 0), (1, 0), (2, 0), i, x]
    assert form.left(outputs) == {0: [(1, 0)], 2: [(2, 0)], 4: [i, x]}
    counter, product, listed = form.origins(sources, outputs)
    assert counter == ({0, 3}, {0, 1})
    assert product == ({0, 1, 2, 3}, {0, 1, 2})
    assert listed == ({0, 1, 2, 3, 4}, {0, 1, 2})


def test_a_condition_on_data_decides_all_results() -> None:
    """x > 0; i + 1, x / 2"""
    form = LoopForm([LoopSlot("value"), LoopSlot("value")], order=[0, 1], results=[0])
    (counter,) = form.origins([((-1, 1),), ((-1, 0),), ((-1, 1),)], [(0, 0), (1, 0), (2, 0)])
    assert counter == ({0, 1}, {0, 1, 2})
