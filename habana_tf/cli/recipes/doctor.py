"""`habana-tf recipes path` and `doctor`: where the cache is, and what keeps it from working."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from habana_tf.cli.output import print_json, print_table
from habana_tf.cli.recipes.common import action
from habana_tf.files.escaped import escaped
from habana_tf.reports.table import Styled
from habana_tf.reports.units import size

if TYPE_CHECKING:
    from habana_tf.cache import Health

_LITTLE_SPACE = 256 << 20


def declare_path(parser: argparse.ArgumentParser) -> None:
    action(parser, _path, "path", "path --json")


def declare_doctor(parser: argparse.ArgumentParser) -> None:
    action(parser, _doctor, "doctor", "doctor --json")


def _path(arguments: argparse.Namespace) -> int:
    import os

    from habana_tf.cache.reader import root_of

    root = os.path.abspath(root_of(arguments.path))
    if arguments.json:
        print_json({"path": root, "exists": os.path.isdir(root)})
    else:
        print(root)
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    """Exit code 1 when something keeps the cache from working as it should."""
    from dataclasses import asdict

    from habana_tf import cache, settings

    health = cache.health(arguments.path)
    mode = settings.HABANA_SIM_CACHE_MODE.get()
    key = settings.HABANA_SIM_CACHE_SIGNING_KEY.get()
    rows = checks(health)
    healthy = all(good for _, good, _ in rows)
    if arguments.json:
        print_json({**asdict(health), "mode": mode, "signing_key": key, "healthy": healthy})
        return 0 if healthy else 1
    print(escaped(health.root))
    marks = [Styled("ok", "green") if good else Styled("PROBLEM", "red") for _, good, _ in rows]
    print_table(["", "", ""], [(name, mark, text) for mark, (name, _, text) in zip(marks, rows, strict=True)])
    return 0 if healthy else 1


def checks(health: Health) -> list[tuple[str, bool, str]]:
    """(name, whether it is as it should be, what was found) of everything that keeps a cache from working."""
    import os

    from habana_tf import settings
    from habana_tf.cache.reader import VERSION

    mode = settings.HABANA_SIM_CACHE_MODE.get()
    status = os.stat(health.root)
    trusted = health.refused or f"owner {status.st_uid}, mode {status.st_mode & 0o7777:o}"
    kind = (health.file_system or "unknown") + (", other machines may write" if health.network else "")
    versions = ", ".join(f"{v} (this one)" if v == VERSION else v for v in health.versions)
    unwritable = "no: " + ("HABANA_SIM_CACHE_MODE=ro" if mode == "ro" else "recipes are compiled anew by every process")
    return [
        ("believed", health.refused is None, trusted),
        ("recipes", not health.unusable, _unusable(health.unusable)),
        ("writable", health.writable or mode == "ro", "yes" if health.writable else unwritable),
        ("locks", health.locks is None, health.locks or ("work" if health.writable else "not tried: not writable")),
        ("file system", True, kind),
        ("free space", health.free_bytes > _LITTLE_SPACE, size(health.free_bytes)),
        ("size", health.used_bytes <= health.limit_bytes, f"{size(health.used_bytes)} of {size(health.limit_bytes)}"),
        ("format versions", True, versions or "none yet"),
        ("mode", mode != "off", mode),
        ("signing key", *_signing_key()),
    ]


def _signing_key() -> tuple[bool, str]:
    from habana_tf import settings
    from habana_tf.cache.signature import SigningKey
    from habana_tf.files.trust import Refused

    path = settings.HABANA_SIM_CACHE_SIGNING_KEY.get()
    if not path:
        return True, "none: the owner decides"
    try:
        SigningKey.load(path, settings.HABANA_SIM_CACHE_OWNER.get())
    except (OSError, Refused) as error:
        return False, f"{path}: {error.strerror if isinstance(error, OSError) else error}"
    return True, path


def _unusable(found: tuple[tuple[str, str], ...]) -> str:
    if not found:
        return "all can be used (`verify` reads them whole)"
    (path, why), *more = found
    others = f"; and {len(more)} more (`verify` names them)" if more else ""
    return (why if path in why else f"{path}: {why}") + others
