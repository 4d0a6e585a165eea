from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from habana_tf.tensorflow.graph import placement, tensor_lists
from habana_tf.tensorflow.graph.ops import device_type
from habana_tf.tensorflow.graph.view import View
from tests.tensorflow.graph.harness import build, inputs, v1, view


def stayed(make: Callable[[], object], cpu: tuple[str, ...] = (), preserve: tuple[str, ...] = ()) -> View:
    v = view(build(make, cpu), preserve)
    tensor_lists.stay(v, placement.place(v))
    v.topological()
    return v


def reserve(name: str, dtype: tf.DType = tf.float32) -> tf.Tensor:
    return tf.raw_ops.TensorListReserve(element_shape=[2], num_elements=3, element_dtype=dtype, name=name)


def single(item: tf.Tensor, index: tf.Tensor, name: str) -> tf.Tensor:
    empty = reserve(f"{name}/empty", item.dtype)
    return tf.raw_ops.TensorListSetItem(input_handle=empty, index=index, item=item, name=name)


def sums(dtype: tf.DType = tf.float32) -> None:
    total, item = reserve("total", dtype), v1.placeholder(dtype, (2,), "item")
    i, j = v1.placeholder(tf.int32, (), "i"), v1.placeholder(tf.int32, (), "j")
    tf.identity(tf.raw_ops.AddN(inputs=[single(item, i, "a"), total, single(item, j, "b")], name="sum"), "y")


def test_an_element_is_added_where_it_stands() -> None:
    v = stayed(sums, cpu=("AddN",))
    assert "sum" not in v.by_name
    assert inputs(v.by_name["a/old"]) == ["total", "i", "a/empty/element_shape"]
    assert inputs(v.by_name["a/add"]) == ["a/old", "item"]
    assert inputs(v.by_name["a"]) == ["total", "i", "a/add"]
    assert inputs(v.by_name["b/old"]) == ["a", "j", "b/empty/element_shape"]
    assert inputs(v.by_name["b"]) == ["a", "j", "b/add"]
    assert inputs(v.by_name["y"]) == ["b"]
    assert {device_type(v.by_name[n].device) for n in ("a/old", "a/add", "a")} == {"HPU"}


def test_sums_of_whole_lists_stay() -> None:
    def make() -> None:
        tf.identity(tf.raw_ops.AddN(inputs=[reserve("a"), reserve("b")], name="sum"), "y")

    assert inputs(stayed(make, cpu=("AddN",)).by_name["sum"]) == ["a", "b"]


def test_sums_of_other_types_and_sums_with_a_fixed_name_stay() -> None:
    v = stayed(lambda: sums(tf.float64), cpu=("AddN",))
    assert inputs(v.by_name["sum"]) == ["a", "total", "b"]
    v = stayed(sums, cpu=("AddN",), preserve=("sum",))
    assert inputs(v.by_name["sum"]) == ["a", "total", "b"]


def test_an_element_that_others_read_stays() -> None:
    def make() -> None:
        total, item, i = reserve("total"), v1.placeholder(tf.float32, (2,), "item"), v1.placeholder(tf.int32, (), "i")
        a = single(item, i, "a")
        tf.identity(tf.raw_ops.AddN(inputs=[total, a], name="sum"), "y")
        tf.raw_ops.TensorListStack(input_handle=a, element_shape=[2], element_dtype=tf.float32, name="other")

    assert inputs(stayed(make, cpu=("AddN",)).by_name["sum"]) == ["total", "a"]


def loop(dtype: tf.DType) -> None:
    """A loop that takes elements from the end of a list."""
    x = v1.placeholder(dtype, (3, 2), "x")
    full = tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[2], name="full")

    def body(i: tf.Tensor, rest: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rest, item = tf.raw_ops.TensorListPopBack(input_handle=rest, element_shape=[2], element_dtype=dtype, name="pop")
        with tf.control_dependencies([item]):
            return i + 1, tf.identity(rest)

    v1.while_loop(lambda i, rest: i < 3, body, [0, full], name="w")


def test_a_list_without_a_kernel_is_on_the_cpu_as_a_whole() -> None:
    v = stayed(lambda: loop(tf.bool), cpu=("full", "w/pop"))
    chain = ["full", "w/Enter_1", "w/Merge_1", "w/Switch_1", "w/Identity_1", "w/pop", "w/NextIteration_1", "w/Exit_1"]
    assert {device_type(v.by_name[n].device) for n in chain} == {"CPU"}
    shape = v.by_name["w/pop"].inputs[1][0]  # the constant went along, held in the loop by the list
    assert device_type(shape.device) == "CPU" and [c.name for c in shape.controls] == ["w/Identity_1"]
    assert device_type(v.by_name["w/Merge"].device) == "HPU"


def test_other_lists_stay_on_hpu() -> None:
    v = stayed(lambda: loop(tf.float32))
    assert {device_type(n.device) for n in v.alive()} == {"HPU"}
