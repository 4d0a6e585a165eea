"""Moves ops on variables for which HPU has no arithmetic to the CPU, where they work on copies of the variables.

What: the op takes anonymous variables of the CPU, which are assigned the values before and read afterwards.
`variables.py` assigns the results to the variables, as for an op that HPU computes.

Why: the variables are on HPU, and an op must be where its variables are, but HPU has no arithmetic for its element
type. An op that stays is computed through TensorFlow's eager context (`kernels/plugin/variables.cc`), which has no
access to the variables of a TF1 session. In a function, whose variables belong to that context, an op that updates
them stays (`in_one_step`): its kernel locks them (`kernels/plugin/updated_variables.h`).

Invariants: an anonymous variable belongs to one run of its node and is freed with its last handle. It is made after its
value, so that it is in the loop and the branch of the op.

    v ─ ResourceApplyPowerSign(v, m, g)     ->   value ─ AssignVariableOp ··> ResourceApplyPowerSign ··> ReadVariableOp
                                                          copy ┘                 copies ┘     └ g            copy ┘
"""

from __future__ import annotations

from habana_tf.tensorflow.facts.opdefs import ANONYMOUS, variable_type_of
from habana_tf.tensorflow.graph.frames import Flow
from habana_tf.tensorflow.graph.ops import RESOURCE, device_type, facts, has_kernel, input_types, on_cpu, output_types
from habana_tf.tensorflow.graph.variable_handles import Handles
from habana_tf.tensorflow.graph.view import Node, Ref, View


def possible(node: Node, taken: Handles) -> bool:
    """Whether an op on HPU has to run aside and can: the CPU has a kernel, and every resource it takes is a variable
    that is known."""
    if device_type(node.device) != "HPU" or facts(node.op) is None or None in taken.values():
        return False
    if len(set(taken.values())) < len(taken):
        return False
    resources = {k for k, tf_type in enumerate(input_types(node)) if tf_type == RESOURCE}
    if resources != set(taken) or RESOURCE in output_types(node):
        return False
    return has_kernel(node, "HPU") and has_kernel(node, "CPU")


def in_one_step(node: Node, taken: Handles) -> bool:
    """Whether an op on HPU that updates variables does so in one step where it stands, as in TensorFlow: they are
    arguments of a function, and its kernel can lock them."""
    arguments = all(key is not None and key[0] != "VarHandleOp" for key in taken.values())
    return arguments and not reads_only(node)


def reads_only(node: Node) -> bool:
    """Whether an op leaves its variables as they are."""
    return node.op.startswith("ResourceGather")


def compute(view: View, flow: Flow, node: Node, values: dict[int, Ref]) -> tuple[Node, dict[int, Ref]]:
    """Adds the op on the CPU; returns it and what its variables hold afterwards, by input position.

    values: what the variables hold, by input position.
    """
    device = on_cpu(node.device)
    cls = flow.classes[node]
    dtype = variable_type_of(node.proto)

    def add(name: str, op: str, inputs: list[Ref], controls: list[Node]) -> Node:
        made = view.add(f"{node.name}/{name}", op, device, inputs, dtype=dtype)
        made.controls = controls
        flow.classes[made] = cls
        return made

    inner = view.add(f"{node.name}/compute", node.op, device, node.inputs, node.proto)
    inner.proto.attr.pop("_class", None)  # it stands beside no variable any more
    inner.controls = list(node.controls)
    flow.classes[inner] = cls
    after: dict[int, Ref] = {}
    for k, value in values.items():
        copy = add("copy", "VarHandleOp", [], [value[0]])
        copy.proto.attr["shared_name"].s = ANONYMOUS.encode()
        copy.proto.attr["shape"].shape.unknown_rank = True
        inner.inputs[k] = (copy, 0)
        inner.add_control(add("fill", "AssignVariableOp", [(copy, 0), value], []))
        after[k] = (add("after", "ReadVariableOp", [(copy, 0)], [inner]), 0)
    return inner, after
