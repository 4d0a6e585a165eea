"""The transformer engine's attention: as FusedSDPA without 8 bits, near float64 with them."""

from __future__ import annotations

import pytest

from tests.torch.child import on_device

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

from tests.torch.transformer_engine.test_linear import engine, recipe


@on_device()
def test_gradients_by_scales_that_were_measured() -> None:
    from habana_frameworks.torch.hpex.kernels import FusedSDPA

    torch.manual_seed(0)
    shapes = (2, 4, 16, 8), (2, 2, 16, 8), (2, 2, 16, 8)
    tensors = [torch.randn(shape) * size for shape, size in zip(shapes, (1.0, 2.0, 30.0), strict=True)]
    g = torch.randn(2, 4, 16, 8) * 1e-4
    exact = [t.double().requires_grad_() for t in tensors]
    want = F.scaled_dot_product_attention(*exact, is_causal=True, enable_gqa=True)
    want.backward(g.double())
    for name, bound in (("HYBRID", 0.15), ("E5M2", 0.25), (None, 1e-5)):
        module = engine().FusedAttention(enable_recompute=False)
        for run in range(2):
            mine = [t.to("hpu").requires_grad_() for t in tensors]
            how = None if name is None else recipe(name)
            with engine().fp8_autocast(enabled=name is not None, fp8_recipe=how):
                made = module(*mine, None, True, "fast")
            made.backward(g.to("hpu"))
            errors = [
                ((a.detach().cpu().double() - b.detach()).norm() / b.detach().norm()).item()
                for a, b in zip((made, *(t.grad for t in mine)), (want, *(t.grad for t in exact)), strict=True)
            ]
            assert name and not run or max(errors) < bound, (name, errors)
        if name is None:
            again = FusedSDPA.apply(*(t.detach() for t in mine), None, 0.0, True)
            assert torch.equal(made.detach().cpu(), again.cpu())
            continue
        seen = module.fp8_meta["scaling_fwd"].amax_history[0].cpu()
        assert seen.tolist() == [*(t.abs().max().item() for t in tensors), 1.0]
        assert module.fp8_meta["scaling_bwd"].amax_history[0, 0].item() == g.abs().max().item()
        assert module.state_dict()["_extra_state"]["scale_fwd"].shape == (4,)
