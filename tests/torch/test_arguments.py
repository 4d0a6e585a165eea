"""Wrong arguments are refused as on the CPU, before anything is computed: shapes, types, and views that overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

SIZES = (4, 100)
"""Calls are asked of the CPU as they are, and with shortened axes."""


def _places(n: int, device: str) -> Any:
    return torch.zeros(n, dtype=torch.int64, device=device)


def _ones(*shape: int, device: str, dtype: Any = None) -> Any:
    return torch.ones(shape, device=device, dtype=dtype)


def _flat(device: str, count: int) -> Any:
    return torch.zeros(count, device=device)


WRONG: dict[str, Callable[[int, str], Any]] = {
    "index_add: shape": lambda n, d: torch.zeros(3, 2, device=d).index_add(0, _places(1, d), _ones(1, n * n, device=d)),
    "index_add: count": lambda n, d: torch.zeros(n, 2, device=d).index_add(0, _places(3, d), _ones(n, 2, device=d)),
    "index_copy: shape": lambda n, d: torch.zeros(n, 2, device=d).index_copy(0, _places(2, d), _ones(2, n, device=d)),
    "scatter: shape": lambda n, d: torch.zeros(n, 2, device=d).scatter(
        0, _places(n, d).reshape(n, 1), _ones(1, 1, device=d)
    ),
    "index_put: shape": lambda n, d: torch.zeros(n, 2, device=d).index_put((_places(n, d),), _ones(n, 3, device=d)),
    "index_add: types": lambda n, d: torch.zeros(n, device=d).index_add(
        0, _places(n, d), _ones(n, device=d, dtype=torch.bfloat16)
    ),
    "index_put: types": lambda n, d: torch.zeros(n, device=d).index_put(
        (_places(n, d),), _ones(n, device=d, dtype=torch.bfloat16)
    ),
    "mm: types": lambda n, d: _ones(n, n, device=d) @ _ones(n, n, device=d, dtype=torch.bfloat16),
    "linear: types": lambda n, d: F.linear(_ones(n, n, device=d), _ones(n, n, device=d, dtype=torch.bfloat16)),
    "conv: types": lambda n, d: F.conv1d(_ones(1, 3, n, device=d), _ones(2, 3, 3, device=d, dtype=torch.bfloat16)),
    "bce: types": lambda n, d: F.binary_cross_entropy(_ones(n, device=d), _places(n, d)),
    "cross_entropy: types": lambda n, d: F.cross_entropy(_ones(n, n, device=d), _places(n, d).int()),
    "max of nothing": lambda n, d: torch.zeros(0, n, device=d).max(),
    "max along nothing": lambda n, d: torch.zeros(0, n, device=d).max(0),
    "- of truths": lambda n, d: _ones(n, device=d).bool() - _ones(n, device=d).bool(),
    "shifted sum": lambda n, d: (a := _flat(d, n))[1:].add_(a[:-1]),
    "sum with its transpose": lambda n, d: (a := _ones(n, n, device=d)).add_(a.t()),
    "expanded": lambda n, d: _ones(1, device=d).expand(n).add_(1),
    "copy to expanded": lambda n, d: _ones(1, device=d).expand(n).copy_(_ones(n, device=d)),
    "shifted copy": lambda n, d: (a := _flat(d, n))[1:].copy_(a[:-1]),
    "copy of its transpose": lambda n, d: (a := _ones(n, n, device=d)).copy_(a.t()),
    "copy of a row": lambda n, d: (a := _ones(n, n, device=d)).copy_(a[0]),
    "scatter of itself": lambda n, d: (a := _ones(n, n, device=d)).scatter_(0, torch.zeros_like(a).long(), a),
    "index_add of itself": lambda n, d: (a := _ones(n, n, device=d)).index_add_(0, _places(n, d), a),
    "addcmul of a part": lambda n, d: (a := _flat(d, n))[1:].addcmul_(a[:-1], a[:-1]),
    "out of cat, which is read": lambda n, d: torch.cat([(a := _ones(n, n, device=d))[1:], a[:1]], out=a),
    "expanded out": lambda n, d: torch.add(_ones(n, device=d), 1, out=_ones(1, device=d).expand(n)),
    "out of take, which is read": lambda n, d: torch.take((a := _ones(n, device=d)), _places(n, d), out=a),
    "shifted sum in fp64": lambda n, d: (a := _flat(d, n).double())[1:].add_(a[:-1]),
    "shifted copy in fp64": lambda n, d: (a := _flat(d, n).double())[1:].copy_(a[:-1]),
    "shifted complex copy": lambda n, d: (a := _flat(d, n).cfloat())[1:].copy_(a[:-1].conj()),
    "copy to a transpose in fp16": lambda n, d: (a := _ones(n, n, device=d).half()).t().copy_(a),
    "lists in fp64": lambda n, d: torch._foreach_add_([(a := _flat(d, n).double())[1:]], [a[:-1]]),
    "index_add of itself in fp64": lambda n, d: (a := _ones(n, device=d).double()).index_add_(0, _places(n, d), a),
    "put of a part": lambda n, d: (a := _flat(d, n)).put_(_places(3, d), a[:3]),
    "put of itself": lambda n, d: (a := _places(n, d)).put_(a, a),
    "shifted bits of floats": lambda n, d: (a := _flat(d, n))[1:].__ilshift__(a[:-1]),
    "erfinv of a part": lambda n, d: torch.erfinv((a := _flat(d, n).double())[1:], out=a[:-1]),
    "a value of nothing": lambda n, d: torch.ops.aten._local_scalar_dense(_flat(d, 0)),
    "an item of nothing": lambda n, d: _flat(d, 0).item(),
    "eye": lambda n, d: torch.eye(-n, device=d),
    "negative strides": lambda n, d: torch.empty_strided((n,), (-1,), device=d),
    "fill": lambda n, d: torch.ones(n, dtype=torch.int8, device=d).fill_(300),
    "clamp": lambda n, d: torch.ones(n, dtype=torch.uint8, device=d).clamp(max=300),
}


def raised(call: Callable[[], Any]) -> Exception | None:
    """What a call raises, or the host when it reads what the call makes."""
    try:
        made = call()
        for t in made if isinstance(made, tuple) else (made,):
            if isinstance(t, torch.Tensor):
                t.cpu()
    except Exception as why:
        return why
    return None


@on_device(*WRONG)
def test_wrong_calls_are_refused_in_the_cpus_words(name: str) -> None:
    for n in SIZES:
        wanted, got = (raised(lambda n=n, d=d: WRONG[name](n, d)) for d in ("cpu", "hpu"))
        assert wanted is not None
        assert type(got) is type(wanted), (n, wanted, got)
        assert str(got) == str(wanted)


@on_device()
def test_a_right_call_before_a_wrong_one_of_the_same_shapes() -> None:
    """Where a view begins is no part of a program, but whether it overlaps is."""
    for n in SIZES:
        z, x, y = torch.zeros(16 * n, device="hpu"), torch.zeros(n, n, device="hpu"), torch.zeros(n, n, device="hpu")
        z[: 4 * n].add_(z[8 * n : 12 * n])
        with pytest.raises(RuntimeError, match="single memory location"):
            z[: 4 * n].add_(z[2 * n : 6 * n])
        x.copy_(y.t())
        with pytest.raises(RuntimeError, match="single memory location"):
            x.copy_(x.t())
        x.copy_(y[0])
        with pytest.raises(RuntimeError, match="single memory location"):
            x.copy_(x[0])
        z[: 4 * n].add_(z[: 4 * n])
        x.copy_(x)
        assert x.add_(1).add_(x).cpu().eq(2).all()


@on_device()
def test_what_a_wrong_call_would_have_written_is_as_it_was() -> None:
    near = [torch.zeros(3, 2, device="hpu") for _ in range(8)]
    with pytest.raises(RuntimeError, match="source tensor shape must match"):
        near[3].index_add_(0, _places(1, "hpu"), torch.ones(1, 10**6, device="hpu"))
    assert all(not t.cpu().any() for t in near)


@on_device()
def test_zero_divisors_and_weights_are_no_matter_of_shapes() -> None:
    """Kernels are asked with zeros, which some refuse."""
    x = torch.tensor([7, 8, 9], device="hpu")
    assert (x // torch.tensor([2, 3, 4], device="hpu")).tolist() == [3, 2, 2]
    assert torch.tensor([0.0, 1.0], device="hpu").multinomial(1).tolist() == [1]
    before = torch.get_rng_state()
    torch.rand(3, device="hpu")
    assert torch.equal(before, torch.get_rng_state())


@on_device()
def test_a_generator_and_an_equal_tensor_are_of_the_device() -> None:
    x = torch.zeros(3, device="hpu")
    for dtype in (torch.float32, torch.float64):
        with pytest.raises(RuntimeError, match="Expected a 'hpu' device type for generator but found 'cpu'"):
            torch.rand(3, device="hpu", dtype=dtype, generator=torch.Generator())
        assert torch.rand(3, device="hpu", dtype=dtype, generator=torch.Generator("hpu")).shape == (3,)
    for call in (lambda: torch.equal(x, x.cpu()), lambda: torch.equal(x.cpu(), x)):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            call()
    assert torch.equal(x, x.clone())


@on_device()
def test_a_number_that_does_not_fit_after_one_that_does() -> None:
    """Numbers are read at run time, so that the second call would be the program of the first."""
    calls: list[Callable[[Any, Any], Any]] = [
        lambda x, n: x.clone().fill_(n), lambda x, n: x.masked_fill(x > 0, n), lambda x, n: x.clamp(max=n),
    ]  # fmt: skip
    for dtype, right, wrong in ((torch.int8, 5, 300), (torch.int32, 5, 1 << 40), (torch.float32, 5.0, 1e300)):
        for call in calls:
            x = torch.ones(3, dtype=dtype)
            assert torch.equal(call(x.to("hpu"), right).cpu(), call(x, right))
            got = raised(lambda x=x, call=call, wrong=wrong: call(x.to("hpu"), wrong))
            assert got is not None and str(got) == str(raised(lambda x=x, c=call, wrong=wrong: c(x, wrong)))


@on_device()
def test_integers_beside_numbers_beyond_their_type() -> None:
    x = torch.tensor([0, 2, 254], dtype=torch.uint8)
    for n in (7, 300, -1):
        assert torch.equal((x.to("hpu") + n).cpu(), x + n)
        assert torch.equal((x.to("hpu") < n).cpu(), x < n)
    for n in (1.5, -2.5, 1e300, float("nan"), float("-inf")):
        for op in (torch.eq, torch.lt):
            assert torch.equal(op(x.to("hpu"), n).cpu(), op(x, n)), (op, n)
            assert torch.equal(op(x.long().to("hpu"), n).cpu(), op(x.long(), n)), (op, n)
