"""torch.Generator("hpu") and torch.hpu.random: seeds, states, copies."""

from __future__ import annotations

import copy
import pickle

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch


@on_device()
def test_a_generator_of_the_device_is_one_of_pytorchs() -> None:
    made, plain = torch.Generator("hpu"), torch.Generator()
    assert made.device == torch.device("hpu:0") and plain.device == torch.device("cpu")
    for g in (made, plain, torch.default_generator):
        assert isinstance(g, torch.Generator)
    assert not isinstance(plain, type(made)) or type(plain) is not type(made)
    assert made.manual_seed(5) is made and made.initial_seed() == 5


@on_device()
def test_its_numbers_follow_from_its_seed_alone() -> None:
    def drawn(g: torch.Generator) -> list[torch.Tensor]:
        return [
            torch.rand(50, generator=g, device="hpu").cpu(),
            torch.empty(50, device="hpu").normal_(generator=g).cpu(),
            torch.randint(0, 9, (50,), generator=g, device="hpu").cpu(),
            torch.randperm(9, generator=g, device="hpu").cpu(),
        ]

    first = drawn(torch.Generator("hpu").manual_seed(1))
    torch.rand(3, device="hpu")
    g = torch.Generator("hpu").manual_seed(1)
    again, later = drawn(g), drawn(g)
    for a, b, c in zip(first, again, later, strict=True):
        assert torch.equal(a, b) and not torch.equal(a, c)
    state = g.get_state()
    want = drawn(g)
    for twin in (g, copy.deepcopy(g), pickle.loads(pickle.dumps(g)), g.clone_state()):
        twin.set_state(state)
        assert twin.device.type == "hpu" and all(map(torch.equal, drawn(twin), want))


@on_device()
def test_the_devices_own_state_is_seeded_and_restored() -> None:
    torch.hpu.manual_seed_all(7)
    assert torch.hpu.random.initial_seed() == torch.hpu.initial_seed() == 7
    (state,) = torch.hpu.random.get_rng_state_all()
    want = torch.rand(20, device="hpu").cpu()
    torch.hpu.set_rng_state_all([state])
    assert torch.equal(torch.rand(20, device="hpu").cpu(), want)
    with torch.random.fork_rng(device_type="hpu", devices=[0]):
        torch.rand(20, device="hpu")
        torch.hpu.set_rng_state(state)
    after = torch.rand(20, device="hpu").cpu()
    torch.hpu.set_rng_state(state, "hpu:0")
    torch.rand(20, device="hpu")
    assert torch.equal(torch.rand(20, device="hpu").cpu(), after)
    torch.hpu.seed()
    assert torch.hpu.initial_seed() != 7
