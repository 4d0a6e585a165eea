"""One report of every kind, made by hand, with long and foreign names in it."""

from __future__ import annotations

from habana_tf.card.clock.counted import LaunchCounts
from habana_tf.card.clock.report import Between, CardTimeReport, LaunchedRecipe
from habana_tf.card.model.step_time import StepTime
from habana_tf.card.prediction.prediction import HostOp, Prediction
from habana_tf.cluster.signature import Signature
from habana_tf.dry_run.compare import Comparison
from habana_tf.graph.census import Kind
from habana_tf.graph.explain import Explanation
from habana_tf.graph.launch_nodes import LaunchNode
from habana_tf.graph.reasons import Reason
from habana_tf.graph.report import GraphRecord, PlacementReport
from habana_tf.hardware.chips import chip
from habana_tf.reports.report import Report
from habana_tf.resolver.memory import LaunchMemory, MemoryReport
from habana_tf.resolver.recompilations import History, Met, RecompilationReport

CLUSTER = "cluster_83a24122f71a"
NAMES = (CLUSTER, "größe/層_1", "IteratorGetNext:1", "sparse_categorical_crossentropy")
"""Names that reports must show whole."""


def placement() -> PlacementReport:
    kinds = {Kind.CLUSTER: 137, Kind.ALONE: 2, Kind.CONSTANT: 43, Kind.RIM: 29, Kind.REWRITTEN: 59, Kind.CPU: 2}
    refused = {("Unique", Reason.NO_ROW, True): 2, ("Identity", Reason.TRIVIAL, False): 2}
    layers = {("Unique", Reason.NO_ROW, True): ("größe/層_1", "sparse_categorical_crossentropy")}
    ops = {"AddV2": 100, "MatMul": 43, "Erf": 1, "ResourceApplyKerasMomentum": 26, "Switch": 2}
    launch = LaunchNode(CLUSTER, CLUSTER, {"AddV2": 100, "MatMul": 43}, 29, 28, 26)
    graph = GraphRecord(272, 270, 143, (launch,), refused, 0.02, {}, "train_function", kinds, layers, ops)
    return PlacementReport.of([graph] * 3, {"Qr": Reason.NO_ROW})


def recompilations() -> RecompilationReport:
    known = History(
        CLUSTER, 186, ("IteratorGetNext:1", "größe/層_1"), ("item 1 of the dataset, into größe", ""), "Adam"
    )
    for batch in (64, 44, 12):
        met = Signature.of([(batch, 28), (batch,)], [None, None])
        known.met.append(Met(met, known.changes(met), "compiled", 0.5, (("s0", batch),) if batch < 64 else ()))
        known.counts["compiled"] += 1
    return RecompilationReport((known,), {"AddV2": {"compiled": 1, "known": 2}})


def prediction() -> Prediction:
    memory = {"weights": 2 << 30, "activations": 6 << 30, "gradients": 0}
    step = StepTime(chip("gaudi2"), 8, [], 0.1, 0.01, 0.004, 0.002, 0.0, memory)
    return Prediction(32, "bf16", step, (), (HostOp("Unique", "größe/層_1", 1 << 21),), "asked for")


def card_time() -> CardTimeReport:
    recipes = tuple(
        LaunchedRecipe(k, CLUSTER, "186 ops, Adam, sparse_categorical_crossentropy", ((64, 28), ()), 8, 0.5, each, 0.4,
                       "launch", "") for k, each in enumerate((1e-3, 2e-5))
    )  # fmt: skip
    nothing = LaunchedRecipe(9, "Fill", "Fill", ((),), 23, 0.1, 0.0, 0.0, "", "")
    between = (Between("the graph pass", 3, 0.25), Between("größe/層_1, on the CPU", None, 1.5))
    return CardTimeReport("gaudi2", 1, (*recipes, nothing), 0.0, 0.0, 0.0, 3.0, between, (("Unique", 2),),
                          LaunchCounts(0, 0))  # fmt: skip


def memory() -> MemoryReport:
    plans = (LaunchMemory(CLUSTER, 10 << 20, 6 << 20, 5 << 20, 4 << 20, 3 << 20),)
    return MemoryReport(96 << 30, 3 << 20, 7 << 20, plans)


def every() -> list[Report]:
    return [
        placement(), Explanation({"call": placement(), "train step": placement()}), recompilations(), prediction(),
        Comparison((prediction(), prediction())), card_time(), memory(),
    ]  # fmt: skip
