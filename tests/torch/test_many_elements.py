"""Places and counts beyond 2**31 and 2**24. Such tensors are views of few elements, where that says enough."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

LONG = 1 << 31


@on_device(modes=("lazy",))
def test_places_beyond_an_int32_are_not_sorted_by_programs() -> None:
    from habana_tf.cluster.lowering_context import LoweringContext, LoweringError
    from habana_tf.ir.builder import Builder
    from habana_tf.ir.dtypes import DType
    from habana_tf.torch.ops.row import Call
    from habana_tf.torch.ops.table import rows

    for name, more in (("sort", ()), ("argsort.stable", ()), ("topk", (3,)), ("sort.stable", (True,))):
        for n, taken in ((LONG, True), (LONG + 1, False)):
            b = Builder()
            x = b.input((n,), DType.I8)
            shape = (3,) if name == "topk" else (n,)
            call = Call(LoweringContext(b), name, [(shape, DType.I8), (shape, DType.I64)])
            try:
                rows()[name].lower(call, x, *more)
            except LoweringError as why:
                assert not taken and "2**31" in str(why)
            else:
                assert taken, name


@on_device(modes=("lazy",))
def test_counts_beyond_what_a_float_can_count() -> None:
    n = (1 << 24) + 3
    ones = torch.ones(1, dtype=torch.int8, device="hpu").expand(n)
    seen: dict[str, Callable[[Any], Any]] = {
        "count_nonzero": lambda x: x.count_nonzero(),
        "count_nonzero of an axis": lambda x: x.view(1, -1).count_nonzero(1)[0],
        "sum": lambda x: x.sum(),
        "sum of booleans": lambda x: (x > 0).sum(),
        "last place": lambda x: x.cumsum(0)[-1],
        "bincount": lambda x: torch.bincount(x.clone())[1],
        "arange": lambda x: torch.arange(n, device=x.device)[-1] + 1,
    }
    for name, f in seen.items():
        assert int(f(ones)) == n, name


@on_device(modes=("lazy",))
def test_sequences_of_floats_have_their_places() -> None:
    n = 1 << 24
    for first, last, step in ((-5, n + 10, 1), (7.0, n + 100.0, 1.0), (-n - 50, 50, 1), (0, 3 * n, 2)):
        made = torch.arange(first, last, step, dtype=torch.float32, device="hpu")[-64:].cpu()
        assert torch.equal(made, torch.arange(first, last, step, dtype=torch.float32)[-64:])


@pytest.mark.rest
@on_device(modes=("lazy", "eager"))
def test_places_of_extremes() -> None:
    """With 2 GiB."""
    n = LONG + 5
    x = torch.zeros(n, dtype=torch.int8, device="hpu")
    x[n - 2 :] = 1
    assert x.argmax().item() == x.max(0).indices.item() == x.view(1, n).argmax(1).item() == n - 2
    assert x.count_nonzero().item() == x.sum().item() == 2
    assert (x == 0).sum().item() == n - 2
    assert x.nonzero().flatten().tolist() == [n - 2, n - 1]
    x[n - 2] = -1
    assert x.argmin().item() == x.min(0).indices.item() == n - 2
    assert torch.searchsorted(torch.zeros(1, dtype=torch.int8, device="hpu").expand(n), x[-1:]).item() == n


@on_device()
def test_a_long_tensor_is_filled_piece_by_piece_from_one_stretch_of_numbers() -> None:
    from habana_tf.torch.dispatch import composed

    def filled() -> list[torch.Tensor]:
        torch.manual_seed(3)
        x, y = torch.empty(10, 100, device="hpu"), torch.empty(1000, dtype=torch.int8, device="hpu")
        made = [x.uniform_(-1, 1).clone(), x.bernoulli_(0.3).clone(), x.exponential_(), y.random_().clone()]
        return [t.cpu() for t in (*made, y.random_(-5, 90), torch.rand(4, device="hpu"))]

    whole, long, piece = filled(), composed._LONG, composed._PIECE
    try:
        composed._LONG, composed._PIECE = 512, 64
        for got, want in zip(filled(), whole, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0)
    finally:
        composed._LONG, composed._PIECE = long, piece


@pytest.mark.rest
@on_device()
def test_to_fill_a_long_tensor_takes_little_more_memory_than_it_has() -> None:
    n = 1 << 29
    x = torch.zeros(n, dtype=torch.int8, device="hpu")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert x.random_()[-1000:].unique().numel() > 50
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 3 * (n >> 10)
