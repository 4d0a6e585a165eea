"""Gets the error that stock TensorFlow raises for arguments that a lowering refuses.

Scripts and tests match texts such as "Incompatible shapes: [2,3] vs. [2,2]", which differ from op to op and from
release to release. So nothing is copied here: the cluster is walked again up to the op that fails, and TensorFlow's own
CPU kernel is asked, with the op's attributes, shapes and the values that are known; its class and its text become ours.

    what the lowering says    AddV2 'model/add' on shapes [2, 3], [2, 2]: ...
    what the user reads       Incompatible shapes: [2,3] vs. [2,2]
                                     [[{{node model/add}}]]

Values that are not known at compile time are invented, all zeros and then all ones: only what TensorFlow says of both
is about shapes and attributes, and is passed on. Otherwise the lowering's own message stands. Only an error that is on
its way to the user comes here, so nothing that succeeds pays for it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from habana_tf.cluster.cluster import Cluster, InvalidArguments
from habana_tf.cluster.lower import ClusterLowering
from habana_tf.cluster.lowering_context import LoweringError
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.clusters.attributes import plain
from habana_tf.tensorflow.clusters.op import TensorFlowOp
from habana_tf.tensorflow.facts import opdefs

UNIMPLEMENTED = 12
"""TensorFlow's code: here an op that the release no longer has."""

MOST_BYTES = 1 << 30
"""Of invented inputs: pages of zeros that are not touched cost nothing, but a kernel that succeeds touches them."""

RANKS_FIRST = frozenset(["Conv2D", "Conv3D", "DepthwiseConv2dNative"])
"""Ops whose CPU kernel stops the whole process (a failed CHECK) on some arguments of a wrong rank: TensorFlow's shape
function is asked about those first."""

NOT_ASKED = frozenset(
    (
        "Conv2DBackpropInput Conv2DBackpropFilter Conv3DBackpropInputV2 Conv3DBackpropFilterV2 MaxPool3D "
        "DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter AvgPoolGrad AvgPool3DGrad ScatterNd "
        "TensorScatterAdd TensorScatterSub TensorScatterMin TensorScatterMax TensorScatterUpdate ResourceScatterNdAdd "
        "ResourceScatterNdSub ResourceScatterNdMin ResourceScatterNdMax ResourceScatterNdUpdate ResourceGather "
        "MatrixDiagV2 MatrixDiagV3 MatrixSetDiagV2 MatrixSetDiagV3 "
        "ResourceApplyAdamWithAmsgrad ResourceApplyAddSign ResourceApplyPowerSign XlaDynamicSlice XlaDynamicUpdateSlice"
    ).split()
)
"""Ops whose CPU kernel, in some release, stops the process on arguments of other kinds too, as 50,000 random arguments
for the ops of the table showed: only their shape function is asked."""


PRODUCTS = frozenset("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum".split())
"""Ops whose CPU kernel stops the process over a result of too many elements, which operands without elements may have:
not asked where an operand has an axis that is LONG."""
LONG = 1 << 31


_TAKES = (0, "")
"""What `_stock` says of arguments that TensorFlow takes."""


def refusal(
    cluster: Cluster, shapes: Sequence[Sequence[int]], values: Sequence[Any | None], launched: bool
) -> InvalidArguments | None:
    """The error to raise for a cluster whose lowering failed; None when it does not fail for these shapes and values,
    or fails otherwise than by refusing arguments.

    launched: the cluster is a launch of a graph, whose error must name the op in it as the user named it.
    """
    walk = ClusterLowering(cluster, shapes, values)
    for n in cluster.nodes:
        try:
            walk.step(n)
        except Exception as why:
            assert isinstance(n, TensorFlowOp)
            said = _stock(n, walk.inputs(n), walk)
            if said in (None, _TAKES) and not isinstance(why, LoweringError):
                return None
            code, text = said if said and said != _TAKES else (LoweringError.status_code, str(why))
            if launched:  # some kernels name their node in the text, and one that runs by itself is called as its op
                text = text.replace(f"operation {n.op} of type", f"operation {n.name} of type")
                text = text.replace(f"node name: {n.op}", f"node name: {n.name}")
                text += f"\n\t [[{{{{node {n.name}}}}}]]"
            return InvalidArguments(text, code, said == _TAKES)
    return None


def _stock(n: TensorFlowOp, inputs: Sequence[Node], walk: ClusterLowering) -> tuple[int, str] | None:
    """Stock TensorFlow's status and text for an op on inputs like these; None if it cannot tell."""
    from habana_tf.ir.constant_folding import constant

    if any(not isinstance(e, int) for x in inputs for e in x.shape):
        return None
    if sum(x.numel * x.dtype.bytes for x in inputs if isinstance(x.numel, int)) > MOST_BYTES:
        return None
    if n.op in PRODUCTS and any(isinstance(size, int) and size >= LONG for x in inputs for size in x.shape):
        return None
    known = [constant(x, walk.context.fixed) for x in inputs]
    if n.op in RANKS_FIRST or n.op in NOT_ASKED:
        text = _shape_function(n, inputs, known)
        if text and (n.op in NOT_ASKED or " rank " in text):
            return LoweringError.status_code, text
        if n.op in NOT_ASKED:
            return None
    for wide in (False, True):  # TensorFlow's CPU has no bfloat16 kernel of some ops
        if _has_kernel(n.proto, wide):
            said = [_kernel(n, inputs, known, fill, wide) for fill in (0, 1)]
            return (said[0] or _TAKES) if said[0] == said[1] else None
    return None


def _has_kernel(proto: Any, wide: bool) -> bool:
    """Whether the CPU has a kernel for the op. Otherwise TensorFlow would place the question where a kernel is: on HPU,
    whose answer it is."""
    known, instead = opdefs.known(proto.op), {DType.BF16.number: DType.F32.number} if wide else None
    return any(k.takes(known, proto, instead) for k in opdefs.kernels(proto.op, "CPU"))


def _type(dtype: DType, wide: bool) -> DType:
    return DType.F32 if wide and dtype is DType.BF16 else dtype


def _kernel(
    n: TensorFlowOp, inputs: Sequence[Node], known: Sequence[Any | None], fill: int, wide: bool
) -> tuple[int, str] | None:
    """What the CPU kernel says with unknown values all `fill`. wide: with float32 in the place of bfloat16."""
    import tensorflow as tf

    facts = opdefs.known(n.op)
    given: list[Any] = []
    with _on_cpu():
        try:
            for x, value, resource in zip(inputs, known, n.resources(), strict=True):
                dtype = _type(x.dtype, wide)
                shape = [e for e in x.shape if isinstance(e, int)]
                tensor = _filled(shape, dtype, fill) if value is None else _tensor(value.astype(dtype.numpy), dtype)
                given.append(_variable(tensor, dtype) if resource else tensor)
            _execute(n.op, len(facts.output_types(n.proto)), given, _attributes(n.proto, facts, wide))
        except tf.errors.OpError as error:
            if error.error_code == UNIMPLEMENTED and "not available in GraphDef version" in error.message:
                return None
            return error.error_code, _bare(error.message)
    return None


def _execute(op: str, outputs: int, inputs: Sequence[Any], attributes: Sequence[Any]) -> list[Any]:
    """Runs an op past tapes and callbacks."""
    from tensorflow.python.eager import context, execute

    out: list[Any] = execute.quick_execute(op, outputs, list(inputs), tuple(attributes), context.context())
    return out or []


@contextlib.contextmanager
def _on_cpu() -> Iterator[None]:
    """Ops of this thread run on the CPU and at once, even where the user's run asynchronously: their thread may be this
    one, so it is not waited for."""
    from tensorflow.python.eager import context, executor

    current = context.context()
    users = current.executor
    with context.device("/CPU:0"):
        current.executor = executor.new_executor(enable_async=False)
        try:
            yield
        finally:
            current.executor = users


def _tensor(array: Any, dtype: DType) -> Any:
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    current = context.context()
    return ops.EagerTensor(array, device=current.device_name, dtype=dtype.number)


def _filled(shape: list[int], dtype: DType, fill: int) -> Any:
    """One without elements may have sizes that NumPy does not take."""
    import numpy as np

    if 0 not in shape:
        return _tensor(np.full(shape, fill, dtype.numpy), dtype)
    sizes = _tensor(np.array(shape, np.int64), DType.I64)
    nothing = _tensor(np.zeros(0, dtype.numpy), dtype)
    return _execute("Reshape", 1, [nothing, sizes], ("T", dtype.number, "Tshape", DType.I64.number))[0]


def _variable(value: Any, dtype: DType) -> Any:
    """The handle of a nameless variable with this value, which lives as long as the handle."""
    from tensorflow.python.eager import context

    named = ("container", "", "shared_name", context.anonymous_name())
    shape = ("dtype", dtype.number, "shape", list(value.shape))
    (handle,) = _execute("VarHandleOp", 1, [], (*named, *shape))
    _execute("AssignVariableOp", 0, [handle, value], ("dtype", dtype.number))
    return handle


def _attributes(proto: Any, facts: opdefs.OpFacts, wide: bool) -> list[Any]:
    """Names and values as eager execution takes them."""

    def number(value: Any) -> Any:
        return _type(value, wide).number if isinstance(value, DType) else value

    out: list[Any] = []
    for name in facts.kinds:
        if name in proto.attr:
            value = plain(proto.attr[name])
            out += [name, list(map(number, value)) if isinstance(value, list) else number(value)]
    return out


def _shape_function(n: TensorFlowOp, inputs: Sequence[Node], known: Sequence[Any | None]) -> str:
    """What TensorFlow's shape function says, without the part that names its graph; nothing if it is content, or of a
    loop, an op that it does not know."""
    if n.is_loop:
        return ""
    import tensorflow as tf
    from tensorflow.core.framework import graph_pb2, node_def_pb2

    graph = graph_pb2.GraphDef()
    graph.versions.producer = tf.version.GRAPH_DEF_VERSION  # or a scalar's shape counts as unknown
    me = node_def_pb2.NodeDef(name="op", op=n.op)
    for key, value in n.proto.attr.items():
        if not key.startswith("_"):
            me.attr[key].CopyFrom(value)
    for k, (x, value, resource) in enumerate(zip(inputs, known, n.resources(), strict=True)):
        kind = "VarHandleOp" if resource else "Placeholder" if value is None else "Const"
        node = graph.node.add(name=f"x{k}", op=kind)
        node.attr["dtype"].type = x.dtype.number
        if value is not None and not resource:
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value.astype(x.dtype.numpy), x.dtype.number))
        else:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(list(x.shape)).as_proto())
        me.input.append(node.name)
    graph.node.append(me)
    with tf.Graph().as_default():
        try:
            tf.import_graph_def(graph, name="")
        except ValueError as why:
            return str(why).partition(" for '{{node")[0]
    return ""


def _bare(message: str) -> str:
    """Without what eager execution adds around a kernel's text, and adds around ours too."""
    message = re.sub(r"^(\{\{function_node [^}]*\}\} ?)+", "", message)
    return re.sub(r" ?\[Op:\w+\]( name: .*)?$", "", message).rstrip()
