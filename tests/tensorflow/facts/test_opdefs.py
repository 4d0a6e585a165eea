"""What TensorFlow says of an op."""

from __future__ import annotations

from typing import Any

import pytest
from tensorflow.core.framework import node_def_pb2

from habana_tf.tensorflow.facts import opdefs
from tests.child import on_hpu

F32, F64, BF16, I32, I64 = 1, 2, 14, 3, 9


def node(op: str, **types: int) -> Any:
    made = node_def_pb2.NodeDef(name="n", op=op)
    for name, dtype in types.items():
        made.attr[name].type = dtype
    return made


def test_an_attribute_that_a_node_lacks_has_the_default_of_its_op() -> None:
    """As in a SavedModel, which leaves them out."""
    argmax = node("ArgMax", T=F32)
    facts = opdefs.known("ArgMax")
    assert facts.input_types(argmax) == [F32, I32]
    assert facts.output_types(argmax) == [I64]
    with pytest.raises(KeyError, match="ArgMax 'n' has no attribute 'T'"):
        facts.input_types(node("ArgMax"))


def test_an_argument_may_be_several_tensors() -> None:
    pack = node("ConcatV2", T=F32)
    pack.attr["N"].i = 3
    facts = opdefs.known("ConcatV2")
    assert facts.input_slices(pack) == {"values": slice(0, 3), "axis": slice(3, 4)}
    assert facts.input_names(pack) == ["values"] * 3 + ["axis"]
    assert facts.input_types(pack) == [F32, F32, F32, I32]
    many = node("IdentityN")
    many.attr["T"].list.type.extend([F32, I64])
    facts = opdefs.known("IdentityN")
    assert (facts.output_names(many), facts.output_types(many)) == (["output"] * 2, [F32, I64])


def test_an_op_that_tensorflow_does_not_know() -> None:
    assert opdefs.facts("NoSuchOp") is None
    with pytest.raises(KeyError, match=r"TensorFlow 2\..* has no op NoSuchOp"):
        opdefs.known("NoSuchOp")


def test_a_kernel_may_be_for_one_layout_only() -> None:
    facts = opdefs.known("SpaceToDepth")
    found = opdefs.kernels("SpaceToDepth", "CPU")

    def takes(layout: bytes) -> bool:
        made = node("SpaceToDepth", T=F32)
        made.attr["data_format"].s = layout
        return any(k.takes(facts, made) for k in found)

    assert takes(b"NHWC")
    assert not takes(b"NCHW")


def test_a_kernel_may_be_asked_about_other_types_than_a_node_has() -> None:
    """TensorFlow's CPU has no bfloat16 kernel of some ops."""
    (kernel,) = (k for k in opdefs.kernels("MatrixDeterminant", "CPU") if dict(k.types)["T"] == {F32})
    facts, narrow = opdefs.known("MatrixDeterminant"), node("MatrixDeterminant", T=BF16)
    assert not kernel.takes(facts, narrow)
    assert kernel.takes(facts, narrow, {BF16: F32})


def test_the_type_of_variables() -> None:
    """The state of a generator is int64 whatever it draws."""
    assert opdefs.variable_type("RngReadAndSkip", {}) == I64
    assert opdefs.variable_type("StatefulUniform", {"dtype": F32}) == I64
    assert opdefs.variable_type("ResourceApplyAdam", {"T": F32}) == F32
    assert opdefs.variable_type("ResourceGather", {"dtype": F64}) == F64
    with pytest.raises(KeyError, match="no attribute tells"):
        opdefs.variable_type("ReadVariableOp", {})


def test_opdefs_and_kernels_are_read_in_one_module() -> None:
    from pathlib import Path

    package = Path(opdefs.__file__).parents[2]
    words = ("op_def_registry", "get_registered_kernels", "get_all_registered_kernels")
    found = {str(p.relative_to(package)) for p in package.rglob("*.py") if any(w in p.read_text() for w in words)}
    assert found == {"tensorflow/facts/opdefs.py"}


@on_hpu
def test_what_was_told_when_hpu_was_loaded_is_what_tensorflow_says() -> None:
    theirs: dict[str, list[Any]] = {}
    for kernel in opdefs.all_kernels():
        theirs.setdefault(kernel.op, []).append(kernel)
    assert len(opdefs._told) > 1000
    for op in opdefs._told:
        for device in ("HPU", "CPU", "GPU", "DEFAULT"):
            want = [opdefs.kernel(k) for k in theirs[op] if k.device_type == device and not k.label]
            assert sorted(map(repr, opdefs.kernels(op, device))) == sorted(map(repr, want)), (op, device)


@on_hpu
def test_what_is_forgotten_is_asked_for_again() -> None:
    told = opdefs.kernels("MatMul", "HPU")
    opdefs.forget("MatMul")
    assert "MatMul" not in opdefs._told
    assert set(opdefs.kernels("MatMul", "HPU")) == set(told)
