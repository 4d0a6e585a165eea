"""`explain()`: which ops of a function or a model would run on the CPU, and why, before training.

It traces the callable, and has TensorFlow place the graph and the graph pass find its clusters, as for a real run; no
op runs and nothing is compiled (see `rehearsal`). Functions that stay calls (Keras 2.15's LSTM and GRU) are included.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from habana_tf.hardware.device_state import is_loaded
from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.tensorflow.graph import portability
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.rehearsal import RehearsalError, rehearse
from habana_tf.tensorflow.graph.report import GraphPlacementReport, GraphRecord, refused_rows
from habana_tf.tensorflow.graph.report_tables import refused

BESIDES = "A run has besides what calls the function: the iterator that feeds it, and results that the caller reads."


class ExplainError(RuntimeError):
    """Nothing can be explained; the message says what is missing."""


@dataclass(frozen=True, repr=False)
class Explanation(Report):
    """What would happen, per part: "function", or "call" and "train step" of a model. `print(it)` shows tables.

    Each part is a report on its graphs: the traced one first, then the functions it calls.
    """

    parts: dict[str, GraphPlacementReport]

    @property
    def on_cpu(self) -> list[dict[str, Any]]:
        """The ops that would run on the CPU, over all parts: {op, count, device, reason, text}."""
        totals: Counter[Any] = Counter()
        for part in self.parts.values():
            totals.update(part.totals)
        return [row for row in refused_rows(totals) if row["device"] == "CPU"]

    def clusters(self, part: str | None = None) -> int:
        """How many clusters one part would have (by default the last one, a compiled model's train step)."""
        chosen = self.parts[part] if part is not None else list(self.parts.values())[-1]
        return sum(len(graph.launches) for graph in chosen.graphs)

    def to_dict(self) -> dict[str, Any]:
        """{part: {clusters, nodes, on_hpu, and what `PlacementReport.to_dict` has}}"""
        return {
            name: {
                "clusters": self.clusters(name),
                "nodes": sum(graph.nodes for graph in part.graphs),
                "on_hpu": sum(graph.on_hpu for graph in part.graphs),
                **part.to_dict(),
            }
            for name, part in self.parts.items()
        }

    def summary(self) -> str:
        return "; ".join(f"{name}: {self._counts(name)}" for name in self.parts)

    def _counts(self, name: str) -> str:
        graphs = self.parts[name].graphs
        nodes, on_hpu, count = sum(g.nodes for g in graphs), sum(g.on_hpu for g in graphs), self.clusters(name)
        return f"{nodes} nodes, {on_hpu} on HPU, {count} cluster{'' if count == 1 else 's'}"

    def shown(self) -> list[str | Table]:
        out: list[str | Table] = []
        for name, part in self.parts.items():
            title = f"{name}: {self._counts(name)}"
            rows = [r for r in refused_rows(part.totals, part.layers) if r["device"] == "CPU"]
            out += refused(rows, f"{title}; ops") if rows else [f"{title}; nothing on the CPU"]
        here = {op for part in self.parts.values() for op in part.ops}
        lacking = {op for part in self.parts.values() for op in part.on_cpu(Reason.NO_ROW)}
        return [*out, *portability.shown(here, lacking), BESIDES]


def explain(fn_or_model: Any, *inputs: Any) -> Explanation:
    """Which ops of a function or a Keras model would run on the CPU, why, and how many clusters there would be.

    fn_or_model: a Python function, a `tf.function`, a layer, or a Keras model. inputs: its arguments as arrays,
    tensors or `tf.TensorSpec`s. For a model they are those of `fit`: x, and, if it is compiled, y and sample weights,
    or one `tf.data.Dataset` of them. With y, the train step is explained as well as the call.

    Nothing is executed but the initializers of variables that the first call would make anyway. Clusters and placement
    are those of a run on such inputs; settings such as TF_PLACE_ON_CPU and TF_BF16_CONVERSION hold.

    Raises ExplainError before `load_habana_module()`, in TensorFlow 1 graph mode, or when the graph pass fails.
    """
    import tensorflow as tf

    if not is_loaded():
        raise ExplainError("explain() asks TensorFlow what it places on HPU: call load_habana_module() first")
    if not tf.executing_eagerly():
        raise ExplainError("explain() traces functions by itself: call it outside tf.function and graph mode")
    if isinstance(fn_or_model, tf.keras.Model):
        functions = _model_functions(fn_or_model, inputs)
    else:
        functions = {"function": _traced(fn_or_model, inputs)}
    return Explanation({name: GraphPlacementReport.of(_judged(function)) for name, function in functions.items()})


def _traced(fn: Any, inputs: tuple[Any, ...]) -> Any:
    """The ConcreteFunction of a callable on these inputs."""
    import tensorflow as tf

    if hasattr(fn, "captured_inputs"):  # it is one
        return fn
    traceable = fn if hasattr(fn, "get_concrete_function") else tf.function(lambda *args: fn(*args))
    return traceable.get_concrete_function(*inputs)


def _model_functions(model: Any, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """The call of a model, and the train step of a compiled one that got targets."""
    import tensorflow as tf

    data = inputs
    if len(inputs) == 1 and isinstance(inputs[0], tf.data.Dataset):
        spec = inputs[0].element_spec
        data = spec if isinstance(spec, tuple) else (spec,)
    if not data:
        raise ExplainError("explain(model, x, y): give the model's inputs, as arrays, tensors or tf.TensorSpecs")
    out = {"call": tf.function(lambda x: model(x, training=False)).get_concrete_function(data[0])}
    compiled = getattr(model, "compiled", getattr(model, "_is_compiled", False))
    if compiled and len(data) > 1:
        if hasattr(model, "_symbolic_build"):  # Keras 3 makes metrics and slots outside the step
            model._symbolic_build(data_batch=data)
        step = tf.function(lambda batch: model.distribute_strategy.run(model.train_step, args=(batch,)))
        out["train step"] = step.get_concrete_function(data)
    return out


def _judged(function: Any) -> list[GraphRecord]:
    """The record of a ConcreteFunction, and of every function it calls."""
    records: list[GraphRecord] = []
    try:
        rehearse(function, lambda record, view, shapes: records.append(record))
    except RehearsalError as why:
        raise ExplainError(str(why)) from why
    return records
