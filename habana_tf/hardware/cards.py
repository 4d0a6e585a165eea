"""The cards of the simulated machine, and which one this process uses.

What: a machine has HABANA_SIM_CARDS cards with module ids 0, 1, ... One process uses one card, as on Gaudi.
HABANA_VISIBLE_MODULES limits the choice and HLS_MODULE_ID makes it.

Invariant: a card that does not exist is an error that names the variable at fault, never another card.
"""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf import settings
from habana_tf.hardware.chips import Chip, chip

# The first is the address of a card in a real Gaudi2 server; the others have the same form.
_BUSES = ("19", "1a", "33", "34", "9a", "9b", "b3", "b4")


class CardError(RuntimeError):
    """A card was asked for that does not exist or may not be used."""


@dataclass(frozen=True)
class Card:
    """One simulated card. `index` is its place in listings; scripts name cards by `module_id`."""

    index: int
    module_id: int
    bus_id: str
    chip: Chip


def cards() -> tuple[Card, ...]:
    """All cards of the machine, in the order of their module ids."""
    kind = chip()
    return tuple(
        Card(index=index, module_id=index, bus_id=f"0000:{_BUSES[index]}:00.0", chip=kind)
        for index in range(settings.HABANA_SIM_CARDS.get())
    )


def visible_cards() -> tuple[Card, ...]:
    """The cards this process may use, in the order HABANA_VISIBLE_MODULES names them.

    Raises CardError when a module in that list does not exist.
    """
    machine = {card.module_id: card for card in cards()}
    modules = settings.HABANA_VISIBLE_MODULES.get() or tuple(machine)
    for module in modules:
        if module not in machine:
            raise _missing(settings.HABANA_VISIBLE_MODULES, module)
    return tuple(machine[module] for module in modules)


def chosen_card() -> Card:
    """The card of this process: HLS_MODULE_ID's, or the first visible one.

    Raises CardError when that card does not exist or is not visible.
    """
    allowed = visible_cards()
    module = settings.HLS_MODULE_ID.get()
    if module is None:
        return allowed[0]
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


def _missing(setting: settings.Setting[tuple[int, ...]] | settings.Setting[int | None], module: int) -> CardError:
    last = len(cards()) - 1
    return CardError(
        f"{setting.source()} asks for the card with module id {module}, but this simulated machine has "
        f"{last + 1} card(s), module ids 0 to {last}: correct {setting.source()}, or simulate more cards "
        f"with HABANA_SIM_CARDS (at most {len(_BUSES)})"
    )
