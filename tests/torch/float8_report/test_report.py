"""`habana_tf.fp8_report`: shares and errors beside NumPy's of the raw arrays, on both chips, and sentences on files."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.child import python
from tests.torch.child import on_device

pytest.importorskip("torch")

import numpy as np
import torch
from torch import nn

import habana_tf
from habana_tf.torch.record import current

E4M3 = torch.float8_e4m3fn


def rounded(x: np.ndarray[Any, Any], end: float) -> np.ndarray[Any, Any]:
    """To the nearest float8_e4m3fn in float64, ties to even, cut off at its end."""
    _, exponent = np.frexp(x)
    step = np.ldexp(1.0, np.maximum(exponent - 1, -6) - 3)
    return np.clip(np.round(x / step) * step, -end, end)


class Linear(nn.Module):
    """A product in 8 bits, as Neural Compressor's and vLLM's."""

    def __init__(self, weight: torch.Tensor, scale: float, of_weight: torch.Tensor | float) -> None:
        super().__init__()
        factor = torch.as_tensor(of_weight).reshape(-1, 1)
        self.weight = nn.Parameter((weight.float() * factor).to(E4M3), requires_grad=False)
        self.scale, self.inverse = scale, nn.Parameter(factor.reciprocal().flatten(), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.ops.hpu.cast_to_fp8_v2(x, self.scale, False, False, E4M3)[0]
        inverse = torch.tensor(1 / self.scale, device=x.device)
        made: torch.Tensor = torch.ops.hpu.fp8_gemm_v2(
            x, False, self.weight, True, None, torch.bfloat16, inverse, self.inverse
        )
        return made


def model() -> tuple[nn.Module, nn.Module, torch.Tensor]:
    """The model in 8 bits, in bfloat16, and an input whose largest numbers are beyond 240 times the first scale."""
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(24, 16, generator=generator) * 0.1, torch.randn(8, 24, generator=generator)]
    short = nn.Sequential(Linear(weights[0], 16.0, 256.0), Linear(weights[1], 2.0**-13, torch.rand(8) + 0.5))
    plain = nn.Sequential(nn.Linear(16, 24, bias=False), nn.Linear(24, 8, bias=False)).bfloat16()
    for layer, weight in zip(plain, weights, strict=True):
        layer.weight.data.copy_(weight)
    x = torch.randn(50, 16, generator=generator) * torch.tensor([8.0] * 10 + [1e-5] * 6)
    return short, plain, x.bfloat16()


def check(report: Any, x: torch.Tensor, end: float) -> float:
    """Compares the first cast with NumPy's figures, and returns what it clips."""
    row = report.rows[0]
    raw = x.double().numpy()
    times, size = raw * 16, np.abs(raw * 16)
    stands = rounded(times, end)
    assert (row.layer, row.operand, row.format, row.scale, row.exact) == (
        "0",
        "cast",
        "float8_e4m3fn",
        (16.0, 16.0),
        True,
    )
    assert row.largest == np.abs(raw).max()
    np.testing.assert_allclose(row.clipped, (size > end).mean(), rtol=1e-6)
    np.testing.assert_allclose(row.flushed, ((stands == 0) & (times != 0)).mean(), rtol=1e-6)
    error = np.sqrt(((stands / 16 - raw) ** 2).sum() / (raw**2).sum())
    np.testing.assert_allclose(row.error, error, rtol=1e-5)
    assert row.flushed > 0.2
    return float(row.clipped)


@on_device()
def test_shares_and_errors_are_those_of_the_raw_arrays() -> None:
    short, plain, x = model()
    on_card = x.to("hpu")
    report = habana_tf.fp8_report(short.to("hpu"), on_card, against=plain.to("hpu"))
    assert check(report, x, 240.0) > 0.01
    assert [(row.layer, row.operand) for row in report.rows] == [
        ("0", "cast"),
        ("0", "weight"),
        ("1", "cast"),
        ("1", "weight"),
    ]
    for row, name in ((report.rows[1], "0"), (report.rows[3], "1")):
        layer = short.get_submodule(name)
        codes, inverse = layer.weight.detach().float().cpu().numpy(), layer.inverse.detach().cpu().numpy()
        held = codes * inverse.reshape(-1, 1)
        want = plain.get_submodule(name).weight.detach().float().cpu().numpy()
        np.testing.assert_allclose(row.largest, np.abs(held).max(), rtol=1e-6)
        np.testing.assert_allclose(row.flushed, (codes == 0).mean(), rtol=1e-6)
        np.testing.assert_allclose(row.error, np.linalg.norm(held - want) / np.linalg.norm(want), rtol=1e-3)
        np.testing.assert_allclose(row.scale, ((1 / inverse).min(), (1 / inverse).max()), rtol=1e-6)
        assert not row.exact
    with torch.no_grad():
        first = [each(on_card).float().cpu() for each in (short[0], plain[0])]
        last = [each(on_card).float().cpu() for each in (short, plain)]
    for name, (made, exact) in (("0", first), ("", last), ("1", last)):
        np.testing.assert_allclose(report.outputs[name], ((made - exact).norm() / exact.norm()).item(), rtol=1e-3)
    assert report.rows[2].flushed > 0.5 and "nothing is clipped" not in report.summary()
    assert json.loads(report.to_json())["rows"][0]["clipped"] == report.rows[0].clipped
    assert "result of" in str(report) and "1 of them clipped, at worst 4" in report.summary()


@on_device()
def test_two_calls_are_summed_and_places_kept_apart() -> None:
    class Twice(nn.Module):
        def forward(self, *parts: torch.Tensor) -> None:
            for part in parts:
                torch.ops.hpu.cast_to_fp8_v2(part, 1.0, False, False, E4M3)
            part.to(torch.float8_e5m2)
            torch.ops.hpu.softmax_fp8(part, -1, 1.0, 512.0)

    parts = [torch.full((10,), 300.0), torch.tensor([1.0, 300.0] * 15)]
    report = habana_tf.fp8_report(Twice(), *(part.to("hpu") for part in parts))
    first, second, third = report.rows
    assert first.clipped == pytest.approx(25 / 40) and first.error == pytest.approx(0.2, rel=1e-2)
    assert (second.format, second.clipped, second.layer) == ("float8_e5m2", 0, "")
    assert third.largest == pytest.approx(1 / 15) and third.operand == "cast 2"
    assert habana_tf.fp8_report(nn.ReLU(), parts[0].to("hpu")).rows == ()


def test_what_gaudi2_clips_gaudi3_does_not() -> None:
    for chip, end in (("gaudi2", 240.0), ("gaudi3", 448.0)):
        python(
            f"""
            import habana_frameworks.torch.core, habana_tf, torch
            from tests.torch.float8_report.test_report import check, model

            short, _, x = model()
            x = x.clamp(-27, 27)  # 432 times the scale
            report = habana_tf.fp8_report(short.to("hpu"), x.to("hpu"))
            clipped = check(report, x, {end})
            assert (clipped > 0) == ({end} == 240.0), clipped
            assert (report.chip, report.ends) == ("{chip.capitalize()}", {end})
            weight = torch.full((24, 16), 400.0).to(torch.float8_e4m3fn)
            short[0].weight = torch.nn.Parameter(weight.to("hpu"), requires_grad=False)
            said = habana_tf.fp8_report(short, x.to("hpu")).said
            assert bool(said) == ({end} == 240.0) and (not said or "multiply by 240/448" in said[0]), said
            """,
            imported=True,
            HABANA_SIM_CHIP=chip,
        )


def write(folder: Path, name: str, mode: str, nodes: dict[str, Any]) -> None:
    (folder / name).write_text(json.dumps({"GlobalRank": None, "LocalRank": None, "Mode": mode, "Nodes": nodes}))


@on_device()
def test_files_of_measurements() -> None:
    import tempfile

    from habana_tf.torch.float8_report.measurements import told

    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    node = {"inputs": [[[3.0]]], "outputs": [[[2.0]]], "params": {"weight": [[0.5]]}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = str(folder / "inc")
        assert ["there is no file of measurements" in each for each in told(path, net)] == [True]
        write(folder, "inc_hooks_maxabs.json", "DynamicRange", {"0": node, "1": node})
        assert not [*told(path, net)]
        (sentence,) = told(str(folder / "inc_hooks_maxabs_0_8.json"), net)
        assert "inc_hooks_maxabs.json" in sentence
        fits = {"inputs": [1.0], "outputs": [1.0], "params": {"weight": 2.0**-8}}
        write(folder, "inc_hooks_maxabs_MAXABS_HW.json", "Scale", {"0": fits, "1": fits})
        assert not [*told(path, net)]
        other = {"inputs": [2.0**-7], "outputs": [1.0], "params": {"weight": 2.0**-8}}
        write(folder, "inc_hooks_maxabs_MAXABS_HW.json", "Scale", {"0": fits, "1": other})
        beyond, exponents = told(path, net)
        assert "1 tensors end beyond 240" in beyond and "(1: 384)" in beyond and "0.0078125; they have 16" in exponents
        write(folder, "inc_hooks_maxabs_MAXABS_HW.json", "Scale", {})
        write(folder, "inc_hooks_maxabs.json", "DynamicRange", {"0": node | {"inputs": [[[0.0]]]}, "lm_head": node})
        missing, foreign, idle = told(path, net)
        assert "no entry for 1," in missing and "entries for lm_head" in foreign and "finite number for 0:" in idle
        (folder / "g3").mkdir()
        write(folder / "g3", "inc_hooks_maxabs.json", "DynamicRange", {"0": node, "1": node})
        (sentence,) = told(str(folder / "g3" / "inc"), net)
        assert "named after Gaudi3" in sentence


def test_of_a_script(tmp_path: Path) -> None:
    from tests.torch.test_commands import run  # the command in a process of its own

    script = tmp_path / "generate.py"
    script.write_text(
        "import sys, torch, habana_frameworks.torch.core\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.ops.hpu.cast_to_fp8_v2(x, 2.0, False, False, torch.float8_e4m3fn)[0]\n"
        "print(Net()(torch.tensor([1.0, 200.0, 1e-6], device='hpu')), sys.argv[1:])\n"
    )
    made = json.loads(run("fp8-report", "--json", str(script), "--more", HABANA_SIM_CHIP="gaudi2").stdout)
    (row,) = made["rows"]
    assert (row["layer"], row["largest"]) == ("Net", 200.0)
    assert row["clipped"] == row["flushed"] == pytest.approx(1 / 3)


@on_device()
def test_compiled_and_graphed_modules_are_seen_op_by_op() -> None:
    """Beside the module itself, before and after the first call; what a program replays itself is said."""
    from habana_frameworks.torch import hpu

    lazy = current.recorder().lazy
    short, plain, x = (each.to("hpu") for each in model())
    with torch.no_grad():
        want, exact = habana_tf.fp8_report(short, x, against=plain), short(x).cpu()
        compiled = torch.compile(short, backend="hpu_backend")
        others = [compiled, hpu.wrap_in_hpu_graph(copy.deepcopy(short))] if lazy else [compiled]
        for other in others:
            for _ in range(3):
                report = habana_tf.fp8_report(other, x, against=plain)
                assert (report.rows, report.outputs, report.said) == (want.rows, want.outputs, ())
                ops = habana_tf.op_by_op(other, x)
                assert [op.op for op in ops.ops][:2] == ["hpu.cast_to_fp8_v2.scalar", "hpu.fp8_gemm_v2.default"]
                assert not any(op.differs for op in ops.ops) and torch.equal(ops.result.cpu(), exact)
                assert torch.equal(other(x).cpu(), exact)
        if lazy:
            graph = hpu.HPUGraph()
            with hpu.graph(graph):
                made = short(x)
            assert made.shape == exact.shape
            for report in (habana_tf.fp8_report(Replays(graph), x), habana_tf.op_by_op(Replays(graph), x)):
                assert report.said[0].startswith("1 launches of HPU graphs") and "1 launches" in str(report)


class Replays(nn.Module):
    def __init__(self, graph: Any) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, x: torch.Tensor) -> None:
        self.graph.replay()
