"""One report of every kind, made by hand, with long and foreign names in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from habana_tf.card.clock.counted import LaunchCounts
from habana_tf.card.clock.report import Between, CardTimeReport, LaunchedRecipe
from habana_tf.card.model.host import Host
from habana_tf.card.model.step_time import StepTime
from habana_tf.card.prediction.layouts import Layout, LayoutPlan, LayoutRow
from habana_tf.card.prediction.limits import limits
from habana_tf.card.prediction.plan import Plan, PlanRow
from habana_tf.card.prediction.prediction import HostOp, Prediction
from habana_tf.card.prediction.target import target
from habana_tf.cluster.signature import Signature
from habana_tf.dry_run.compare import Comparison
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import chip
from habana_tf.reports.report import Report
from habana_tf.resolver.launch_peak import LaunchPeak
from habana_tf.resolver.memory import LaunchMemory
from habana_tf.resolver.memory_report import REST, MemoryReport
from habana_tf.resolver.placement_report import PlacementReport
from habana_tf.resolver.placements import HOST_OPERAND, Line, OpCalls, Placements, Program
from habana_tf.resolver.recompilations import History, Met, RecompilationReport
from habana_tf.tensorflow.graph.census import Kind
from habana_tf.tensorflow.graph.explain import Explanation
from habana_tf.tensorflow.graph.launch_nodes import LaunchNode
from habana_tf.tensorflow.graph.reasons import Reason
from habana_tf.tensorflow.graph.report import GraphPlacementReport, GraphRecord

CLUSTER = "cluster_83a24122f71a"
NAMES = (CLUSTER, "größe/層_1", "IteratorGetNext:1", "sparse_categorical_crossentropy")
"""Names that reports must show whole."""


def placement() -> GraphPlacementReport:
    kinds = {Kind.CLUSTER: 137, Kind.ALONE: 2, Kind.CONSTANT: 43, Kind.RIM: 29, Kind.REWRITTEN: 59, Kind.CPU: 2}
    refused = {("Unique", Reason.NO_ROW, True): 2, ("Identity", Reason.TRIVIAL, False): 2}
    layers = {("Unique", Reason.NO_ROW, True): ("größe/層_1", "sparse_categorical_crossentropy")}
    ops = {"AddV2": 100, "MatMul": 43, "Erf": 1, "ResourceApplyKerasMomentum": 26, "Switch": 2}
    launch = LaunchNode(CLUSTER, {"AddV2": 100, "MatMul": 43}, 29, 28, 26, node=CLUSTER)
    graph = GraphRecord(272, 270, 143, (launch,), refused, 0.02, {}, "train_function", kinds, layers, ops)
    return GraphPlacementReport.of([graph] * 3, {"Qr": Reason.NO_ROW})


def recorded() -> PlacementReport:
    """Of a front end that records ops."""
    cpu = OpCalls("aten.sort.default", "it has no row in the table of overloads", 7, 7 << 20, NAMES, ("größe.py:12",))
    copied = replace(cpu, op="aten.add.Tensor", reason=HOST_OPERAND)
    ends = Line("a number is read", "größe.py:13", "", 4, 4), Line("mark_step()", "", "", 1, 0)
    traced = (Line("a graph break", "größe.py:14", "Tensor.item() of sparse_categorical_crossentropy", 2, 0),)
    program = Program(CLUSTER, {"addmm": 3, "relu": 1}, 5, 2, 2, ("größe/層_1", "SGD"))
    known = Placements((program,), 1, Counter(program.ops), (cpu,), (copied,), Counter(), ends, 3, traced)
    return PlacementReport(recorded=known)


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
    step = StepTime(chip("gaudi2"), 8, box(chip("gaudi2")), [], 0.1, 0.01, 0.004, 0.002, 0.0, memory)
    return Prediction(32, "bf16", step, (), (HostOp("Unique", "größe/層_1", 1 << 21),), "asked for")


def plan() -> Plan:
    """30,000,000 examples by 8 cards in 106 ms for 32 each, and by 16 that accumulate and wait for their input."""
    wanted = target("8 hours", 1_000_000, 30)
    step = prediction().step
    fed = limits(step, 32, Host())
    slow = limits(replace(step, cards=16), 64, Host(1000))
    rows = (
        PlanRow(32, 1, "bf16", step, fed, wanted, 4800),
        PlanRow(32, 2, "fp32", replace(step, cards=16), slow, wanted, 9600),
    )
    return Plan(wanted, rows, ("gaudi, batch 32, fp32: needs 40.0 GiB of 32.0 GiB: a batch of 16 at most fits",), rows)


def layouts() -> LayoutPlan:
    """A language model on 8 cards, by weights that are shared and by weights that are spread."""
    rows = (
        LayoutRow(Layout(1, 1, 8, 2, 2, 8, True, "mixed"), 4096, 12.5, 0.4, 90 << 30, True),
        LayoutRow(Layout(4, 2, 1, 0, 1, 128, False, "bf16"), 4096, 31.0, 9.0, 60 << 30),
    )
    return LayoutPlan(chip("gaudi2"), rows, ("tp 1, pp 1, dp 8, ZeRO 0: needs 120.0 GiB of 96.0 GiB",), 24)


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
    plan = LaunchMemory(CLUSTER, 10 << 20, 6 << 20, 5 << 20, 4 << 20, 3 << 20, 2 << 20, 0, 5 << 20, 7, 8 << 20)
    layers = {"größe/层_1": 2 << 20, "sparse_categorical_crossentropy": 1 << 20}
    parts = {"activations": 2 << 20, "gradients": 1 << 20}
    inside = LaunchPeak("gradient_tape/größe/layer/MatMul", parts, layers, (1, 5, 3 << 20, 4))
    now = {"weights": 3 << 20, "optimizer": 6 << 20, "tensors": 1 << 20, REST: 4000}
    at_peak = {"weights": 3 << 20, "optimizer": 6 << 20, **inside.parts, "inputs": 2 << 20, REST: 1 << 20}
    return MemoryReport(
        96 << 30, sum(now.values()), sum(at_peak.values()), now, at_peak, plan, inside, (plan,) * 14
    )  # fmt: skip


def every() -> list[Report]:
    return [
        placement(), recorded(), Explanation({"call": placement(), "train step": placement()}), recompilations(),
        prediction(), Comparison((prediction(), prediction())), card_time(), memory(), plan(), layouts(),
    ]  # fmt: skip
