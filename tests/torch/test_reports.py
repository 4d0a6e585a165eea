"""The reports on programs of PyTorch, against what is counted by hand, without TensorFlow in the process."""

from __future__ import annotations

import sys
from typing import Any

import habana_tf
from tests.torch.child import HAS_TORCH, on_device
from tests.torch.record.test_out_of_range import shown

if HAS_TORCH:
    import torch
    from torch import nn
    from torch.nn import functional as F

LAZY = ("lazy",)


class Net(nn.Module if HAS_TORCH else object):  # type: ignore[misc]
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 64), nn.ReLU())
        self.head = nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x))


WEIGHTS = 4 * (20 * 64 + 64 + 64 * 10 + 10)


def _step(model: Any, updates: Any, batch: int) -> None:
    x, y = torch.ones(batch, 20).to("hpu"), torch.zeros(batch, dtype=torch.long).to("hpu")
    updates.zero_grad()
    F.cross_entropy(model(x), y).backward()
    torch.hpu.synchronize()
    updates.step()
    torch.hpu.synchronize()


def _reset() -> None:
    from habana_tf.card.clock import report
    from habana_tf.resolver import placements, recompilations
    from habana_tf.torch.record import loaded_program
    from habana_tf.torch.record import telemetry as counted

    counted._trained = False
    for part in (report, recompilations, placements):
        part.reset()
    loaded_program._recordings._known.clear()


@on_device(modes=LAZY)
def test_placement_has_the_programs_and_the_ops_on_the_cpu_with_reasons() -> None:
    _reset()
    model = Net().to("hpu")
    _step(model, torch.optim.SGD(model.parameters(), lr=0.1), 7)
    for _ in range(3):
        torch.linalg.svdvals(torch.eye(4).to("hpu"))
    report = habana_tf.placement_report()
    forward = next(p for p in report.recorded.programs if "Net" in p.scopes)
    assert forward.ops["addmm"] == 2 and forward.updated == 0
    update = next(p for p in report.recorded.programs if "SGD" in p.scopes)
    assert update.updated == 4
    (svd,) = (each for each in report.cpu_ops if "svd" in each.op)
    assert svd.count == 3 and svd.reason
    text = str(report)
    assert forward.name in text and svd.op in text and "no graph has been optimized" not in text
    assert report.to_dict()["cpu_ops"][0]["reason"] == report.cpu_ops[0].reason
    assert "tensorflow" not in sys.modules


@on_device(modes=LAZY)
def test_a_fallback_names_the_layer_that_called_it() -> None:
    class Decomposes(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svdvals(x)

    _reset()
    Decomposes()(torch.eye(4).to("hpu"))
    (svd,) = (each for each in habana_tf.placement_report().cpu_ops if "svd" in each.op)
    assert svd.layers == ("Decomposes",)
    line = Decomposes.forward.__code__.co_firstlineno + 1
    assert svd.lines == (f"{shown(__file__)}:{line}",)


@on_device(modes=("lazy", "eager"))
def test_the_lines_that_end_programs_and_read_values_are_counted_by_steps() -> None:
    from habana_frameworks.torch.core import mark_step
    from habana_frameworks.torch.utils.internal import is_lazy

    _reset()
    here, first = shown(__file__), sys._getframe().f_lineno
    x = torch.ones(3, 4).to("hpu")
    for step in range(6):
        y = x * 2 + step
        if step % 3 == 0:
            y.sum().item()
        torch.linalg.svdvals(y[:, :3])
        mark_step()
        (y + 1).cpu()
    ends = {(e.what.split(" (")[0], e.line): (e.count, e.programs) for e in habana_tf.placement_report().recorded.ends}
    ended = int(is_lazy())
    found = {("a number is read", f"{here}:{first + 5}"): (2, 2 * ended),
             ("a tensor is read", f"{here}:{first + 8}"): (6, 6 * ended)}  # fmt: skip
    if is_lazy():
        found["aten._linalg_svd.default runs on the CPU", f"{here}:{first + 6}"] = (4, 4)
    assert {key: ends[key] for key in found} == found, ends
    text = str(habana_tf.placement_report())
    assert "in 6 steps" in text and "0.333" in text


@on_device(modes=("eager",))
def test_graph_breaks_and_tracing_anew_have_reasons_and_lines() -> None:
    class Breaks(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x * 2
            if y.sum() > 0:
                y = y + 1
            return y

    _reset()
    called = torch.compile(Breaks(), backend="hpu_backend")
    for batch in (5, 5, 7):
        called(torch.ones(batch, 20).to("hpu"))
    line = Breaks.forward.__code__.co_firstlineno
    traced = habana_tf.placement_report().recorded.traced
    assert {(t.what, t.line, t.count) for t in traced} == {
        ("a graph break", f"{shown(__file__)}:{line + 2}", 2),
        ("the same code for other arguments", f"{shown(__file__)}:{line + 1}", 1),
        ("the same code for other arguments", f"{shown(__file__)}:{line + 3}", 1),
    }, traced
    assert all("expected 5, actual 7" in t.why for t in traced if t.what != "a graph break")


@on_device(modes=LAZY)
def test_an_op_on_the_cpu_has_the_bytes_that_a_card_would_copy() -> None:
    _reset()
    for _ in range(2):
        torch.linalg.svdvals(torch.ones(8, 4).to("hpu"))
    (svd,) = (each for each in habana_tf.placement_report().cpu_ops if "svd" in each.op)
    assert svd.count == 2 and svd.nbytes == 2 * 4 * (8 * 4 + 4)


def _because() -> list[str]:
    return [m.because for c in habana_tf.recompilation_report().clusters for m in c.met]


@on_device(modes=LAZY)
def test_recompilations_say_which_size_changed_and_which_layer_takes_it() -> None:
    _reset()
    model = Net().to("hpu")
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in (5, 5, 9):
        _step(model, updates, batch)
    report = habana_tf.recompilation_report()
    told = _because() + [str(c) for h in report.clusters for m in h.met for c in m.changed]
    assert any("Net/body.0" in text and "axis 0: 5 -> 9" in text for text in told), told
    assert "5 -> 9" in str(report)


@on_device(modes=LAZY)
def test_recompilations_say_which_op_appeared_and_which_number_changed() -> None:
    _reset()
    x = torch.ones(6, 8).to("hpu")

    def made(axis: int, more: bool) -> Any:
        y = F.softmax(x.exp() * 2, axis)
        out = (y.tanh() if more else y).sum(1)
        torch.hpu.synchronize()
        return out

    made(0, False)
    made(1, False)
    made(1, True)
    found = [text for text in _because() if text]
    assert any("_softmax" in text and "0 -> 1" in text for text in found), found
    assert any("tanh appeared after _softmax" in text for text in found), found


@on_device(modes=LAZY)
def test_another_program_is_no_recompilation() -> None:
    _reset()
    x = torch.ones(4, 4).to("hpu")
    y = (x @ x).relu()
    torch.hpu.synchronize()
    z = (x.exp() + x.sin()).log()
    torch.hpu.synchronize()
    assert y.shape == z.shape and _because() == ["", ""]


@on_device(modes=LAZY)
def test_card_time_counts_launches_copies_and_the_cpus_ops() -> None:
    _reset()
    model = Net().to("hpu")
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    _step(model, updates, 6)
    before = habana_tf.card_time_report()
    for _ in range(4):
        _step(model, updates, 6)
        torch.linalg.svdvals(torch.eye(4).to("hpu"))
    report = habana_tf.card_time_report(since=before)
    assert report.launches >= 8 and report.seconds > 0 and not report.not_predicted
    assert {4} <= {r.launches for r in report.recipes}
    assert any("Net" in r.what for r in report.recipes) and any("SGD" in r.what for r in report.recipes)
    bytes_ = 4 * (6 * 20 * 4 + 6 * 8 + 4 * 4 * 4)
    assert report.counted.counters["host_copy_bytes"] == bytes_
    (svd,) = (b for b in report.between if "svd" in b.name)
    assert svd.count == 4 and svd.seconds > 0
    assert habana_tf.card_time_report("gaudi3", since=before).chip == "gaudi3"
    assert "tensorflow" not in sys.modules


@on_device(modes=LAZY)
def test_memory_is_of_weights_of_the_optimizer_and_of_tensors() -> None:
    import gc

    gc.collect()
    before = habana_tf.memory_report()
    model = Net().to("hpu")
    updates = torch.optim.Adam(model.parameters())
    _step(model, updates, 6)
    updates.zero_grad()
    kept = torch.ones(1000, 1000).to("hpu")
    report = habana_tf.memory_report()
    room = 1.5  # small blocks are rounded to 512 bytes and eighths of their size
    for name, wanted in (("weights", WEIGHTS), ("optimizer", 2 * WEIGHTS), ("tensors", kept.nbytes)):
        grown = report.now.get(name, 0) - before.now.get(name, 0)
        assert wanted <= grown <= room * wanted, (name, grown, wanted)
    assert sum(report.now.values()) == report.current == torch.hpu.memory_allocated()
    assert report.peak == torch.hpu.max_memory_allocated()
    assert "Adam" in str(report) or report.owner is not None
    assert "tensorflow" not in sys.modules


@on_device()
def test_steps_are_what_an_optimizer_ends() -> None:
    from habana_tf.hardware import telemetry

    def steps() -> int:
        here = telemetry.held_here()
        assert here is not None
        holder = telemetry.holder(here)
        assert holder is not None and holder.telemetry is not None
        return holder.telemetry.steps

    model = Net().to("hpu")
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    _step(model, updates, 6)
    _step(model, updates, 6)  # the optimizer of another test has been left out for long enough by now
    before = steps()
    for _ in range(5):
        _step(model, updates, 6)
    assert steps() == before + 5
    on_cpu = Net()
    torch.optim.SGD(on_cpu.parameters(), lr=0.1).step()
    assert steps() == before + 5


@on_device(modes=("eager",))
def test_a_compiled_graphs_ops_have_the_names_of_modules() -> None:
    _reset()
    model = Net().to("hpu")
    run = torch.compile(model, backend="hpu_backend")
    run(torch.ones(3, 20).to("hpu")).sum().backward()
    names = {name for p in habana_tf.placement_report().recorded.programs for name in p.scopes}
    assert "Net" in names, names


@on_device(modes=LAZY)
def test_hl_smi_and_top_show_the_process_its_memory_and_its_steps() -> None:
    import os
    import subprocess

    from habana_tf.cli import top
    from habana_tf.hardware import readings

    model = Net().to("hpu")
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    _step(model, updates, 6)
    _step(model, updates, 6)
    before = readings.read_all()
    kept = torch.ones(1 << 22).to("hpu")
    for _ in range(4):
        _step(model, updates, 6)
    now = readings.read_all()
    (row,) = (row for row in top.rows(before, before, now, 2.0) if row.pid == os.getpid())
    assert row.steps_per_second == 2.0 and row.launches_per_second is not None and row.launches_per_second >= 4
    assert row.memory == torch.hpu.memory_reserved() >= kept.nbytes and row.command
    shown = subprocess.run(
        [sys.executable, "-m", "habana_tf.cli.smi.main"], capture_output=True, text=True, check=True
    ).stdout
    assert str(os.getpid()) in shown, shown


@on_device(modes=LAZY)
def test_lengths_that_ops_take_are_told_where_nothing_else_changed() -> None:
    _reset()
    x = torch.ones(6, 40).to("hpu")

    def made(y: Any, at: int) -> Any:
        out = (y * 3).tanh()[:, at] + 1
        torch.hpu.synchronize()
        return out

    for at in (5, 7, 9, 11):
        made(x, at)
    text = str(habana_tf.recompilation_report())
    assert "a length or place that an op takes: " in text and "index_select" in text, text
    _reset()
    for size in (20, 24, 28):
        made(torch.ones(6, size).to("hpu"), size - 2)
    text = str(habana_tf.recompilation_report())
    assert "axis 1: 24 -> 28" in text and "a length or place" not in text, text
