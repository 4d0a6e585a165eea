"""Traces the update of a Keras 2 optimizer once, as a function that is called for every variable.

What: in a `tf.function` Keras adds the ops of an update, thirty for Adam, for each variable anew, which is most of the
time it takes to trace the step of a deep network. Here the update is traced once, aside, with placeholders for
a variable, its slots and its gradient. Ops that depend on none of these (the corrected learning rate) come into the
step once; the rest becomes a function that is called for every variable, and that TensorFlow inlines before HPU sees
the graph.

    Adam/Pow, Adam/Sqrt, ...                              once, of `iterations` and `learning_rate`
    read(variable, slots...)                              for each variable
    ... = update(what they hold, gradient, alpha)         inlined: mul, sub, sqrt, ...
    assign(variable, slots...)

The ops are Keras' own, in Keras' order, so the numbers are too. Variables are read and assigned outside the function:
if it did that, all of it would wait for whatever used them before. Each step that is traced traces its update anew:
nothing is kept that an attribute set later could outdate.

Left to Keras: optimizers whose `update_step` is none of `_KINDS`, which are elementwise and alike for all variables;
sparse gradients, eager steps, XLA, several replicas in one process, parameter servers, TF1's sessions. Whatever goes
wrong before the first value is assigned is logged for debugging, and left to Keras too. Keras 3 has optimizers of its
own.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from habana_tf.host_changes.change import Group
from habana_tf.tensorflow.changes.keras2.packages import ONLY, changes

_log = logging.getLogger("habana_tf")
_PACKAGES = ("keras.src.optimizers", "tf_keras.src.optimizers")
"""Keras 2, as TensorFlow 2.15 has it and as a package of its own."""
_KINDS = ("adadelta", "adagrad", "adam", "adamax", "adamw", "ftrl", "lion", "rmsprop", "sgd")
_UPDATES = frozenset(f"{package}.{kind}" for package in _PACKAGES for kind in _KINDS)
"""The modules of optimizers whose updates are elementwise and alike for all variables."""
_WRITES = {"AssignVariableOp": None, "AssignAddVariableOp": "AddV2", "AssignSubVariableOp": "Sub"}
"""Ops that change a variable, and the op that computes what it holds then."""


class _Present(threading.local):
    """What this thread is applying."""

    updates: _Updates | None = None


_present = _Present()


def _applying(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, distribution: Any, grads_and_vars: Any, **parameters: Any) -> Any:
        before, _present.updates = _present.updates, _Updates(self) if _is_simple(self, distribution) else None
        try:
            return original(self, distribution, grads_and_vars, **parameters)
        finally:
            _present.updates = before

    return apply_gradients


def _updating(original: Callable[..., Any]) -> Callable[..., Any]:
    def update_step(self: Any, gradient: Any, variable: Any) -> Any:
        updates = _present.updates
        if updates is None or updates.optimizer is not self or not updates.make(gradient, variable):
            return original(self, gradient, variable)

    return update_step


def _is_simple(optimizer: Any, distribution: Any) -> bool:
    """Whether all variables are updated alike, in a function, and on one device."""
    import tensorflow as tf

    if not tf.inside_function() or optimizer.jit_compile:
        return False
    if tf.distribute.has_strategy():  # the one for programs without one knows no devices
        extended = distribution.extended
        if len(extended.worker_devices) != 1 or len(extended.parameter_devices) != 1:
            return False
    return type(optimizer).update_step.__module__ in _UPDATES


class _Updates:
    """The updates of one `apply_gradients`."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self._slots = _lists_of_slots(optimizer)
        self._made: dict[Any, _VariableUpdate] = {}
        self._failed = False

    def make(self, gradient: Any, variable: Any) -> bool:
        """Calls the update of a variable; False where it is left to Keras."""
        import tensorflow as tf

        if self._failed or not isinstance(gradient, tf.Tensor) or getattr(variable, "_unique_id", None) is None:
            return False
        place = self.optimizer._index_dict.get(self.optimizer._var_key(variable))
        if place is None:
            return False
        try:
            slots = {name: value[place] for name, value in self._slots.items()}
            handles = [v.handle for v in (variable, *slots.values())]
            kinds = tuple((v.dtype, h.device) for v, h in zip((variable, *slots.values()), handles, strict=True))
            key = tf.compat.v1.get_default_graph(), gradient.dtype, kinds
            if key not in self._made:
                self._made[key] = _VariableUpdate(self.optimizer, gradient, variable, slots)
            after = self._made[key].values(handles, gradient)
        except Exception:
            self._failed = True
            _log.debug("%s traces an update for each variable", self.optimizer.name, exc_info=True)
            return False
        for handle, value in after:
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)
        return True


def _lists_of_slots(optimizer: Any) -> dict[str, Any]:
    """The optimizer's attributes that are a list of a variable per variable."""
    import tensorflow as tf

    count = len(optimizer._index_dict)
    lists = {name: value for name, value in vars(optimizer).items() if isinstance(value, list) and len(value) == count}
    return {name: value for name, value in lists.items() if all(isinstance(v, tf.Variable) for v in value)}


class _VariableUpdate:
    """The update of one kind of variable in one graph."""

    def __init__(self, optimizer: Any, gradient: Any, variable: Any, slots: dict[str, Any]) -> None:
        import tensorflow as tf

        now = optimizer.iterations, optimizer.learning_rate
        graph = tf.__internal__.FuncGraph("update")
        with graph.as_default():
            handles = [tf.compat.v1.placeholder(tf.resource, []) for _ in range(1 + len(slots))]
            gradients = tf.compat.v1.placeholder(gradient.dtype)
            shared = [tf.compat.v1.placeholder(x.dtype, []) for x in now]
            variables = [_variable(v.dtype, h) for v, h in zip((variable, *slots.values()), handles, strict=True)]
            twin = _twin(optimizer, dict(zip(slots, variables[1:], strict=True)), *shared)
            twin.update_step(gradients, variables[0])
        if graph.captures:
            raise ValueError("the update reads something else than variables, iterations and the learning rate")
        ops = [op for op in graph.get_operations() if op.type != "Placeholder"]
        once = _made_of(shared, ops)
        rest = [op for op in ops if op.type == "Const" or op not in once]
        values = {x.ref(): tf.identity(value) for x, value in zip(shared, now, strict=True)}
        _repeat(once, values, {})
        given = {x.ref(): x for op in rest for x in op.inputs if x.ref() in values and x.op.type != "Const"}
        self._given = [values[x] for x in given]
        self._types = [v.dtype for v in variables]
        written = {op.inputs[0].ref() for op in rest if op.type in _WRITES}
        self._written = [k for k, h in enumerate(handles) if h.ref() in written]

        def update(before: list[Any], *others: Any) -> list[Any]:
            held = {h.ref(): value for h, value in zip(handles, before, strict=True)}
            inside = {x.ref(): value for x, value in zip((gradients, *given.values()), others, strict=True)}
            _repeat(rest, inside, held)
            return [held[handles[k].ref()] for k in self._written]

        before = [tf.TensorSpec(None, dtype) for dtype in self._types]
        specs = [tf.TensorSpec(x.shape, x.dtype) for x in (gradients, *given.values())]
        self._function = tf.function(update, autograph=False).get_concrete_function(before, *specs)

    def values(self, handles: list[Any], gradient: Any) -> list[tuple[Any, Any]]:
        """What is to be assigned to a variable and its slots, given their handles: pairs of a handle and a value."""
        import tensorflow as tf

        before = [tf.raw_ops.ReadVariableOp(resource=h, dtype=t) for h, t in zip(handles, self._types, strict=True)]
        after = self._function(*before, gradient, *self._given)
        return [(handles[k], value) for k, value in zip(self._written, after, strict=True)]


def _variable(dtype: Any, handle: Any) -> Any:
    """A variable whose handle is given, of unknown shape."""
    import tensorflow as tf
    from tensorflow.python.ops.resource_variable_ops import ResourceVariable

    return ResourceVariable(trainable=False, shape=tf.TensorShape(None), dtype=dtype, handle=handle)


def _twin(optimizer: Any, slots: dict[str, Any], iterations: Any, learning_rate: Any) -> Any:
    """An optimizer with the same settings, of a single variable with these slots."""
    twin = copy.copy(optimizer)
    own: dict[str, Any] = {name: [slot] for name, slot in slots.items()}
    own |= {"_index_dict": {0: 0}, "_var_key": lambda _: 0, "_iterations": iterations, "_learning_rate": learning_rate}
    vars(twin).update(own)  # past `__setattr__`, which keeps a record of what the optimizer tracks
    return twin


def _made_of(given: Iterable[Any], ops: Iterable[Any]) -> dict[Any, None]:
    """The ops that depend on nothing but these tensors and constants, in order."""
    known = {x.op for x in given}
    found: dict[Any, None] = {}
    for op in ops:
        pure = not op.op_def.is_stateful and not op.control_inputs
        if pure and (op.type == "Const" or op.inputs and all(x.op in known or x.op in found for x in op.inputs)):
            found[op] = None
    return found


def _repeat(ops: Iterable[Any], values: dict[Any, Any], held: dict[Any, Any]) -> None:
    """Adds the same ops to the present graph. values: what stands for what they read; what they give is added to it.
    held: what the variables of handles hold, which is what reads give and assignments change."""
    import tensorflow as tf

    graph = tf.compat.v1.get_default_graph()
    for op in ops:
        if op.type == "ReadVariableOp":
            values[op.outputs[0].ref()] = held[op.inputs[0].ref()]
        elif op.type in _WRITES:
            handle, value = op.inputs[0].ref(), values[op.inputs[1].ref()]
            arithmetic = _WRITES[op.type]
            held[handle] = getattr(tf.raw_ops, arithmetic)(x=held[handle], y=value) if arithmetic else value
        else:
            inputs, types = [values[x.ref()] for x in op.inputs], [x.dtype for x in op.outputs]
            new = graph.create_op(op.type, inputs, types, name=op.name, attrs=dict(op.node_def.attr), op_def=op.op_def)
            values.update((x.ref(), now) for x, now in zip(op.outputs, new.outputs, strict=True))


UPDATES = Group(
    "keras2_updates",
    "the update of a variable is traced anew for each variable",
    (
        *changes("optimizers.optimizer", "Optimizer._distributed_apply_gradients_fn", _applying),
        *changes("optimizers.optimizer", "Optimizer._update_step", _updating),
    ),
    worth="without it the first step of mobilenetv2 and bert takes 1.3 times as long",
    only=ONLY,
)
