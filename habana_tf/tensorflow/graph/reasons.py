"""Why a node is not in a cluster: one enum, counted in every report, and what to do about it."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """The value is the sentence shown to people."""

    NO_ROW = "HPU has no such op"
    DTYPE = "HPU has this op, but not for this element type"
    STRING = "works on strings"
    RESOURCE = "works on a resource that is not a variable"
    VARIANT = "works on variants (lists, optionals, datasets)"
    CONTROL_FLOW = "control flow"
    LOOP_BY_DATA = "a loop whose end depends on what its iterations compute"
    LOOP_BRANCH = "a loop with branches or another loop in it"
    LOOP_EFFECT = "a loop with variables, random numbers or effects in it"
    LOOP_LIST = "a loop with a list that cannot be one tensor"
    LOOP_SHAPE = "a loop in which a tensor may change its shape"
    LOOP_LENGTH = "a loop whose length may differ from call to call, or is very large"
    LOOP_OP = "a loop with an op that HPU has not, or not on this device"
    CALL = "calls a function, which is placed by itself"
    SIDE_EFFECT = "has an effect outside the graph"
    UNKNOWN = "TensorFlow does not know this op"
    PLACED_ON_CPU = "placed on the CPU by the program or by TensorFlow's placer"
    TYPE_OR_PROGRAM = "HPU has this op: it met another element type, or the program put it on the CPU"
    BY_VALUE = "each value of an input would need a recipe of its own: after some, the CPU runs others"
    SETTING = "kept on the CPU by TF_PLACE_ON_CPU"
    CORE_REWRITE = "made by a TensorFlow optimizer after placement; no HPU kernel"
    FOR_THE_HOST = "a small value that only the host needs"
    ORDER = "its variable is also used by an op outside the cluster in an order that must be kept"
    TRIVIAL = "not worth a launch by itself"
    PRESERVED = "TensorFlow asks for several of its outputs by name"
    FUEL = "HABANA_SIM_CLUSTER_FUEL is used up"
    UNREADABLE = "makes a cluster that cannot be read; a defect worth reporting"


_HOST = "nothing, where the work is small: it belongs to the host"
_LOOP = "a loop of fixed length, of ops that HPU has and without branches, runs inside one launch"

REMEDIES: dict[Reason, str] = {
    Reason.NO_ROW: "write it with ops that HPU has (`habana-tf ops`), or bring a kernel (habana_tf.custom_op)",
    Reason.DTYPE: "cast to a type that HPU has for it: `habana-tf ops NAME` lists them",
    Reason.STRING: "work on strings in the input pipeline (tf.data), before the step",
    Reason.RESOURCE: "nothing for an iterator; tables belong into the input pipeline (tf.data)",
    Reason.VARIANT: "nothing for the lists of a loop; datasets and optionals belong outside the step",
    Reason.CONTROL_FLOW: "tf.where instead of tf.cond, where both branches may be computed; of a loop, see LoopCond",
    Reason.LOOP_BY_DATA: "a fixed number of iterations, with tf.where for those that are too many",
    Reason.LOOP_BRANCH: "tf.where inside the loop instead of branches",
    Reason.LOOP_EFFECT: "make random numbers and read variables before the loop",
    Reason.LOOP_LIST: "one tensor with a time axis instead of the list",
    Reason.LOOP_SHAPE: "pad the tensor to its largest shape",
    Reason.LOOP_LENGTH: _LOOP,
    Reason.LOOP_OP: _LOOP,
    Reason.CALL: "nothing: the called function has its own line",
    Reason.SIDE_EFFECT: "keep tf.print, assertions, tf.py_function and the like out of the step",
    Reason.UNKNOWN: "load the library that defines it (habana_tf.load_op_library)",
    Reason.PLACED_ON_CPU: "take the op out of tf.device('/CPU:0'), or out of a function that is traced under it",
    Reason.TYPE_OR_PROGRAM: "use a type of `habana-tf ops NAME`, or take the op out of tf.device('/CPU:0')",
    Reason.BY_VALUE: "make the value that fixes a shape the same in every call",
    Reason.SETTING: "unset TF_PLACE_ON_CPU",
    Reason.CORE_REWRITE: "nothing: a few small ops; many of one kind are worth reporting",
    Reason.FOR_THE_HOST: _HOST,
    Reason.ORDER: "read or assign the variable once in a step, not before and after other ops on it",
    Reason.TRIVIAL: "nothing: it costs less than a launch",
    Reason.PRESERVED: "fetch one of its outputs through tf.identity",
    Reason.FUEL: "unset HABANA_SIM_CLUSTER_FUEL",
    Reason.UNREADABLE: "report it with the warning that names its nodes",
}
"""What to do about each reason, in one line."""
