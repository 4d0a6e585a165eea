"""The state of the device's random numbers."""

from __future__ import annotations

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
        try:
            torch.hpu.set_rng_state(wrong)
            raise SystemError("no error")
        except error:
            pass


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
        generator = torch.Generator().manual_seed(seed)
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
