"""The state of the device's random numbers."""

from __future__ import annotations

import math

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch


def _drawn() -> list[torch.Tensor]:
    """Of an op of a program, and of one that runs on the CPU."""
    return [torch.rand(100, device="hpu").cpu(), torch.randperm(100, device="hpu").cpu()]


@on_device()
def test_both_ways_to_seed_give_the_same_numbers_again() -> None:
    for seed in (torch.manual_seed, torch.hpu.manual_seed, torch.hpu.manual_seed_all):
        seed(7)
        first, later = _drawn(), _drawn()
        seed(7)
        assert all(map(torch.equal, first, _drawn())) and all(map(torch.equal, later, _drawn()))
        assert not any(map(torch.equal, first, later))
        seed(8)
        assert not any(map(torch.equal, first, _drawn()))


@on_device()
def test_the_state_is_bytes_that_go_back() -> None:
    torch.manual_seed(3)
    _drawn()
    state = torch.hpu.get_rng_state()
    first = _drawn()
    torch.hpu.set_rng_state(state)
    assert all(map(torch.equal, first, _drawn()))
    assert state.dtype is torch.uint8 and torch.hpu.initial_seed() == 3
    for wrong, error in ((state[:-1], RuntimeError), (state.int(), TypeError)):
        with pytest.raises(error):
            torch.hpu.set_rng_state(wrong)


@on_device()
def test_what_the_device_draws_leaves_the_cpus_generator_alone() -> None:
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    _drawn()
    assert torch.equal(torch.rand(3), want)


@on_device()
def test_a_generator_that_is_given_is_drawn_from() -> None:
    def drawn(seed: int) -> torch.Tensor:
        generator = torch.Generator("hpu").manual_seed(seed)
        return torch.empty(50, device="hpu").uniform_(generator=generator).cpu()

    before = torch.hpu.get_rng_state()
    assert torch.equal(drawn(1), drawn(1)) and not torch.equal(drawn(1), drawn(2))
    assert torch.equal(torch.hpu.get_rng_state(), before)


@on_device()
def test_a_seed_that_nothing_predicts() -> None:
    torch.hpu.seed()
    first = torch.hpu.initial_seed()
    torch.hpu.seed()
    assert torch.hpu.initial_seed() != first


@on_device(modes=("lazy",))
def test_numbers_have_their_distribution() -> None:
    torch.manual_seed(1)
    n = 40_000
    x = torch.empty(n, device="hpu")
    for drawn, mean, spread in (
        (x.clone().uniform_(-1, 3), 1, 4 / 12**0.5), (x.clone().normal_(2, 3), 2, 3),
        (x.clone().bernoulli_(0.3), 0.3, 0.21**0.5), (x.clone().exponential_(2), 0.5, 0.5),
        (x.clone().bernoulli_(torch.full_like(x, 0.3)), 0.3, 0.21**0.5),
        (x.clone().log_normal_(1, 0.25).log(), 1, 0.25),
        (x.clone().cauchy_(2, 3).sub(2).div(3).atan(), 0, math.pi / 12**0.5),
        (x.clone().geometric_(0.25), 4, 12**0.5), (torch.randint(0, 10, (n,), device="hpu"), 4.5, 8.25**0.5),
    ):  # fmt: skip
        got = drawn.cpu().double()
        assert abs(got.mean() - mean) < 5 * spread / n**0.5 and abs(got.std() / spread - 1) < 0.05, (mean, spread)
    assert set(torch.randint(-2, 3, (500,), device="hpu").tolist()) == {-2, -1, 0, 1, 2}
    assert torch.equal(torch.randperm(1000, device="hpu").sort()[0].cpu(), torch.arange(1000))
    shares = torch.multinomial(torch.tensor([0.0, 1.0, 3.0], device="hpu"), n, True).cpu().bincount(minlength=3)
    assert shares[0] == 0 and abs(shares[2] / n - 0.75) < 0.02
    assert x.bfloat16().uniform_().max().item() < 1


@on_device(modes=("lazy",))
def test_dropout_scales_what_it_keeps_and_its_gradient() -> None:
    x = torch.ones(1000, device="hpu", requires_grad=True)
    for y in (torch.nn.functional.dropout(x, 0.2), torch.native_dropout(x, 0.2, True)[0]):
        (grad,) = torch.autograd.grad(y.sum(), x)
        kept = y.detach().cpu()
        assert set(kept.tolist()) == {0.0, 1.25} and torch.equal(grad.cpu(), kept) and 150 < (kept == 0).sum() < 250


@on_device()
def test_classes_are_drawn_by_weights_of_all_types() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for weights in ([2.0], [0.0, 2.0], [0.0, 1.0, 0.0], [[1.0, 0.0], [0.0, 3.0]]):
            p = torch.tensor(weights, dtype=dtype)
            only = p.argmax(-1, keepdim=True)
            for count in (1, 5):
                drawn = torch.multinomial(p.to("hpu"), count, replacement=True)
                assert torch.equal(drawn.cpu(), only.expand(*p.shape[:-1], count)), (dtype, weights, count)
            assert torch.equal(torch.multinomial(p.to("hpu"), 1).cpu(), only)
        every = torch.multinomial(torch.tensor([1.0, 2.0], dtype=dtype, device="hpu"), 2)
        assert every.sort().values.tolist() == [0, 1]
        drawn = torch.multinomial(torch.tensor([1.0, 3.0], dtype=dtype, device="hpu"), 4000, replacement=True)
        assert abs(drawn.float().mean().item() - 0.75) < 0.05
