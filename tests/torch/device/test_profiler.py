"""torch.profiler with the device's launches, and `habana-tf trace` of a program of PyTorch."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.child import PATH, environment
from tests.torch.child import HAS_TORCH, needs_torch, on_device

if HAS_TORCH:
    import torch
    from torch.profiler import ProfilerActivity, profile

STEPS = 3
LAZY = ("lazy",)


def _profiled(model: Any, *more: Any, **options: Any) -> Any:
    def step() -> None:
        model(torch.ones(4, 16).to("hpu")).sum().backward()
        torch.hpu.synchronize()

    step()
    model.zero_grad()
    step()
    with profile(activities=[ProfilerActivity.CPU, *more], **options) as made:
        for _ in range(STEPS):
            step()
    return made


def _launches(made: Any) -> list[Any]:
    return [e for e in made.events() if e.name.startswith("torch_")]


@on_device(modes=LAZY)
def test_launches_are_events_of_the_device() -> None:
    model = torch.nn.Linear(16, 8).to("hpu")
    made = _profiled(model, ProfilerActivity.HPU)
    launches = _launches(made)
    assert len(launches) == STEPS
    first = min(e.time_range.start for e in made.events() if e.name == "aten::linear")
    last = max(e.time_range.end for e in made.events())
    for e in launches:
        assert e.device_type is torch.autograd.DeviceType.PrivateUse1 and e.use_device == "hpu"
        assert first < e.time_range.start < e.time_range.end <= last and e.device_time > 0
    (total,) = (e for e in made.key_averages() if e.key == launches[0].name)
    assert total.count == STEPS and total.self_device_time_total > 0
    assert launches[0].name in made.key_averages().table(sort_by="self_device_time_total", row_limit=10)
    assert len(made.events()) == len(made.events()), "they are added once"


@on_device(modes=LAZY)
def test_a_profiler_of_the_cpu_alone_is_as_it_was() -> None:
    made = _profiled(torch.nn.Linear(16, 8).to("hpu"))
    assert not _launches(made)


@on_device(modes=LAZY)
def test_a_chrome_trace_has_launches_kernel_calls_copies_and_what_is_predicted() -> None:
    import tempfile

    made = _profiled(torch.nn.Linear(16, 8).to("hpu"), ProfilerActivity.PrivateUse1)
    with tempfile.TemporaryDirectory() as folder:
        made.export_chrome_trace(f"{folder}/trace.json.gz")
        with gzip.open(f"{folder}/trace.json.gz") as file:
            events = json.load(file)["traceEvents"]
    kinds = {
        kind: [e for e in events if e.get("cat") == kind] for kind in ("launch", "kernel", "copy", "MME", "cpu_op")
    }
    assert all(kinds.values()), {kind: len(found) for kind, found in kinds.items()}
    copies = [e for e in kinds["copy"] if e["name"] == "copy host to HPU"]
    assert len(copies) == STEPS and {e["args"]["bytes"] for e in copies} == {4 * 16 * 4}
    real = [e for e in kinds["launch"] if "kernel calls" in e.get("args", {})]
    assert len(real) == STEPS
    begin, end = (f(e["ts"] for e in kinds["cpu_op"]) for f in (min, max))
    assert all(begin <= e["ts"] <= end + 1e6 for e in real)


@on_device(modes=LAZY)
def test_a_schedule_has_the_launches_of_its_last_window() -> None:
    model = torch.nn.Linear(16, 8).to("hpu")
    seen: list[int] = []
    plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.HPU], schedule=plan,
        on_trace_ready=lambda p: seen.append(len(_launches(p))),
    ) as made:  # fmt: skip
        for _ in range(6):
            y = model(torch.ones(4, 16, device="hpu"))
            torch.hpu.synchronize()
            made.step()
    assert y.shape == (4, 8)
    assert seen == [2]


_SCRIPT = """
import torch
import habana_frameworks.torch.core as htcore
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).to("hpu")
updates = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    updates.zero_grad()
    model(torch.ones(4, 6, device="hpu")).sum().backward()
    htcore.mark_step()
    updates.step()
    htcore.mark_step()
torch.linalg.svdvals(torch.eye(3).to("hpu"))
"""


@needs_torch
def test_trace_writes_the_timeline_of_a_program(tmp_path: Path) -> None:
    script, out, page = (tmp_path / name for name in ("train.py", "trace.json", "trace.html"))
    script.write_text(_SCRIPT)
    code = "import sys; from habana_tf.cli.main import main; sys.exit(main(sys.argv[1:]))"
    env = {**environment(PT_HPU_LAZY_MODE="1"), "PYTHONPATH": PATH}
    command = [sys.executable, "-c", code, "trace", "-o", str(out), "--html", str(page), str(script)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    trace = json.loads(out.read_text())
    named = {e["name"] for e in trace["traceEvents"]}
    assert any("Sequential/0/addmm_" in name for name in named), named
    assert any(name.startswith("backward/Sequential/2/mm_") for name in named)
    assert any("svd" in name and "on the CPU" in name for name in named)
    launches = [e for e in trace["traceEvents"] if "kernel calls" in e.get("args", {})]
    assert len(launches) >= 6 and not trace["otherData"]["not predicted"]
    assert "Sequential" in page.read_text() and os.path.getsize(page) > 10_000
