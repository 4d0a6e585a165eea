"""Checks of the folder of the recipe cache: whose it is, who may write there, damage, locks, space, its settings.

Nothing changes but that its lock file may appear, as any program on HPU makes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from habana_tf import settings
from habana_tf.cli.check.finding import Finding, Status
from habana_tf.reports.units import size

if TYPE_CHECKING:
    from habana_tf.cache import Health

NAME = "recipe cache"
_LITTLE_SPACE = 256 << 20
_OWN_FOLDER = "Set TF_RECIPE_CACHE_PATH to a folder of your own"


def recipes(path: str | None = None) -> Iterator[Finding]:
    """What is wrong with a folder, by default that of TF_RECIPE_CACHE_PATH, or in one line that nothing is."""
    from habana_tf import cache
    from habana_tf.cache.reader import VERSION

    try:
        path = path or settings.TF_RECIPE_CACHE_PATH.get()
        if path is None:
            yield Finding(NAME, "note", "none: every process compiles its recipes anew",
                          f"{_OWN_FOLDER}, such as ~/.cache/recipes.")  # fmt: skip
            return
        if not os.path.lexists(path):
            yield _not_there(path)
            return
        health = cache.health(path)
        wrong = list(_wrong(health))
    except settings.SettingError:
        return  # the check of settings says it
    except (cache.NoDirectory, OSError) as error:
        yield Finding(NAME, "problem", str(error), f"{_OWN_FOLDER}.")
        return
    yield from wrong
    if not wrong:
        kind = (health.file_system or "unknown") + (", other machines may write" if health.network else "")
        formats = ", ".join(f"{v} (this one)" if v == VERSION else v for v in health.versions)
        yield Finding(
            NAME, "ok", f"{health.root}: {size(health.used_bytes)} of {size(health.limit_bytes)}, "
            f"{size(health.free_bytes)} free on the disk ({kind}); format {formats or 'none yet'}; "
            f"mode {settings.HABANA_SIM_CACHE_MODE.get()}",
        )  # fmt: skip


def _wrong(health: Health) -> Iterator[Finding]:
    """Everything that keeps a cache from working as it should."""
    mode = settings.HABANA_SIM_CACHE_MODE.get()

    def found(what: str, text: str, remedy: str, status: Status = "problem") -> Finding:
        return Finding(NAME, status, text if health.root in text else f"{health.root}: {what}: {text}", remedy)

    if health.refused is not None:
        yield found("believed", health.refused,
                    "Do what this sentence says; until then recipes are compiled anew by every process.")  # fmt: skip
    if health.unusable:
        yield found(
            "recipes", _unusable(health.unusable),
            "Run `habana-tf recipes verify`, then remove what it names: its recipes are compiled again.",
        )  # fmt: skip
    if not health.writable and mode != "ro":
        yield found("writable", "no: recipes are compiled anew by every process",
                    f"Run chmod u+rwx on it, or chown it to yourself. {_OWN_FOLDER}, if it is another's.")  # fmt: skip
    if health.locks is not None:
        yield found("locks", health.locks, "Use a folder on a file system with record locks (a local one has them).")
    if health.free_bytes <= _LITTLE_SPACE:
        yield found("free space", size(health.free_bytes),
                    "Free some space on that disk, run `habana-tf recipes prune`, or use another folder.")  # fmt: skip
    if health.used_bytes > health.limit_bytes:
        yield found("size", f"{size(health.used_bytes)} of {size(health.limit_bytes)}",
                    "Raise TF_RECIPE_CACHE_SIZE_MB, or the next program that writes there removes the oldest.",
                    "note")  # fmt: skip
    if mode == "off":
        yield found("mode", mode, "Unset HABANA_SIM_CACHE_MODE.", "note")
    if key := _signing_key():
        yield found("signing key", key, "Mend the file that HABANA_SIM_CACHE_SIGNING_KEY names; until then no recipe "
                    "is read or kept.")  # fmt: skip


def _signing_key() -> str:
    """What is wrong with the file of the key, "" where nothing is."""
    from habana_tf.cache.signature import SigningKey
    from habana_tf.files.trust import Refused

    path = settings.HABANA_SIM_CACHE_SIGNING_KEY.get()
    if path:
        try:
            SigningKey.load(path, settings.HABANA_SIM_CACHE_OWNER.get())
        except (OSError, Refused) as error:
            return f"{path}: {error.strerror if isinstance(error, OSError) else error}"
    return ""


def _unusable(found: tuple[tuple[str, str], ...]) -> str:
    (path, why), *more = found
    others = f"; and {len(more)} more (`verify` names them)" if more else ""
    return (why if path in why else f"{path}: {why}") + others


def _not_there(path: str) -> Finding:
    """A folder that is not there is made by the first recipe, where that is allowed."""
    above = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK):
        return Finding(NAME, "ok", f"{path}: not there yet; the first recipe makes it")
    return Finding(NAME, "problem", f"{path} is not there and cannot be made: {above} is not writable",
                   f"{_OWN_FOLDER}.")  # fmt: skip
