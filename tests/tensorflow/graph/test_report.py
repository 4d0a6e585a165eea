from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

from habana_tf.resolver import recompilations
from habana_tf.resolver.placement_report import placement_report
from habana_tf.resolver.recompilations import record_one_op
from habana_tf.tensorflow.graph import pipeline, report
from habana_tf.tensorflow.graph.census import Kind, readable, running
from habana_tf.tensorflow.graph.reasons import REMEDIES, Reason
from tests.child import python
from tests.tensorflow.graph.harness import Item, build, v1


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Without the ops that files before this one have run in the same process."""
    report.reset()
    recompilations.reset()
    yield
    report.reset()


def make() -> None:
    x = v1.placeholder(tf.float32, (2,), "x")
    v1.py_func(lambda a: a, [tf.tanh(tf.abs(x)) + 1.0], tf.float32, name="seen")
    tf.tanh(x, name="pinned")


def test_one_line_and_one_record_per_graph(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("habana_tf")
    propagate, logger.propagate = logger.propagate, True
    try:
        with caplog.at_level(logging.INFO, logger="habana_tf"):
            data = pipeline.optimize(build(make, cpu=("pinned",)).SerializeToString(), Item())
            assert data is not None and pipeline.optimize(data, Item()) is None
    finally:
        logger.propagate = propagate
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("graph of")]
    assert len(lines) == 1
    assert lines[0].startswith("graph of 7 nodes: 5 on HPU, 3 of them in 1 cluster, the others constants 1, ")
    assert "PyFunc x1" in lines[0] and "Tanh x1 (placed on the CPU" in lines[0]
    assert len(placement_report().graphs) == 1


def test_the_report_is_a_table_and_json() -> None:
    for _ in range(2):
        pipeline.optimize(build(make, cpu=("pinned",)).SerializeToString(), Item())
    got = placement_report()
    data = json.loads(got.to_json())
    assert [g["in_launches"] for g in data["graphs"]] == [3, 3]
    assert data["graphs"][0]["launches"][0]["ops"] == {"Abs": 1, "AddV2": 1, "Tanh": 1}
    reasons = {(r["op"], r["reason"], r["device"]): r["count"] for r in data["refused"]}
    assert reasons == {("Tanh", "PLACED_ON_CPU", "CPU"): 2, ("PyFunc", "SIDE_EFFECT", "CPU"): 2}
    text = str(got)
    assert "HPU placement" in text and data["graphs"][0]["launches"][0]["name"] in text and "PyFunc" in text


def test_the_last_graphs_are_kept_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_GRAPHS", 3)
    for n in range(10):
        report.remember(report.GraphRecord(n, n, n, (), {("Tanh", Reason.PLACED_ON_CPU, True): n}, 0.0))
    got = placement_report()
    assert [g.nodes for g in got.graphs] == [7, 8, 9] and got.earlier == 7
    data = json.loads(got.to_json())
    assert data["earlier"] == 7 and [(r["op"], r["count"]) for r in data["refused"]] == [("Tanh", 45)]
    assert "the last graphs of 10" in str(got)
    report.reset()
    now = placement_report()
    assert now == report.GraphPlacementReport(eager=now.eager, single=now.single)


def test_a_line_names_a_few_ops_and_clusters_and_counts_the_rest() -> None:
    refused = {(f"Op{k}", Reason.NO_ROW, True): 9 - k for k in range(9)}
    record = report.GraphRecord(20, 5, 5, (), refused, 0.0)
    assert record.line().endswith("Op3 x6 (HPU has no such op) and 5 more ops")
    pipeline.optimize(build(make, cpu=("pinned",)).SerializeToString(), Item())
    (graph,) = placement_report().graphs
    many = report.GraphRecord(20, 5, 5, graph.launches * 600, refused, 0.0)
    assert "Clusters; 580 more" in " ".join(str(report.GraphPlacementReport.of([many])).split())
    assert len(json.loads(report.GraphPlacementReport.of([many]).to_json())["graphs"][0]["launches"]) == 600


def test_host_work_under_the_cards_name_is_the_cpus() -> None:
    def unique() -> None:
        y, _ = tf.unique(v1.placeholder(tf.int64, (None,), "i"), name="unique")
        tf.sqrt(tf.cast(y, tf.float32) + 1.0, name="on_hpu")

    pipeline.optimize(build(unique).SerializeToString(), Item())
    (graph,) = placement_report().graphs
    assert graph.refused == {("Unique", Reason.NO_ROW, True): 1}
    assert (graph.nodes, graph.on_hpu, graph.in_launches) == (6, 5, 3)
    assert graph.line().endswith("; on the CPU: Unique x1 (HPU has no such op)")
    assert report.refused_rows(graph.refused)[0]["device"] == "CPU"


def test_what_became_of_the_nodes_is_a_sum_that_closes() -> None:
    def step() -> None:
        x = v1.placeholder(tf.float32, (2, 2), "x")
        w = v1.get_variable("w", initializer=tf.ones((2, 2)), use_resource=True)
        with tf.control_dependencies([w.assign_sub(tf.matmul(x, w))]):
            v1.py_func(lambda a: a, [tf.tanh(w.read_value())], tf.float32, name="seen")

    placed = build(step)
    total = len(placed.node)
    pipeline.optimize(placed.SerializeToString(), Item())
    (graph,) = placement_report().graphs
    assert sum(graph.kinds.values()) == graph.nodes == total
    assert graph.on_hpu == graph.nodes - graph.kinds[Kind.CPU] - graph.kinds.get(Kind.CPU_IDLE, 0)
    counts = re.findall(r"(\d+)(?:,|$)", placement_report().text(1000).splitlines()[3])
    assert sum(map(int, counts)) == total, "all of it is printed"
    assert placement_report().to_dict()["graphs"][0]["kinds"]["cpu"] == 1


def test_what_a_real_card_ran_is_told_from_what_only_runs_here() -> None:
    def step() -> None:
        x = v1.placeholder(tf.float32, (2, 2), "x")
        y = tf.math.erf(tf.abs(x)) + tf.tanh(tf.tanh(x))
        v1.py_func(lambda a: a, [y], tf.float32, name="seen")

    for _ in range(2):
        pipeline.optimize(build(step).SerializeToString(), Item())
    got = placement_report()
    rows = {(row["op"], row["device"]): (row["count"], row["real_card"]) for row in got.to_dict()["real_card"]}
    assert rows["Abs", "HPU"] == (2, "HPU") and rows["Tanh", "HPU"] == (4, "HPU") and rows["AddV2", "HPU"] == (2, "HPU")
    assert rows["Erf", "HPU"] == (2, "not known") and rows["PyFunc", "CPU"] == (2, "CPU")
    assert not {"Const", "Placeholder", "NoOp"} & {op for op, _ in rows}
    text = got.text(1000)
    assert text.count("On a real card") == 1 and "4 kinds of op on HPU here, 3 are known to have run there." in text
    assert "no list that we have names them: Erf." in text
    assert "On a real card" in got._repr_html_()


def test_what_is_only_lacking_here_is_said() -> None:
    refused = {("CombinedNonMaxSuppression", Reason.NO_ROW, True): 1, ("Mul", Reason.DTYPE, True): 1}
    got = report.GraphPlacementReport.of([report.GraphRecord(2, 0, 0, (), refused, 0.0)])
    assert "On the CPU here, known to have run on a real card: CombinedNonMaxSuppression." in got.text(1000)
    (seen,) = {row["real_card"] for row in got.to_dict()["real_card"]}
    assert seen == "HPU", "Mul of another element type is listed, and not called lacking"


def test_ops_that_ran_eagerly_are_told_too() -> None:
    got = report.GraphPlacementReport.of(
        [report.GraphRecord(1, 1, 1, (), {}, 0.0, ops={"Abs": 3})], single=("Abs", "Erf", "Fill", "Identity")
    )
    rows = {row["op"]: (row["count"], row["real_card"]) for row in got.to_dict()["real_card"]}
    assert rows == {"Abs": (3, "HPU"), "Erf": (0, "not known"), "Fill": (0, "HPU")}
    assert "of 3 kinds of op on HPU here, 2 are known to have run there." in got.text(1000)
    assert (
        report.GraphPlacementReport(single=("Abs",)).text(99).startswith("HPU placement: no graph has been optimized")
    )
    record_one_op("Softplus", "compiled")
    assert "Softplus" in placement_report().single


def test_ops_of_graphs_that_are_forgotten_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_GRAPHS", 1)
    for op in ("Abs", "Abs", "Erf"):
        report.remember(report.GraphRecord(1, 1, 1, (), {}, 0.0, ops={op: 1}))
    assert placement_report().ops == {"Abs": 2, "Erf": 1}


def test_each_reason_has_one_remedy_and_it_is_said_once() -> None:
    assert set(REMEDIES) == set(Reason) and all(REMEDIES.values())
    refused = {(f"Op{k}", Reason.NO_ROW, True): 1 for k in range(5)}
    text = str(report.GraphPlacementReport.of([report.GraphRecord(5, 0, 0, (), refused, 0.0)]))
    assert text.count(REMEDIES[Reason.NO_ROW][:30]) == 1


def test_the_function_is_found_among_the_callers() -> None:
    """TensorFlow's AtomicFunction, in a file of that name, calls what calls the pass."""
    source = "class Called:\n    name = b'__inference_train_step_298'\n    def call_flat(self, f):\n        return f()"
    names: dict[str, Any] = {}
    exec(compile(source, "somewhere/atomic_function.py", "exec"), names)
    assert names["Called"]().call_flat(running) == "train_step" and running() == ""
    assert readable("__forward_my_call_12_grad") == "my_call" and readable("main") == "main"


@pytest.mark.rest
def test_a_graph_has_its_function_s_name_and_ops_their_layers() -> None:
    done = python(
        """
        import json, tensorflow as tf
        import habana_tf

        habana_tf.load_habana_module()

        @tf.function
        def first_step(x):
            with tf.name_scope("encoder"):
                return tf.unique(tf.reshape(tf.tanh(x) @ x, [-1]))[0]

        predicted = habana_tf.explain(first_step, tf.ones((4, 4)))
        first_step(tf.ones((4, 4)))
        print(json.dumps([predicted.to_dict()["function"], habana_tf.placement_report().to_dict()]))
        """,
        imported=True,
    )
    predicted, found = json.loads(done.stdout[done.stdout.index("[{") :])
    (graph,) = found["graphs"]
    assert graph["function"] == "first_step" == predicted["graphs"][0]["function"]
    (unique,) = [row for row in found["refused"] if row["op"] == "Unique"]
    assert unique["layers"] == ["encoder"] and unique["device"] == "CPU"
    on_cpu = [[row for row in rows["refused"] if row["device"] == "CPU"] for rows in (predicted, found)]
    assert on_cpu[0] == on_cpu[1] == [unique], "what is said before is what happens"
    assert [c["name"] for c in predicted["graphs"][0]["launches"]] == [c["name"] for c in graph["launches"]]
