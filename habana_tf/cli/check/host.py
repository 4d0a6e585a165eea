"""Checks of the machine and its settings: variables, cards, memory, shared memory.

Nothing is claimed, and nothing changed but that the directory of the simulated machine may appear, as any program on
HPU makes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from habana_tf import settings
from habana_tf.cli.check.finding import Finding
from habana_tf.reports.units import size

_LITTLE_MEMORY = 2 << 30
"""What TensorFlow, the compiler's processes and a small network take together."""
_LITTLE_SHARED = 64 << 20
"""What a container has by default. Open MPI takes some 4 MiB for each rank of a host."""
_SHARED = "/dev/shm"


def variables() -> Iterator[Finding]:
    """Whether every variable that habana_tf reads has a value that is allowed, and each HABANA_SIM_ one exists."""
    from habana_tf.settings import habana

    wrong = []
    for ask in (habana.check, *(setting.get for setting in settings.declared())):
        try:
            ask()
        except settings.SettingError as error:
            wrong.append(str(error))
    wrong += [f"nothing reads {name}: did you mean {meant}?" for name, meant in habana.misspelled().items()]
    own = sorted(setting.source() or "" for setting in settings.declared() if setting.source())
    for text in wrong:
        yield Finding("settings", "problem", text, "Correct or unset it: `habana-tf settings` lists all.")
    if not wrong:
        yield Finding("settings", "ok", ", ".join(own) or "none is set")
    vain = habana.set_in_vain()
    if vain:
        yield Finding("settings", "note", f"without effect: {', '.join(vain)}", "`habana-tf settings` tells why.")


def cards() -> Iterator[Finding]:
    """Whether a process that starts now gets a card, and which processes hold the others."""
    from habana_tf.hardware import claim, machine, ranks, telemetry
    from habana_tf.hardware.cards import CardError, choice

    try:
        possible = claim.possible()
        reason = choice().reason
        held = {card.module_id: holder for card in possible if (holder := telemetry.holder(card.module_id))}
    except (CardError, machine.MachineError, ranks.RankError) as error:
        yield Finding("cards", "problem", str(error), "Correct what this sentence names.")
        return
    except settings.SettingError:
        return  # said above
    modules = [card.module_id for card in possible]
    free = [module for module in modules if module not in held]
    named = "; ".join(f"card {module}: {claim.described(holder)}" for module, holder in held.items())
    chip = possible[0].chip.name
    count = f"{len(free)} of {len(modules)} free ({chip})"
    if free:
        yield Finding("cards", "ok", f"{count}{'; held: ' if named else ''}{named}", public=count)
    else:
        yield Finding(
            "cards", "problem", f"none of {len(modules)} is free ({reason}): {named}",
            f"Wait for a holder or end it (`hl-smi` lists them), or use another simulated machine: "
            f"HABANA_SIM_STATE_DIR=DIRECTORY (now {machine.directory()}).", f"none of {len(modules)} is free ({chip})",
        )  # fmt: skip


def native() -> Iterator[Finding]:
    """Whether the compiled part of the package is there and is for this Python and this host."""
    from habana_tf.loader import LoadError, plugin_path

    again = "Install habana_tf again with this Python: pip install . in the source tree."
    try:
        from habana_tf._native import _bridge  # noqa: F401  # loads it

        plugin_path()
    except ImportError as error:
        yield Finding("native part", "problem", f"cannot be loaded: {error}", again)
    except LoadError as error:
        yield Finding("native part", "problem", str(error), again)
    else:
        yield Finding("native part", "ok", "built for this Python and this host")


def memory() -> Iterator[Finding]:
    """What the host gives, within its cgroup and limits, beside what the card has."""
    from habana_tf.hardware.chips import chip

    try:
        from habana_tf._native import _bridge
    except ImportError:
        return  # said above
    try:
        card = chip().hbm_bytes
    except settings.SettingError:
        return  # said above
    total, available = _bridge.host_memory()
    installed = installed_memory()
    fact = f"{size(available)} free of {size(total)}"
    if total < installed:
        fact += f", the limit of this process's cgroup or ulimit -v; the host has {size(installed)}"
    if available < _LITTLE_MEMORY:
        yield Finding("memory", "problem", fact, "End other programs, or give this container more memory.")
    elif total < card:
        yield Finding("memory", "note", f"{fact}; the card has {size(card)}",
                      "Where a program fails with \"host memory\", use a smaller batch or a larger host.")  # fmt: skip
    else:
        yield Finding("memory", "ok", f"{fact}; the card has {size(card)}")


def installed_memory() -> int:
    """Bytes of this host's memory, whatever part of it this process may use."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def shared_memory() -> Iterator[Finding]:
    """The size of /dev/shm, where Open MPI and data loaders have their buffers. HPUStrategy needs none of it."""
    remedy = "Start the container with more, such as docker run --shm-size=1g (HPUStrategy itself needs none)."
    try:
        status = os.statvfs(_SHARED)
    except OSError as error:
        yield Finding("shared memory", "note", f"{_SHARED}: {error.strerror}", remedy)
        return
    total, free = status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize
    fact = f"{_SHARED}: {size(free)} free of {size(total)}"
    if not os.access(_SHARED, os.W_OK | os.X_OK):
        yield Finding("shared memory", "note", f"{_SHARED} cannot be written to by this user",
                      f"Jobs under mpirun need it: chmod 1777 {_SHARED}, as root.")  # fmt: skip
    elif free <= _LITTLE_SHARED:
        yield Finding("shared memory", "note", fact, remedy)
    else:
        yield Finding("shared memory", "ok", fact)
