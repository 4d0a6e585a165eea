"""Attention on bf16: against float64, and that its products are of bf16, whatever way it runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

SHAPE, KEYS, SHARED = (2, 4, 9, 16), (2, 4, 7, 16), (2, 2, 7, 16)
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": (KEYS, {}),
    "scale": (KEYS, {"scale": 0.3}),
    "causal": (KEYS, {"is_causal": True}),
    "shared": (SHARED, {"enable_gqa": True}),
    "mask": (KEYS, {"attn_mask": "float"}),
    "hidden": (KEYS, {"attn_mask": "bool"}),
    "three": ((3, 7, 16), {}),
}


def _mask(kind: str) -> Any:
    if kind == "float":
        return torch.randn(9, 7).bfloat16()
    return torch.arange(9).view(9, 1) > torch.arange(7)  # the first row sees nothing


def _attention(device: str, dtype: Any, *tensors: Any, **given: Any) -> list[Any]:
    """What attention gives, and the gradients of its tensors."""
    leaves = [t.to(device, dtype).requires_grad_() for t in tensors]
    mask = given.pop("attn_mask", None)
    if mask is not None:
        given["attn_mask"] = mask.to(device) if mask.dtype is torch.bool else mask.to(device, dtype)
    made = F.scaled_dot_product_attention(*leaves, **given)
    made.sin().sum().backward()
    return [t.detach().cpu().double() for t in (made, *(x.grad for x in leaves))]


@on_device(*CASES)
def test_bf16_has_the_numbers_of_float64(case: str) -> None:
    torch.manual_seed(0)
    keys, given = CASES[case]
    q = torch.randn(SHAPE if len(keys) == 4 else (3, 9, 16)).bfloat16()
    k, v = torch.randn(keys).bfloat16(), torch.randn(keys).bfloat16()
    given = {name: _mask(x) if name == "attn_mask" else x for name, x in given.items()}
    got = _attention("hpu", torch.bfloat16, q, k, v, **given)
    want = _attention("cpu", torch.float64, q, k, v, **given)
    for ours, theirs in zip(got, want, strict=True):
        assert (ours - theirs).abs().max() <= 2.0**-6 * theirs.abs().max()


@on_device()
def test_fp32_stays_fp32() -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(SHAPE) for _ in range(3)]
    for ours, theirs in zip(
        _attention("hpu", torch.float32, *tensors), _attention("cpu", torch.float64, *tensors), strict=True
    ):
        assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


@on_device("autocast", "bf16", "no_grad")
def test_its_products_are_of_bf16(way: str) -> None:
    import contextlib

    types = _types_of_products()
    dtype = torch.float32 if way == "autocast" else torch.bfloat16
    q = torch.randn(SHAPE, dtype=dtype).to("hpu").requires_grad_(way != "no_grad")
    cast = torch.autocast("hpu", torch.bfloat16) if way == "autocast" else contextlib.nullcontext()
    with types, cast, torch.set_grad_enabled(way != "no_grad"):
        made = F.scaled_dot_product_attention(q, q, q)
        if way != "no_grad":
            made.sum().backward()
    assert set(types.seen) == {torch.bfloat16} and len(types.seen) == (2 if way == "no_grad" else 6)
    with cast, torch.inference_mode():
        again = F.scaled_dot_product_attention(q, q, q)
    assert torch.equal(made.detach().cpu(), again.cpu())


@on_device("train", "no_grad", modes=("eager",))
def test_a_compiled_graph_has_products_of_bf16(way: str) -> None:
    types: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        products = [n for n in graph.graph.nodes if n.target is torch.ops.aten.bmm.default]
        types.extend(n.meta["val"].dtype for n in products)
        return graph.forward

    from torch._dynamo.backends.common import aot_autograd

    q = torch.randn(SHAPE, dtype=torch.bfloat16).to("hpu").requires_grad_(way == "train")
    attention = torch.compile(
        lambda q: F.scaled_dot_product_attention(q, q, q), backend=aot_autograd(fw_compiler=backend)
    )
    with torch.set_grad_enabled(way == "train"):
        made = attention(q)
        if way == "train":
            made.sum().backward()
    assert types == [torch.bfloat16] * (6 if way == "train" else 2)


@on_device("ours", modes=("lazy",))
def test_dropout_leaves_the_mean(_: str) -> None:
    torch.manual_seed(0)
    q = torch.zeros(64, 8, 64, 16, dtype=torch.bfloat16, device="hpu")
    v = torch.ones_like(q)
    made = F.scaled_dot_product_attention(q, q, v, dropout_p=0.25).float().cpu()
    assert abs(made.mean() - 1) < 0.01 and 0.03 < made.std() < 0.2


@on_device("wrong", modes=("lazy",))
def test_a_causal_mask_beside_a_mask_is_refused_in_pytorchs_words(_: str) -> None:
    q = torch.zeros(SHAPE, dtype=torch.bfloat16, device="hpu")
    with pytest.raises(RuntimeError, match="attn_mask"):
        F.scaled_dot_product_attention(q, q, q, torch.zeros(9, 9, device="hpu", dtype=q.dtype), is_causal=True)


def _types_of_products() -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Types(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.bmm.default:
                self.seen.append(args[0].dtype)  # type: ignore[attr-defined]
            return func(*args, **(kwargs or {}))

    made = Types()
    made.seen = []  # type: ignore[attr-defined]
    return made
