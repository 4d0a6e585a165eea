"""Lowerings for ops of TensorFlow's own, definitions that change, and definitions that are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from habana_tf.custom import ALL, FLOATS, CustomOpError, custom_op, op, wrap
from habana_tf.ir.dtypes import DType
from tests.child import on_hpu, python
from tests.custom.defined_ops import min_max
from tests.custom.launched import kernels


@custom_op("TridiagonalMatMul", T=FLOATS)
def tridiagonal(c: Any) -> Any:
    """An op of TensorFlow's that HPU has not."""
    above, main, below, x = (wrap(c.b, n) for n in c.inputs)
    rows = x.node.shape[-2]
    lead, none = [0] * (x.node.rank - 2), [0] * x.node.rank

    def shifted(by: int) -> Any:
        size = [*x.node.shape[:-2], rows - 1, x.node.shape[-1]]
        part = c.b.slice(x.node, [*lead, int(by > 0), 0], size)
        return wrap(c.b, c.b.pad(part, [*lead, int(by < 0), 0], [*lead, int(by > 0), 0])) if none else part

    def column(d: Any) -> Any:
        return wrap(c.b, c.b.permute(d.node, [*range(d.node.rank - 2), d.node.rank - 1, d.node.rank - 2]))

    return (column(above) * shifted(1) + column(main) * x + column(below) * shifted(-1)).done(c.inputs[3].dtype)


@on_hpu
def test_an_op_of_tensorflow_that_hpu_has_not_joins_clusters() -> None:
    rng = np.random.default_rng(0)
    above, main, below = (tf.constant(rng.normal(size=(2, 1, 5)).astype("f4")) for _ in range(3))
    x = tf.constant(rng.normal(size=(2, 5, 3)).astype("f4"))

    @tf.function
    def f(x: Any) -> Any:
        return tf.exp(
            tf.linalg.tridiagonal_matmul((above[:, 0], main[:, 0], below[:, 0]), x * 2.0, diagonals_format="sequence")
        )

    with tf.device("/CPU:0"):
        exact = tf.exp(
            tf.linalg.tridiagonal_matmul((above[:, 0], main[:, 0], below[:, 0]), x * 2.0, diagonals_format="sequence")
        )
    np.testing.assert_allclose(f(x), exact, rtol=1e-5)
    from habana_tf import placement_report

    record = placement_report().graphs[-1]
    assert len(record.launches) == 1 and not record.refused
    named = {"superdiag": above, "maindiag": main, "subdiag": below, "rhs": x * 2.0}
    assert tridiagonal(**named).device.endswith("HPU:0")


@on_hpu
def test_an_op_that_ran_on_the_cpu_before_it_got_a_lowering_runs_on_hpu_from_then_on() -> None:
    a, b = tf.constant([[1.0, 2.0, 3.0]]), tf.constant([[4.0, 5.0, 6.0]])
    f = tf.function(lambda a, b: tf.raw_ops.Cross(a=a, b=b) + 0.0)
    for out in (f(a, b), tf.raw_ops.Cross(a=a, b=b)):
        np.testing.assert_array_equal(out, np.cross(a, b))

    @custom_op("Cross", T=FLOATS[:1])
    def marked(c: Any) -> Any:
        return (wrap(c.b, c.inputs[0]) * 0 + 42.0).done(c.inputs[0].dtype)

    for out in (f(a, b), tf.raw_ops.Cross(a=a, b=b)):
        np.testing.assert_array_equal(out, [[42, 42, 42]])


def test_what_cannot_be_loaded_may_be_defined_otherwise() -> None:
    script = """
        import habana_tf
        from habana_tf.custom import custom_op, wrap, CustomOpError, FLOATS

        def twice(c):
            return (wrap(c.b, c.inputs[0]) * 2.0).done(c.inputs[0].dtype)

        custom_op("TestNoOp", T=FLOATS)(twice)
        try:
            habana_tf.load_habana_module()
        except CustomOpError as why:
            assert "TensorFlow has no op of this name" in str(why), why
        made = custom_op("TestNoOp", inputs="x: T", outputs="y: T", T=FLOATS)(twice)
        habana_tf.load_habana_module()
        print(made([1.0]).numpy().tolist())
    """
    assert python(script, imported=True).stdout.strip() == "[2.0]"


@on_hpu
def test_a_lowering_in_the_place_of_ours_is_for_the_types_it_names() -> None:
    @custom_op("Softplus", T=FLOATS[:1], elementwise=True)
    def softplus(c: Any) -> Any:
        return (wrap(c.b, c.inputs[0]) * 0 + 42.0).done(c.inputs[0].dtype)

    x = tf.constant([1.0, 2.0])
    assert tf.nn.softplus(x).numpy().tolist() == [42, 42]
    assert tf.function(lambda x: tf.nn.softplus(x) + 1)(x).numpy().tolist() == [43, 43]
    assert abs(float(tf.nn.softplus(tf.cast(x, tf.bfloat16))[0]) - 1.313) < 0.01
    with pytest.raises(CustomOpError, match="not \\['int32'\\]"):
        custom_op("Softplus", T=(DType.I32,))(lambda c: c.inputs[0])
    with pytest.raises(CustomOpError, match="leave out fixed="):
        custom_op("Sum", fixed=["reduction_indices"])(lambda c: c.inputs[0])


@on_hpu
def test_defined_again_nothing_of_the_old_lowering_runs() -> None:
    def define(factor: float) -> Any:
        @custom_op("TestAgain", inputs="x: T", outputs="y: T", T=FLOATS, shapes="x")
        def again(c: Any) -> Any:
            return (wrap(c.b, c.inputs[0]) * factor).done(c.inputs[0].dtype)

        return again

    x = tf.constant([1.0, 2.0])
    again = define(2.0)
    f = tf.function(lambda x: again(x) + 1.0)
    loop = tf.function(lambda x: tf.while_loop(lambda k, _: k < 2, lambda k, x: (k + 1, again(x) + 1.0), (0, x))[1])
    assert f(x).numpy().tolist() == [3, 5] and again(x).numpy().tolist() == [2, 4]
    assert loop(x).numpy().tolist() == [7, 11]
    assert any(k.get("times") == 2 for k in kernels()), "the loop runs in a launch"
    newer = define(10.0)
    assert f(x).numpy().tolist() == [11, 21] and newer(x).numpy().tolist() == [10, 20]
    assert loop(x).numpy().tolist() == [111, 211]
    assert define(2.0)(x).numpy().tolist() == [2, 4] and f(x).numpy().tolist() == [3, 5]
    with pytest.raises(CustomOpError, match="takes or gives something else"):
        custom_op("TestAgain", inputs="x: T, z: T", outputs="y: T", T=FLOATS)(lambda c: c.inputs[0])
    with pytest.raises(CustomOpError, match="other shapes="):
        custom_op("TestAgain", inputs="x: T", outputs="y: T", T=FLOATS, shapes="x[1:]")(lambda c: c.inputs[0])


@on_hpu
def test_a_session_that_ran_takes_the_new_lowering() -> None:
    def define(factor: float) -> Any:
        @custom_op("TestSession", inputs="x: T", outputs="y: T", T=FLOATS, shapes="x")
        def op(c: Any) -> Any:
            return (wrap(c.b, c.inputs[0]) * factor).done(c.inputs[0].dtype)

        return op

    first = define(2.0)
    with tf.Graph().as_default() as graph, tf.device("/HPU:0"):
        x = tf.compat.v1.placeholder(tf.float32, [2])
        y = first(x) + 1.0
        with tf.compat.v1.Session(graph=graph) as session:
            assert session.run(y, {x: [1, 2]}).tolist() == [3, 5]
            define(5.0)
            assert session.run(y, {x: [1, 2]}).tolist() == [6, 11]


@on_hpu
def test_what_a_lowering_does_wrong_is_said_with_op_and_line() -> None:
    def define(name: str, lower: Any, shapes: str | None = None) -> Any:
        return custom_op(name, inputs="x: T", outputs="y: T", T=ALL, shapes=shapes)(lower)

    def raises(c: Any) -> Any:
        return c.inputs[0].no_such_thing

    cases = [
        (raises, None, "AttributeError.*no_such_thing.*test_op_definitions.py:"),
        (lambda c: c.b.reshape(c.inputs[0], (7,)), None, "not as many elements.*test_op_definitions.py:"),
        (lambda c: wrap(c.b, c.inputs[0]), None, "gave a Term where a node is due; end a formula"),
        (lambda c: [c.inputs[0]] * 2, None, "gave 2 nodes, and the op has 1"),
        (lambda c: c.b.cast(c.inputs[0], FLOATS[1]), None, "output 0 as bfloat16, and the op says float32"),
        (lambda c: c.inputs[0], "x[1:]", r"the shape \[2, 2\], and shapes= says \[2\]"),
        (lambda c: c.inputs[0], "x[3]", "declared shapes name axis 3"),
    ]
    for k, (lower, shapes, says) in enumerate(cases):
        wrong = define(f"TestWrong{k}", lower, shapes)
        for call in (wrong, tf.function(lambda x, wrong=wrong: tf.exp(wrong(x) * 2.0))):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s)TestWrong{k}.*{says}"):
                call(tf.ones([2, 2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"TestMinMax.*it has no axis"):
        min_max(tf.constant(1.0))


@on_hpu
def test_what_cannot_be_defined() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"op": "MatMul", "inputs": "x: T", "outputs": "y: T", "T": FLOATS}, "TensorFlow has an op of this name"),
        ({"op": "NoSuchOpAtAll"}, "TensorFlow has no op of this name"),
        ({"op": "TestHalf", "inputs": "x: T", "T": FLOATS}, "go together"),
        ({"op": "TestList", "inputs": "x: T", "outputs": "y: T", "T": FLOATS, "bf16": "always"}, "is not a list"),
        ({"op": "TestFixed", "inputs": "x: T", "outputs": "y: T", "T": FLOATS, "fixed": ["z"]}, "not inputs"),
        ({"op": "Cross", "U": FLOATS}, "no type attributes"),
        ({"op": "Cross", "T": FLOATS, "shapes": "a"}, "those of a new op"),
        ({"op": "VarHandleOp"}, "has a state"),
    ]
    for arguments, says in cases:
        with pytest.raises(CustomOpError, match=says):
            custom_op(**arguments)(lambda c: c.inputs[0])
    with pytest.raises(CustomOpError, match="is not a function"):
        custom_op("TestNothing", inputs="x: T", outputs="y: T", T=FLOATS)(3)
    assert not {"TestHalf", "TestList", "TestFixed", "TestNothing"} & op._DEFINED.keys()
