"""What native code asks of Python: kernels to register, plans for ops on variables, clusters of one."""

from __future__ import annotations

from typing import Any

import pytest

from habana_tf import runtime_hooks as hooks
from habana_tf.tensorflow.clusters.cluster import parse
from habana_tf.tensorflow.facts import opdefs, registered

F32, F64, I32, I64 = 1, 2, 3, 9


@pytest.fixture(scope="module")
def registrations() -> list[tuple[str, dict[str, int], list[str], str]]:
    return [(op, dict(types), host, kind) for op, types, host, kind in hooks.registrations()]


def node(op: str, inputs: int = 2, **types: int) -> bytes:
    from tensorflow.core.framework import node_def_pb2

    proto: Any = node_def_pb2.NodeDef(name="it", op=op, input=[f"i{k}" for k in range(inputs)])
    for name, dtype in types.items():
        proto.attr[name].type = dtype
    return bytes(proto.SerializeToString())


def test_no_two_kernels_match_the_same_node(registrations: Any) -> None:
    """What stands in may: its priority is lower."""
    by_op: dict[tuple[str, bool], list[dict[str, int]]] = {}
    for op, types, _, kind in registrations:
        others = by_op.setdefault((op, kind == "stock"), [])
        for other in others:
            assert any(other[k] != v for k, v in types.items() if k in other), (op, types, other)
        others.append(types)


def test_arithmetic_is_registered_and_may_run_in_place(registrations: Any) -> None:
    """Ring collectives run these with their output on an input."""
    for name in ("AddV2", "Add", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "Sub"):
        assert any(op == name and types["T"] == F32 and kind == "in_place" for op, types, _, kind in registrations), (
            name
        )


def test_every_op_on_variables_with_a_cpu_kernel_has_one_for_hpu_or_any_device(registrations: Any) -> None:
    from tensorflow.python.framework import kernels as registry

    have = {op for op, *_ in registrations}
    kernels = registered._Kernels(registry.get_all_registered_kernels().kernel, frozenset())
    for op in kernels.variable_ops():
        for types in kernels.cpu_types(op):
            assert op in have or kernels.has_default(op, types), (op, types)


def test_handles_of_variables_are_in_host_memory(registrations: Any) -> None:
    from tensorflow.python.framework import op_def_registry

    for op, _, host, kind in registrations:
        handles = {arg.name for arg in op_def_registry.get(op).input_arg if arg.type == opdefs.RESOURCE}
        if kind != "stock":
            assert handles <= set(host), op
            assert (kind == "variable") == bool(handles), op


def test_what_tensorflow_does_on_any_device_is_left_to_it(registrations: Any) -> None:
    have = {(op, types.get("T") or types.get("dtype")) for op, types, *_ in registrations}
    assert not {("Reshape", F32), ("Identity", F32), ("AssignAddVariableOp", F32), ("AddV2", I32)} & have


def test_an_op_with_a_lowering_is_planned_as_dataflow() -> None:
    kind, dtype, info, assigns, results = hooks.variable_plan(
        node("ResourceScatterAdd", 3, dtype=F32, Tindices=I32)
    )  # resource, indices, updates
    assert (kind, dtype) == ("dataflow", F32)
    assert assigns == [(0, 0)]
    assert results == []
    _, order, _, _ = info
    assert sorted(order) == [0, 1, 2]
    assert order[-1] == 1  # int32 indices are the host argument, and host arguments come last


def test_an_element_type_without_a_lowering_is_planned_as_stock() -> None:
    kind, dtype, op, reads_only, attrs = hooks.variable_plan(node("ResourceScatterAdd", 3, dtype=F64, Tindices=I64))
    assert (kind, dtype, op, reads_only) == ("stock", F64, "ResourceScatterAdd", False)
    assert {name for name, _ in attrs} == {"dtype", "Tindices"}


def test_a_stock_gather_leaves_its_variable_alone() -> None:
    assert hooks.variable_plan(node("ResourceGather", 2, dtype=F64, Tindices=I64))[3] is True


def test_an_attribute_left_out_has_its_default_in_a_cluster_of_one() -> None:
    data, order, _, _ = hooks.node_info(node("ArgMax", 2, T=F32))  # no Tidx, no output_type
    assert order == [0, 1]
    assert [r.dtype.number for r in parse(data).results] == [I64]


def test_the_cluster_of_one_tells_where_its_inputs_come_from() -> None:
    _, order, fixed, seeds = hooks.node_info(node("Fill", 2, T=F32, index_type=I32))  # dims, value
    assert order == [1, 0]
    assert fixed == [1]
    assert seeds == []
