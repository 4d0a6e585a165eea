"""torch.autocast("hpu"): types of results, numbers, gradients, lists of ops, cast weights."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from tests.child import python
from tests.torch.child import HAS_TORCH, needs_torch, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

BF16 = 2.0**-7
"""Spacing of bf16 numbers just below 1."""


def _close(got: Any, want: Any, tolerance: float = 4 * BF16) -> None:
    got, want = got.detach().cpu().float(), want.detach().float()
    assert (got - want).abs().max() <= tolerance * want.abs().max(), (got - want).abs().max() / want.abs().max()


def _on(*tensors: Any) -> list[Any]:
    return [t.detach().to("hpu").requires_grad_(t.requires_grad) for t in tensors]


@on_device()
def test_each_list_gives_its_type_and_the_numbers_of_fp32() -> None:
    torch.manual_seed(0)
    x, w, p = torch.randn(6, 8), torch.randn(8, 8), torch.rand(6, 8) + 0.5
    calls = {
        "matmul": (torch.bfloat16, lambda x, w, p: x @ w),
        "linear": (torch.bfloat16, lambda x, w, p: F.linear(x, w)),
        "addmm": (torch.bfloat16, lambda x, w, p: torch.addmm(x, p, w)),
        "mul": (torch.bfloat16, lambda x, w, p: x * p),
        "softmax": (torch.bfloat16, lambda x, w, p: x.softmax(1)),
        "layer_norm": (torch.bfloat16, lambda x, w, p: F.layer_norm(x, (8,), w[0], w[1])),
        "attention": (torch.bfloat16, lambda x, w, p: F.scaled_dot_product_attention(x[None], p[None], p[None])),
        "exp": (torch.float32, lambda x, w, p: torch.exp(p.bfloat16())),
        "div": (torch.float32, lambda x, w, p: x.bfloat16() / p.bfloat16()),
        "mse_loss": (torch.float32, lambda x, w, p: F.mse_loss(x, p)),
        "cross_entropy": (torch.float32, lambda x, w, p: F.cross_entropy(x.bfloat16(), p.argmax(1))),
        "add": (torch.float32, lambda x, w, p: x.bfloat16() + p),
        "cat": (torch.float32, lambda x, w, p: torch.cat([x.bfloat16(), p])),
        "relu": (torch.float32, lambda x, w, p: x.relu()),
    }
    for name, (dtype, call) in calls.items():
        with torch.autocast("hpu"):
            got = call(*_on(x, w, p))
        assert got.dtype is dtype, (name, got.dtype)
        _close(got, call(x, w, p))


@on_device()
def test_a_step_has_the_gradients_of_autocast_on_the_cpu() -> None:
    torch.manual_seed(1)
    on_cpu = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(128, 10), torch.nn.LayerNorm(10),
    )  # fmt: skip
    x, y = torch.randn(4, 3, 8, 8), torch.arange(4)
    fp32, on_hpu = copy.deepcopy(on_cpu), copy.deepcopy(on_cpu).to("hpu")
    losses = []
    for model, device, enabled in ((fp32, "cpu", False), (on_cpu, "cpu", True), (on_hpu, "hpu", True)):
        with torch.autocast(device, torch.bfloat16, enabled):
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        losses.append(loss.item())
    spread = abs(losses[0] - losses[1])
    assert abs(losses[2] - losses[0]) <= 3 * spread + BF16
    for name, exact in fp32.named_parameters():
        if name == "0.bias":
            continue  # before a batch norm its gradient is noise
        theirs, ours = on_cpu.get_parameter(name).grad, on_hpu.get_parameter(name).grad
        assert ours.dtype is torch.float32
        scale = exact.grad.abs().max()
        _close(ours / scale.item(), exact.grad / scale, float(3 * (theirs - exact.grad).abs().max() / scale) + 8 * BF16)


@on_device()
def test_cells_and_what_takes_one_type_run() -> None:
    torch.manual_seed(2)
    x = torch.randn(5, 2, 6)
    on_cpu = torch.nn.LSTM(6, 7)
    with torch.autocast("hpu"):
        got = copy.deepcopy(on_cpu).to("hpu")(x.to("hpu"))[0]
    _close(got, on_cpu(x)[0])
    index, source = torch.arange(8).expand(2, 8), torch.randn(2, 8)
    with torch.autocast("hpu"):
        half = x[0].to("hpu") @ torch.ones(6, 8).to("hpu")
        got = half.scatter_add(1, index.to("hpu"), source.to("hpu"))
    _close(got, x[0] @ torch.ones(6, 8) + source)


@on_device()
def test_a_weight_is_cast_once_until_autocast_ends() -> None:
    w = torch.eye(4).to("hpu").requires_grad_()
    seen = []

    def hook(inputs: Any) -> Any:
        seen.append(inputs)
        return inputs

    with torch.autograd.graph.saved_tensors_hooks(hook, lambda t: t), torch.autocast("hpu"):
        x = torch.ones(2, 4).to("hpu").requires_grad_()
        (x @ w).sum().backward()
        (x @ w).sum()
    casts = {t.untyped_storage().data_ptr() for t in seen if t.shape == w.shape}
    assert len(casts) == 1
    with torch.no_grad():
        w.mul_(3)
    with torch.autocast("hpu"), torch.no_grad():
        assert (torch.ones(1, 4).to("hpu") @ w)[0, 0].item() == 3
    with torch.autocast("hpu"):
        with torch.no_grad():
            torch.ones(1, 4).to("hpu") @ w
        y = torch.ones(1, 4).to("hpu") @ w
    assert y.requires_grad


@on_device()
def test_disabled_and_compiled() -> None:
    torch.manual_seed(3)
    model, x = torch.nn.Linear(8, 4).to("hpu"), torch.randn(2, 8).to("hpu")

    def call(x: Any) -> Any:
        with torch.autocast("hpu"):
            y = model(x)
            with torch.autocast("hpu", enabled=False):
                z = x + 1
        return y, z

    y, z = call(x)
    assert y.dtype is torch.bfloat16 and z.dtype is torch.float32
    compiled = torch.compile(call, backend="hpu_backend")
    for got, want in zip(compiled(x), (y, z), strict=True):
        assert got.dtype is want.dtype, (got.dtype, want.dtype)
        _close(got, want.cpu())
    with torch.autocast("hpu"):
        got = torch.compile(model, backend="hpu_backend")(x)
    got.float().sum().backward()
    assert got.dtype is torch.bfloat16 and model.weight.grad.dtype is torch.float32
    assert model(x).dtype is torch.float32


@on_device()
def test_gradients_are_scaled_and_unscaled() -> None:
    model = torch.nn.Linear(4, 4).to("hpu")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("hpu", init_scale=1024.0)
    before = model.bias.detach().cpu().clone()
    with torch.autocast("hpu"):
        loss = model(torch.ones(2, 4).to("hpu")).float().sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.allclose(model.bias.detach().cpu(), before - 0.2)


@needs_torch
def test_files_replace_the_lists(tmp_path: Path) -> None:
    lower, fp32 = tmp_path / "lower.txt", tmp_path / "fp32.txt"
    lower.write_text("mm\n\nno_such_op\n# a remark\n")
    fp32.write_text("softmax\n")
    python(
        """
        import logging
        lines = []
        logging.getLogger("habana_tf").addFilter(lambda r: lines.append(r) or True)
        import habana_frameworks.torch.core, torch
        x = torch.ones(4, 4).to("hpu")
        with torch.autocast("hpu"):
            assert torch.mm(x, x).dtype is torch.bfloat16
            assert (x * x).dtype is torch.float32
            assert x.bfloat16().softmax(0).dtype is torch.float32
            assert x.bfloat16().exp().dtype is torch.bfloat16
        assert any("no_such_op" in r.getMessage() for r in lines)
        """,
        imported=True, PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST=str(lower), PT_HPU_AUTOCAST_FP32_OPS_LIST=str(fp32),
    )  # fmt: skip
    python(
        """
        import habana_frameworks.torch.core, torch
        x = torch.ones(4, 4).to("hpu")
        with torch.autocast("hpu"):
            assert (x * x).dtype is torch.bfloat16
        """,
        imported=True, PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST=str(tmp_path / "none.txt"),
    )  # fmt: skip
