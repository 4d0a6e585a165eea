"""Why a node is not in a cluster: one enum, counted in every report."""

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
