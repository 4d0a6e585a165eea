"""The card of this process: claimed at its first use, held until the process ends.

What: `arm()` passes the runtime the cards it may take; the first copy to the device or the first launch claims the
first free one (kernels/runtime/card.h). A process that only loads the device, to start others, holds none. When no card
is free, the first launch fails with `none_free()`. (Copies, and the few ops that TensorFlow itself runs on any device,
such as Identity, go on without a card: they touch only this process's memory, and TensorFlow aborts when a copy fails.)

Why a record lock and not a file that says "taken": the kernel releases it when the process ends, also by SIGKILL, and a
forked child does not inherit it.
"""

from __future__ import annotations

import os
import sys
import time

from habana_tf.hardware import machine, telemetry
from habana_tf.hardware.cards import Card, CardError, cards, choice


def possible() -> tuple[Card, ...]:
    """The cards this process may claim, in the order they are tried, on a machine where it can.

    Raises CardError, machine.MachineError, ranks.RankError or settings.SettingError.
    """
    found = choice().cards
    machine.for_claiming()
    telemetry.holder(found[0].module_id)  # fails where the file system knows no locks
    return found


def arm(found: tuple[Card, ...]) -> None:
    """Lets the first use claim one of these cards."""
    from habana_tf._native import _bridge

    kind = found[0].chip
    modules = [card.module_id for card in found]
    _bridge.arm_card(machine.for_claiming(), modules, kind.name, kind.hbm_bytes, _command())


def claim() -> Card:
    """Claims the card now; a second call returns the same one. For programs that want to know before their first op.

    Raises what `possible` raises, and CardError when no card is free.
    """
    from habana_tf._native import _bridge

    if telemetry.held_here() is None:
        arm(possible())
        if not _bridge.claim_card():
            raise CardError(none_free())
    held = held_card()
    assert held is not None
    return held


def held_card() -> Card | None:
    """The card this process holds."""
    module = telemetry.held_here()
    return next((card for card in cards() if card.module_id == module), None)


def none_free() -> str:
    """Why this process gets no card: the holders of those it may use, and what to do."""
    chosen = choice()
    lines = [f"HPU has no card for this process: {chosen.reason}, and {_all(chosen.cards)} held:"]
    for card in chosen.cards:
        holder = telemetry.holder(card.module_id)
        lines.append(f"  card {card.module_id}: {'free again by now' if holder is None else described(holder)}")
    return "\n".join([*lines, advice(chosen.cards)])


def advice(possible: tuple[Card, ...]) -> str:
    """What to do where all of these cards, or too many of them, are held."""
    text = "Wait for one of these processes or end it (hl-smi lists them)"
    if len(possible) < len(cards()):
        text += ", choose other cards with HABANA_VISIBLE_MODULES or HLS_MODULE_ID"
    return text + (
        f", or use another simulated machine: HABANA_SIM_STATE_DIR=<directory> (now {machine.directory()}). "
        "One process uses one card"
    )


def _all(possible: tuple[Card, ...]) -> str:
    return "it is" if len(possible) == 1 else f"all {len(possible)} of them are"


def described(holder: telemetry.Holder) -> str:
    """The process that holds a card, for people: its number, what was started, since when."""
    process = f"pid {holder.pid}" if holder.pid else "a process of another container"
    if holder.telemetry is None:
        return process
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder.telemetry.since))
    return f"{process} ({holder.telemetry.command}), since {since}"


def _command() -> str:
    """This process as its user started it."""
    arguments = list(sys.orig_argv)
    if arguments:
        arguments[0] = os.path.basename(arguments[0])
    return " ".join(" ".join(arguments).split())
