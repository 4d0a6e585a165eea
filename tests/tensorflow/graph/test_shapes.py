from __future__ import annotations

import tensorflow as tf

from habana_tf.tensorflow.graph.shapes import Shapes
from tests.tensorflow.graph.harness import Item, build, read, v1, variable, view


def test_tensorflow_answers_first_and_handles_tell_their_variables() -> None:
    def make() -> None:
        x = v1.placeholder(tf.float32, (None, 3), "x")
        tf.identity(x, "y")
        read(tf.identity(variable("v", (4, 5)), "handle"), "r")
        tf.constant([[1.0, 2.0]], name="c")

    v = view(build(make))
    item = Item(shapes={"x": [(-2, 3)], "r": [None], "s": [()]})
    shapes = Shapes(item)
    assert shapes.get((v.by_name["x"], 0)) == (-2, 3)
    assert shapes.get((v.by_name["y"], 0)) == (-2, 3)
    assert shapes.get((v.by_name["r"], 0)) == (4, 5)
    assert shapes.get((v.by_name["c"], 0)) == (1, 2)
    assert Shapes(Item(shapes={"x": [(-1, 3)]})).get((v.by_name["x"], 0)) is None
    assert Shapes(None).get((v.by_name["x"], 0)) is None


def test_what_a_rewrite_made_is_told() -> None:
    v = view(build(lambda: v1.placeholder(tf.float32, (), "x")))
    shapes = Shapes(Item())
    assert shapes.get((v.by_name["x"], 0)) is None
    shapes.know((v.by_name["x"], 0), ())
    assert shapes.get((v.by_name["x"], 0)) == ()
