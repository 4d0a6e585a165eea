"""`torch.hpu.random`: the state of the device's random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from habana_tf.torch.device import generator
from habana_tf.torch.record import random_state
from habana_tf.torch.record.current import index

__all__ = [
    "default_generators", "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all",
    "seed", "seed_all", "set_rng_ctx", "set_rng_state", "set_rng_state_all", "unset_rng_ctx",
]  # fmt: skip

default_generators = [generator.default]
"""One for each card of the process, as `torch.cuda.default_generators` has."""


def manual_seed(seed: int) -> None:
    """Seeds the random numbers."""
    random_state.default.manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """See `manual_seed`; torch.manual_seed calls this."""
    manual_seed(seed)


def initial_seed() -> int:
    """The seed that the random numbers began with."""
    return random_state.default.initial_seed


def seed() -> int:
    """Seeds the random numbers unpredictably. Returns the seed."""
    return random_state.default.seed()


def seed_all() -> None:
    """See `seed`."""
    seed()


def get_rng_state(device: Any = None) -> torch.Tensor:
    """The state of the random numbers, a tensor of bytes on the CPU."""
    index(device)
    return random_state.default.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
    """Sets a state that `get_rng_state` has returned."""
    index(device)
    random_state.default.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The state of each card, of which there is one."""
    return [get_rng_state()]


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """See `set_rng_state`. Raises RuntimeError unless it is the state of one card."""
    if len(new_states) != 1:
        raise RuntimeError(f"set_rng_state_all got the states of {len(new_states)} cards: a process has one")
    set_rng_state(new_states[0])


def set_rng_ctx(name: str) -> None:
    """Chooses the kind of random numbers, as DTensor does around its own: "philox", which the device's always are.
    Raises ValueError for another."""
    if name != "philox":
        raise ValueError(f'the random numbers of the device hpu are "philox", not "{name}"')


def unset_rng_ctx(name: str) -> None:
    """Ends what `set_rng_ctx` began."""
    set_rng_ctx(name)
