"""Intel's Neural Compressor, unmodified: a tiny LLaMA is measured, quantized, saved and loaded on both chips. Each
layer's product is compared with float64 on the CPU, from the scales in its own file."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

import pytest

from tests.child import python
from tests.torch.child import needs_torch

pytestmark = [needs_torch, pytest.mark.skipif(sys.version_info < (3, 11), reason="it needs Python 3.11")]


def tiny_llama() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    return model.bfloat16().eval()


def check(method: str, scale_format: str, end: float) -> None:
    """All steps with one method of scales, on the chip whose float8_e4m3fn ends there."""
    import torch
    from neural_compressor.torch.quantization import FP8Config, convert, finalize_calibration, load, prepare, save

    import habana_tf

    folder = tempfile.mkdtemp()
    kept: dict[str, Any] = {
        "observer": "maxabs",
        "dump_stats_path": f"{folder}/inc",
        "allowlist": {"types": [], "names": []},
    }
    ids = torch.randint(0, 96, (2, 12)).to("hpu")
    plain = tiny_llama()
    with torch.no_grad():
        exact = plain(ids.cpu()).logits.double()
        measured = prepare(tiny_llama().to("hpu"), FP8Config(mode="MEASURE", **kept))
        measured(ids)
        finalize_calibration(measured)
        model = convert(
            tiny_llama().to("hpu"), FP8Config(mode="QUANTIZE", scale_method=method, scale_format=scale_format, **kept)
        )
        seen: dict[str, Any] = {}
        for name, module in model.named_modules():
            if type(module).__name__ == "PatchedLinear":
                module.register_forward_hook(lambda m, i, out, name=name: seen.update({name: (i[0].cpu(), out.cpu())}))
        logits = model(ids).logits.cpu().double()
        (file,) = (f for f in os.listdir(folder) if f.endswith(f"_{method.upper()}.json"))
        with open(f"{folder}/{file}", encoding="utf-8") as text:
            nodes = json.load(text)["Nodes"]
        assert len(seen) == len(nodes) == 15
        for name, (x, made) in seen.items():
            of_weight = nodes[name]["params"]["weight"]
            if isinstance(of_weight, dict):  # of channels of results, and 1 for those of inputs
                of_weight = of_weight["0"]
            of_x, of_weight = (torch.as_tensor(n).bfloat16() for n in (nodes[name]["inputs"][0], of_weight))
            weight = plain.get_submodule(name).weight
            short = [
                (t * s.reciprocal()).float().clamp(-end, end).to(torch.float8_e4m3fn).double()
                for t, s in ((x, of_x), (weight, of_weight.reshape(-1, 1)))
            ]
            want = short[0] @ short[1].T * of_x.double() * of_weight.double().flatten()
            torch.testing.assert_close(made.double(), want, rtol=2**-8, atol=1e-6 + 2**-16 * want.abs().max().item())
        assert (logits - exact).norm() / exact.norm() < 0.1
        report = habana_tf.fp8_report(model, ids, measurements=f"{folder}/inc")
        assert (
            not report.said
            and sum(row.exact for row in report.rows) == 15
            and not any(row.clipped for row in report.rows)
        )
        save(model, f"{folder}/saved", format="huggingface")
        again = load(f"{folder}/saved", format="huggingface", device="hpu").to("hpu").eval()
        assert torch.equal(again(ids).logits.cpu().double(), logits)
        assert again.model.layers[0].mlp.up_proj.weight.dtype is torch.float8_e4m3fn


@pytest.mark.parametrize(
    "chip, lazy, method, scale_format",
    [("gaudi2", "1", "maxabs_hw", "scalar"), ("gaudi3", "0", "act_maxabs_hw_weights_pcs_maxabs_pow2", "const")],
)  # fmt: skip
def test_a_tiny_llama(chip: str, lazy: str, method: str, scale_format: str) -> None:
    end = {"gaudi2": 240.0, "gaudi3": 448.0}[chip]
    program = f"""
    import habana_frameworks.torch.core
    from tests.torch.test_neural_compressor import check

    check("{method}", "{scale_format}", {end})
    """
    python(program, HABANA_SIM_CHIP=chip, PT_HPU_LAZY_MODE=lazy)


def check_attention() -> None:
    """What it patches by the names that optimum-habana's modules have: products, softmax, caches, fused attention."""
    import torch
    from neural_compressor.torch.quantization import FP8Config, convert, finalize_calibration, prepare
    from torch import nn

    from habana_frameworks.torch.hpex.kernels import FusedSDPA

    class Matmul(nn.Module):
        def forward(self, *args: Any, **named: Any) -> torch.Tensor:
            return torch.matmul(*args, **named)

    class Softmax(nn.Module):
        def forward(self, x: torch.Tensor, dim: int, invAttnHead: Any = None) -> torch.Tensor:
            return x.softmax(dim)

    class KVCache(nn.Module):
        cache: torch.Tensor

        def allocate(self, inp_seq_len: int, dtype: torch.dtype, device: torch.device, shape: Any) -> None:
            self.cache = torch.zeros(shape, dtype=dtype, device=device)

        def update(self, prev: torch.Tensor, cur: torch.Tensor, dim: int, idx: torch.Tensor, inp_seq_len: int) -> Any:
            return prev.index_copy_(dim, idx, cur)

        def get_shape(self) -> Any:
            return self.cache.shape

        def forward(self, cur: torch.Tensor, idx: torch.Tensor) -> Any:
            return self.update(self.cache, cur, 2, idx, -1)

    class ModuleFusedSDPA(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._hpu_kernel_fsdpa = FusedSDPA

        def forward(self, *args: Any) -> Any:
            return self._hpu_kernel_fsdpa.apply(*args)

    class Attention(nn.Module):
        def __init__(self, fused: bool) -> None:
            super().__init__()
            self.qkv, self.k_cache, self.v_cache = nn.Linear(64, 192), KVCache(), KVCache()
            self.scores, self.softmax, self.mixed = Matmul(), Softmax(), Matmul()
            self.fused_sdpa = ModuleFusedSDPA() if fused else None

        def forward(self, x: torch.Tensor) -> Any:
            q, k, v = self.qkv(x).view(2, 10, 3, 4, 16).permute(2, 0, 3, 1, 4)
            idx = torch.arange(10, device=x.device)
            for cache in (self.k_cache, self.v_cache):
                cache.allocate(10, x.dtype, x.device, k.shape)
            k, v = self.k_cache(k, idx), self.v_cache(v, idx)
            if self.fused_sdpa is not None:
                return self.fused_sdpa(q, k, v, None, 0.0, False, None)
            return self.mixed(self.softmax(self.scores(q, k.transpose(-2, -1)) / 4, dim=-1), v)

    def made(fused: bool) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(Attention(fused)).bfloat16().eval()

    x = torch.randn(2, 10, 64).bfloat16()
    for fused, kinds in ((False, {"PatchedMatmul", "PatchedSoftmax"}), (True, {"PatchedModuleFusedSDPA"})):
        kept: dict[str, Any] = {"observer": "maxabs", "dump_stats_path": f"{tempfile.mkdtemp()}/inc"}
        with torch.no_grad():
            want = made(False)(x).double()
            measured = prepare(made(fused).to("hpu"), FP8Config(mode="MEASURE", **kept))
            measured(x.to("hpu"))
            finalize_calibration(measured)
            model = convert(made(fused).to("hpu"), FP8Config(mode="QUANTIZE", scale_method="maxabs_hw", **kept))
            out = model(x.to("hpu")).cpu().double()
        assert kinds | {"PatchedLinear", "PatchedKVCache"} <= {type(m).__name__ for m in model[0].children()}
        assert model[0].k_cache.orig_mod.cache.dtype is torch.float8_e4m3fn
        assert 0.01 < (out - want).norm() / want.norm() < 0.08  # of the roundings to 4 bits


def test_attention_and_caches() -> None:
    program = """
    import habana_frameworks.torch.core
    from tests.torch.test_neural_compressor import check_attention

    check_attention()
    """
    python(program, HABANA_SIM_CHIP="gaudi2", PT_HPU_LAZY_MODE="1")
