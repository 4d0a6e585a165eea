"""Looks at the cards before ranks start: chooses free ones on this host, and refuses a rank whose card is held.

Why: a rank claims its card with its first op, half a minute after its start, and the error of a held card would stand
above those of all the ranks that waited for it. A card may still be taken by another process between the look and the
claim; then that error comes as it did.
"""

from __future__ import annotations

from habana_tf import settings
from habana_tf.hardware import claim, machine, ranks, telemetry
from habana_tf.hardware.cards import Card, CardError, choice, visible_cards


def choose(count: int) -> tuple[tuple[int, ...], str]:
    """(module ids, which are passed over) for ranks on this host: first those of `count` free cards, one for each rank,
    then the other visible ones, for jobs that a rank starts. Nothing and "" where the first visible ones are free:
    ranks take those by themselves.

    Raises CardError when fewer are free, and what `hardware.cards.visible_cards` and `hardware.telemetry.holder` raise.
    """
    visible = visible_cards()
    module = settings.HLS_MODULE_ID.get()
    if module is not None:
        if count > 1:
            return (), ""  # which `plan` refuses, whatever is free
        visible = tuple(card for card in visible if card.module_id == module)
    held = {card.module_id: holder for card in visible if (holder := telemetry.holder(card.module_id))}
    free = [card.module_id for card in visible if card.module_id not in held]
    if len(free) < count and visible:
        raise CardError("\n".join(_too_few(count, visible, held)))
    order, chosen = [card.module_id for card in visible], free[:count]
    if chosen == order[:count]:
        return (), ""
    passed_over = (module for module in order[: order.index(chosen[-1])] if module in held)
    others = [module for module in order if module not in chosen]
    return (*chosen, *others), "; ".join(f"card {module}: {claim.described(held[module])}" for module in passed_over)


def _too_few(count: int, visible: tuple[Card, ...], held: dict[int, telemetry.Holder]) -> list[str]:
    of = ",".join(str(card.module_id) for card in visible)
    free = len(visible) - len(held)
    need = f"{count} ranks need as many free cards" if count > 1 else "1 rank needs a free card"
    return [
        f"{need}, and {free or 'none'} of the {len(visible)} visible ({of}) {'are' if free > 1 else 'is'} free:",
        *(f"  card {module}: {claim.described(holder)}" for module, holder in held.items()),
        claim.advice(visible),
    ]


def refusal() -> str | None:
    """Why the process that this environment is for would get no card now; None where it would, or where a setting is
    wrong, of which the program's own error tells."""
    try:
        cards = choice().cards
        return None if any(telemetry.holder(card.module_id) is None for card in cards) else claim.none_free()
    except CardError as error:
        return str(error)
    except (machine.MachineError, ranks.RankError, settings.SettingError):
        return None
