"""The cards of the simulated machine, and which of them this process may use.

What: a machine has HABANA_SIM_CARDS cards with module ids 0, 1, ... One process uses one card, as on Gaudi.
HABANA_VISIBLE_MODULES limits the choice and HLS_MODULE_ID makes it. Otherwise a process started by a launcher takes the
visible card of its local rank (in an elastic job the first free one, if that card is held), and any other process the
first visible one that is free.

Invariant: a card that does not exist is an error that names the variable at fault, never another card.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass

from habana_tf import settings
from habana_tf.hardware import machine, ranks
from habana_tf.hardware.chips import Chip, chip

# The first is the address of a card in a real Gaudi2 server; the others have the same form.
_BUSES = ("19", "1a", "33", "34", "9a", "9b", "b3", "b4")


class CardError(RuntimeError):
    """A card was asked for that does not exist, may not be used, or is held by another process."""


@dataclass(frozen=True)
class Card:
    """One simulated card. `index` is its place in listings; scripts name cards by `module_id`.

    `serial` and `uuid` differ between machines; their form is ours.
    """

    index: int
    module_id: int
    bus_id: str
    serial: str
    uuid: str
    chip: Chip


@dataclass(frozen=True)
class Choice:
    """Cards to try, in this order, and in words why these."""

    cards: tuple[Card, ...]
    reason: str


def cards() -> tuple[Card, ...]:
    """All cards of the machine, in the order of their module ids."""
    kind = chip()
    number = zlib.crc32(f"{os.uname().nodename}:{machine.directory()}".encode())
    return tuple(
        Card(
            index=index,
            module_id=index,
            bus_id=f"0000:{_BUSES[index]}:00.0",
            serial=f"SIM{number:08X}{index}",
            uuid=f"SIM0-{kind.product}-{number:08X}-0{index}",
            chip=kind,
        )
        for index in range(settings.HABANA_SIM_CARDS.get())
    )


def visible_cards() -> tuple[Card, ...]:
    """The cards this process may use, in the order HABANA_VISIBLE_MODULES names them.

    Raises CardError when a module in that list does not exist, or the machine has no cards.
    """
    by_module = {card.module_id: card for card in cards()}
    if not by_module:
        raise CardError(
            "this simulated machine has no cards (HABANA_SIM_CARDS=0): unset it, or set it to a number from 1 to "
            f"{len(_BUSES)}"
        )
    modules = settings.HABANA_VISIBLE_MODULES.get() or tuple(by_module)
    for module in modules:
        if module not in by_module:
            raise _missing(settings.HABANA_VISIBLE_MODULES, module)
    return tuple(by_module[module] for module in modules)


def choice() -> Choice:
    """The cards this process may be given: HLS_MODULE_ID's, the one of its local rank, or all visible ones.

    Raises CardError when that card does not exist or is not visible, ranks.RankError, settings.SettingError.
    """
    allowed = visible_cards()
    module = settings.HLS_MODULE_ID.get()
    if module is not None:
        reason = f"{settings.HLS_MODULE_ID.source()}={module} asks for card {module}"
        return Choice((_of_module(module, allowed),), reason)
    launched = ranks.launched()
    if launched is not None:
        return _of_rank(launched, allowed)
    listed = ",".join(str(card.module_id) for card in allowed)
    return Choice(allowed, f"it may use card{'' if len(allowed) == 1 else 's'} {listed}")


def _of_module(module: int, allowed: tuple[Card, ...]) -> Card:
    for card in allowed:
        if card.module_id == module:
            return card
    if module >= len(cards()):
        raise _missing(settings.HLS_MODULE_ID, module)
    listed = ",".join(str(card.module_id) for card in allowed)
    raise CardError(
        f"{settings.HLS_MODULE_ID.source()}={module} is not among HABANA_VISIBLE_MODULES={listed}: "
        f"choose one of these, or add {module} to HABANA_VISIBLE_MODULES"
    )


def _of_rank(launched: ranks.Ranks, allowed: tuple[Card, ...]) -> Choice:
    rank = launched.local_rank
    if rank < len(allowed):
        card = allowed[rank]
        reason = f"local rank {rank} ({launched.source}) gets card {card.module_id}"
        if settings.HOROVOD_ELASTIC.get():  # local ranks are given anew while processes keep their cards
            others = tuple(each for each in allowed if each is not card)
            return Choice((card, *others), f"{reason}, or in an elastic job another visible one")
        return Choice((card,), reason)
    listed = ",".join(str(card.module_id) for card in allowed)
    raise CardError(
        f"local rank {rank} ({launched.source}) of {launched.local_size} processes on this host has no card: it may "
        f"use the {len(allowed)} card(s) {listed}. Start at most {len(allowed)} processes per host, or make more cards "
        f"visible (HABANA_VISIBLE_MODULES) or simulate more (HABANA_SIM_CARDS, at most {len(_BUSES)})"
    )


def _missing(setting: settings.Setting[tuple[int, ...]] | settings.Setting[int | None], module: int) -> CardError:
    last = len(cards()) - 1
    return CardError(
        f"{setting.source()} asks for the card with module id {module}, but this simulated machine has "
        f"{last + 1} card(s), module ids 0 to {last}: correct {setting.source()}, or simulate more cards "
        f"with HABANA_SIM_CARDS (at most {len(_BUSES)})"
    )
