"""hpex: optimizers, clipping, norms, attention, rotary positions and moving averages beside PyTorch and formulas."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import numpy as np
    import torch
    from torch.nn import functional as F

    from habana_tf.torch import loader
    from habana_tf.torch.hpex import attention, kernels, lars, optimizers, rotary


def _models() -> tuple[Any, Any]:
    torch.manual_seed(0)
    on_cpu = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    return on_cpu, copy.deepcopy(on_cpu).hpu()


def _train(model: Any, optimizer: Any, where: str, steps: int = 5) -> None:
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.8)
    for k in range(steps):
        torch.manual_seed(k)
        x = torch.randn(6, 4).to(where)
        optimizer.zero_grad()
        (4 * model(x).square().mean()).backward()
        optimizer.step()
        schedule.step()


def _alike(on_cpu: Any, there: Any) -> None:
    for a, b in zip(on_cpu.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=1e-4, atol=1e-5)


@on_device()
def test_optimizers_of_pytorchs_formulas_are_as_pytorchs() -> None:
    for ours, theirs, options in (
        ("FusedSGD", torch.optim.SGD, {"lr": 0.1}),
        ("FusedSGD", torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        ("FusedSGD", torch.optim.SGD, {"lr": 0.1, "momentum": 0.8, "dampening": 0.2}),
        ("FusedAdagrad", torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
        ("Adam", torch.optim.Adam, {"lr": 0.02}),
        ("AdamW", torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.1}),
        ("FusedAdamW", torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.1, "eps": 1e-12}),
    ):
        on_cpu, there = _models()
        _train(on_cpu, theirs(on_cpu.parameters(), **options), "cpu")
        _train(there, getattr(optimizers, ours)(there.parameters(), **options), "hpu")
        _alike(on_cpu, there)


def _adamw(p: Any, g: Any, m: Any, v: Any, t: int, lr: float) -> tuple[Any, Any, Any]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    size = lr * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return p * (1 - lr * 0.1) - size * m / (np.sqrt(v) + 1e-2), m, v


def _lamb(p: Any, g: Any, m: Any, v: Any, t: int, lr: float) -> tuple[Any, Any, Any]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    u = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6) + 0.1 * p
    return p - lr * np.linalg.norm(p) / np.linalg.norm(u) * u, m, v


@on_device("FusedAdamW", "FusedLamb")
def test_moments_and_ratios_follow_their_formulas(kind: str) -> None:
    rng = np.random.default_rng(0)
    shapes = (4, 3), (5,), (2, 2, 2)
    params = [rng.normal(size=s) for s in shapes]
    there = [torch.tensor(p, dtype=torch.float32).hpu().requires_grad_() for p in params]
    eps = 1e-2 if kind == "FusedAdamW" else 1e-6
    optimizer = getattr(optimizers, kind)(there, lr=0.1, weight_decay=0.1, eps=eps)
    states = [(np.zeros(s), np.zeros(s)) for s in shapes]
    for t in range(1, 5):
        grads = [rng.normal(size=s) for s in shapes]
        clip = min(1, 1 / np.sqrt(sum((g * g).sum() for g in grads))) if kind == "FusedLamb" else 1
        for k, (g, x) in enumerate(zip(grads, there, strict=True)):
            x.grad = torch.tensor(g, dtype=torch.float32).hpu()
            params[k], *moments = (_lamb if clip != 1 or kind == "FusedLamb" else _adamw)(
                params[k], g * clip, *states[k], t, optimizer.param_groups[0]["lr"]
            )
            states[k] = tuple(moments)
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.7
        for x, p in zip(there, params, strict=True):
            np.testing.assert_allclose(x.detach().cpu().numpy(), p, rtol=2e-5, atol=2e-6)
    state = optimizer.state_dict()
    assert state["state"][0]["exp_avg"].is_hpu and state["param_groups"][0]["step"] == 4


@on_device()
def test_steps_after_the_first_compile_nothing_and_are_one_program() -> None:
    recorder = loader.load()
    for kind in ("FusedAdamW", "FusedLamb", "FusedSGD"):
        _, there = _models()
        optimizer = getattr(optimizers, kind)(there.parameters(), lr=0.1)
        counts = []
        for k in range(4):
            for p in there.parameters():
                p.grad = torch.full_like(p, 0.1 * k)
            recorder.flush()
            before = recorder.programs
            optimizer.step()
            counts.append(recorder.programs - before)
            assert not recorder.waiting
            optimizer.param_groups[0]["lr"] *= 0.9
        assert counts[0] <= 1 and counts[2:] == [0, 0], (kind, counts)


def _lars(params: list[Any], grads: list[Any], moments: list[Any], mask: list[bool], lr: float) -> None:
    """One step by the formulas, in NumPy's fp64. Parameters and moments are changed."""
    for p, g, m, scaled in zip(params, grads, moments, mask, strict=True):
        if scaled:
            of_p, of_g = np.linalg.norm(p), np.linalg.norm(g)
            g = (g + 0.1 * p) * (0.02 * of_p / (of_g + 0.1 * of_p + 1e-3) if of_p and of_g else 1.0)
        m *= 0.9
        m += lr * g
        p -= m


@on_device()
def test_lars_scales_the_gradients_that_it_is_told_to() -> None:
    recorder = loader.load()
    _, there = _models()
    with torch.no_grad():
        list(there.parameters())[2].zero_()  # of norm 0: not scaled
    momentum = lars.FusedResourceApplyMomentum(there.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    mask = [True, False, True, False]
    optimizer = lars.FusedLars(momentum, mask, eeta=0.02, eps=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.8)
    want = [p.detach().cpu().double().numpy() for p in there.parameters()]
    moments = [np.zeros_like(p) for p in want]
    counts = []
    for k in range(5):
        grads = [torch.randn(p.shape, generator=torch.Generator().manual_seed(k)) for p in there.parameters()]
        for p, g in zip(there.parameters(), grads, strict=True):
            p.grad = g.to("hpu")
        recorder.flush()
        before = recorder.programs
        optimizer.step()
        counts.append(recorder.programs - before)
        _lars(want, [g.double().numpy() for g in grads], moments, mask, 0.1 * 0.8**k)
        schedule.step()
    for p, w in zip(there.parameters(), want, strict=True):
        np.testing.assert_allclose(p.detach().cpu().numpy(), w, rtol=1e-4, atol=1e-5)
    assert momentum.param_groups[0]["weight_decay"] == 0.1
    assert counts[0] <= 1 and counts[2:] == [0, 0, 0], counts
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert optimizer.state is momentum.state and len(momentum.state) == 4


@on_device()
def test_moments_may_have_types_of_their_own() -> None:
    on_cpu, there = _models()
    optimizer = optimizers.FusedAdamW(there.parameters(), lr=0.02, moments_dtype=(torch.bfloat16, torch.float32))
    _train(there, optimizer, "hpu")
    state = optimizer.state_dict()["state"][0]
    assert state["exp_avg"].dtype is torch.bfloat16 and state["exp_avg_sq"].dtype is torch.float32
    _train(on_cpu, torch.optim.AdamW(on_cpu.parameters(), lr=0.02, weight_decay=0, eps=1e-6), "cpu")
    for a, b in zip(on_cpu.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=0.02, atol=5e-3)


@on_device()
def test_loaded_moments_are_those_that_were_saved() -> None:
    """In float32 beside weights in bfloat16, to which PyTorch's optimizers round what they load."""
    _, there = _models()
    made, other = (
        optimizers.FusedAdamW(m.bfloat16().parameters(), moments_dtype=torch.float32) for m in (there, there)
    )
    for p in there.parameters():
        p.grad = torch.randn(p.shape).bfloat16().hpu()
    made.step()
    state = made.state_dict()
    other.load_state_dict(state)
    for kept, loaded in zip(state["state"].values(), other.state_dict()["state"].values(), strict=True):
        for name in ("exp_avg", "exp_avg_sq"):
            assert loaded[name].dtype is torch.float32 and torch.equal(loaded[name].cpu(), kept[name].cpu())
            assert loaded[name].data_ptr() != kept[name].data_ptr()
    assert other.param_groups[0]["step"] == 1


@on_device()
def test_gradients_are_clipped_as_by_pytorch() -> None:
    on_cpu, there = _models()
    clip = kernels.FusedClipNorm(there.parameters(), 0.5)
    for scale in (10.0, 1e-3):
        for p, q in zip(on_cpu.parameters(), there.parameters(), strict=True):
            p.grad = torch.randn(p.shape) * scale
            q.grad = p.grad.hpu()
        want, got = torch.nn.utils.clip_grad_norm_(on_cpu.parameters(), 0.5), clip.clip_norm(there.parameters())
        torch.testing.assert_close(got.cpu(), want)
        for p, q in zip(on_cpu.parameters(), there.parameters(), strict=True):
            torch.testing.assert_close(q.grad.cpu(), p.grad)


@on_device()
def test_norm_attention_and_rotary_positions_have_their_formulas() -> None:
    torch.manual_seed(1)
    x, gamma = torch.randn(2, 5, 8, dtype=torch.float64), torch.rand(8, dtype=torch.float64)
    there = x.float().hpu().requires_grad_()
    got = kernels.FusedRMSNorm.apply(there, gamma.float().hpu(), 1e-5)
    want = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gamma
    torch.testing.assert_close(got.detach().cpu().double(), want, rtol=1e-5, atol=1e-6)
    got.sum().backward()
    assert there.grad is not None

    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    got = attention.FusedSDPA.apply(q.hpu(), k.hpu(), v.hpu(), None, 0.0, True, 0.3, "fast", True)
    shared = [t.repeat_interleave(2, 1).double() for t in (k, v)]
    scores = (q.double() @ shared[0].transpose(-1, -2) * 0.3).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(got.cpu().double(), scores.softmax(-1) @ shared[1], rtol=1e-5, atol=1e-5)

    angles = torch.arange(16.0)[:, None] * torch.tensor([1.0, 0.1, 0.01, 0.001])
    ids = torch.tensor([[3, 1, 0, 7, 2, 5], [0, 1, 2, 3, 4, 5]])
    pairs = torch.view_as_complex(q.reshape(2, 4, 6, 4, 2))
    want = torch.view_as_real(pairs * torch.polar(torch.ones(6, 4), angles[2:8])).flatten(-2)
    full = angles.repeat_interleave(2, 1)[None, None].hpu()
    mode = rotary.RotaryPosEmbeddingMode.PAIRWISE
    got = rotary.apply_rotary_pos_emb(q.hpu(), full.cos(), full.sin(), None, 2, mode)
    torch.testing.assert_close(got.cpu(), want)
    halves = torch.complex(q[..., :4], q[..., 4:]) * torch.polar(torch.ones(2, 1, 6, 4), angles[ids][:, None])
    full = torch.cat((angles, angles), 1).hpu()
    for cos, sin in ((full.cos(), full.sin()), (full.cos()[None, None], full.sin()[None, None])):
        got = rotary.RotaryPosEmbeddingHelperV2.apply(q.hpu(), cos, sin, ids.hpu())
        torch.testing.assert_close(got.cpu(), torch.cat((halves.real, halves.imag), -1))


@on_device()
def test_attention_of_padded_sequences_leaves_the_padding_out() -> None:
    torch.manual_seed(1)
    q, k, v = (torch.randn(3, 2, 6, 8) for _ in range(3))
    lengths = torch.tensor([6, 4, 1])
    for side in ("left", "right"):
        got = attention.FusedSDPA.apply(
            q.hpu(), k.hpu(), v.hpu(), None, 0.0, True, None, "fast", True, lengths.hpu(), side
        )
        for row, length in enumerate(lengths.tolist()):
            part = slice(6 - length, 6) if side == "left" else slice(0, length)
            one = [t[row, :, part].double() for t in (q, k, v)]
            scores = one[0] @ one[1].mT / 8**0.5
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
            want = torch.zeros(2, 6, 8, dtype=torch.float64)
            want[:, part] = scores.softmax(-1) @ one[2]
            torch.testing.assert_close(got[row].cpu().double(), want, rtol=1e-5, atol=1e-5)
    there = [t.hpu() for t in (q, k, v)]
    wrong = (
        (there, torch.zeros(6, 6).hpu(), True, "left"), (there, None, False, "left"), (there, None, True, "up"),
        ([there[0].clone().requires_grad_(), *there[1:]], None, True, "left"),
    )  # fmt: skip
    for tensors, mask, causal, side in wrong:
        with pytest.raises(ValueError, match="FusedSDPA"):
            attention.FusedSDPA.apply(*tensors, mask, 0.0, causal, None, "fast", True, lengths.hpu(), side)


@on_device()
def test_attention_keeps_its_weights_for_gradients_unless_it_computes_them_again() -> None:
    torch.manual_seed(1)
    tensors = [torch.randn(1, 2, 128, 8) for _ in range(3)]
    weights = 2 * 128 * 128 * 4
    for dropout in (0.0, 0.3):
        found = []
        for recompute in (False, True):
            there = [t.hpu().requires_grad_() for t in tensors]
            torch.hpu.synchronize()
            torch.hpu.manual_seed(7)
            before = torch.hpu.memory_allocated()
            with torch.hpu.sdp_kernel(enable_recompute=recompute):
                made = attention.FusedSDPA.apply(*there, None, dropout, True)
            torch.hpu.synchronize()
            held = torch.hpu.memory_allocated() - before
            assert (held >= weights) is not recompute, held
            made.square().sum().backward()
            found.append([made.detach().cpu(), *(t.grad.cpu() for t in there)])
            del made, there
        for kept, again in zip(*found, strict=True):
            torch.testing.assert_close(again, kept, rtol=1e-5, atol=1e-5)


@on_device()
def test_chatglms_positions_rotate_neighbours_of_a_part() -> None:
    torch.manual_seed(1)
    p = torch.randn(4, 2, 3, 10)
    angles = torch.arange(9.0)[:, None] * torch.tensor([1.0, 0.1, 0.01])
    cache = torch.stack((angles.cos(), angles.sin()), -1)
    turned = (
        torch.view_as_complex(p[..., :6].reshape(4, 2, 3, 3, 2))
        * torch.polar(torch.ones(4, 3), angles[:4])[:, None, None]
    )
    want = torch.cat((torch.view_as_real(turned).flatten(-2), p[..., 6:]), -1)
    there = p.hpu().requires_grad_()
    got = rotary.RotaryPosEmbeddingHelperV3.apply(there, cache.hpu())
    torch.testing.assert_close(got.detach().cpu(), want)
    torch.testing.assert_close(rotary.apply_rotary_pos_emb(p.hpu(), cache.hpu()).cpu(), want)
    got.backward(got.detach())
    torch.testing.assert_close(there.grad.cpu(), p, rtol=1e-5, atol=1e-5)  # a rotation and back


@on_device()
def test_positions_of_wider_tables_begin_at_their_offset() -> None:
    torch.manual_seed(1)
    p, cos, sin = torch.randn(5, 3, 8), torch.randn(5, 1, 11), torch.randn(5, 1, 11)
    got = rotary.RotaryPosEmbeddingHelperV1.apply(p.hpu(), cos.hpu(), sin.hpu(), 3)
    want = p * cos[..., 3:] + torch.cat((-p[..., 4:], p[..., :4]), -1) * sin[..., 3:]
    torch.testing.assert_close(got.cpu(), want)


@on_device()
def test_losses_and_softmax_are_pytorchs() -> None:
    torch.manual_seed(1)
    scores = torch.randn(10, 2, 5).log_softmax(-1)
    targets, lengths, sizes = torch.randint(1, 5, (2, 4)), torch.tensor([10, 9]), torch.tensor([4, 2])
    for reduction in ("mean", "sum", "none"):
        on_cpu, there = scores.clone().requires_grad_(), scores.hpu().requires_grad_()
        F.ctc_loss(on_cpu, targets, lengths, sizes, 0, reduction).sum().backward()
        made = kernels.CTCLoss.apply(there, targets.hpu(), lengths.hpu(), sizes.hpu(), 0, reduction)
        made.sum().backward()
        torch.testing.assert_close(there.grad.cpu(), on_cpu.grad)
    x = torch.randn(3, 7, dtype=torch.bfloat16)
    got = kernels.CustomSoftmax.apply(x.hpu(), 0).cpu().double()
    torch.testing.assert_close(got, x.double().softmax(-1), rtol=1e-2, atol=1e-3)


@on_device()
def test_a_moving_average_follows_the_model() -> None:
    _, model = _models()
    model.append(torch.nn.BatchNorm1d(3).hpu())
    ema = kernels.FusedEMA(model, decay=0.9, updates=1000)
    want = {k: v.cpu().double() for k, v in model.state_dict().items()}
    for n in range(1001, 1004):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1)
        ema.update(model)
        d = 0.9 * (1 - np.exp(-n / 2000))
        for k, v in model.state_dict().items():
            if v.is_floating_point():
                want[k] = d * want[k] + (1 - d) * v.cpu().double()
    for k, v in ema.ema.state_dict().items():
        torch.testing.assert_close(v.cpu().double(), want[k], rtol=1e-5, atol=1e-6)
    assert F.relu(ema.ema(torch.randn(2, 4).hpu())).shape == (2, 3)
