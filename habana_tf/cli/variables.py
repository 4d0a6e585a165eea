"""`habana-tf settings`: every environment variable, its current value, and its meaning.

Habana's variables that have no effect here are listed apart, each with the reason, and so are those that other programs
read.
"""

from __future__ import annotations

import argparse
import os

from habana_tf import settings
from habana_tf.cli.output import print_json, print_table
from habana_tf.settings import habana as habana_variables


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--without-effect", action="store_true", help="only what has no effect here, or on others")
    parser.add_argument("--set", action="store_true", dest="only_set", help="only what is set now")
    parser.set_defaults(run=_settings, in_any_environment=True)  # it shows what is wrong


def _settings(arguments: argparse.Namespace) -> int:
    """Exit code 2 when a variable has a value that is not allowed or does not exist; all is printed all the same."""
    rows = []
    for setting in () if arguments.without_effect else settings.declared():
        value, error = None, None
        if arguments.only_set and setting.source() is None:
            continue
        try:
            value = setting.get()
        except settings.SettingError as wrong:
            error = str(wrong)
        rows.append((setting, value, error))
    unknown = None
    try:
        habana_variables.check()
    except settings.SettingError as wrong:
        unknown = str(wrong)
    others = [each for each in _others() if each["value"] or not arguments.only_set]
    if arguments.json:
        shown = [_as_json(*row) for row in rows] + ([{"name": None, "error": unknown}] if unknown and rows else [])
        print_json(others if arguments.without_effect else shown)
    else:
        if rows:
            print_table(["variable", "value", "default", "allowed", "meaning"], [_as_cells(*row) for row in rows])
            print("\nFor Gaudi, without effect here or read by other programs:\n")
        print_table(["variable", "value", "read by", "why"],
                    [[str(o["name"]), str(o["value"] or "unset"), str(o["read_by"] or "nobody"), str(o["why"] or "")]
                     for o in others])  # fmt: skip
        if unknown:
            print(f"\n{unknown}")
    return 2 if unknown or any(error for _, _, error in rows) else 0


def _others() -> list[dict[str, object]]:
    """Variables that scripts for Gaudi set and habana_tf does not read; what is set in vain and known by its name only
    is among them."""
    vain = habana_variables.without_effect()
    for name in habana_variables.set_in_vain():
        vain.setdefault(name, habana_variables.reason(name))
    vain |= {name: f"nothing reads it: did you mean {meant}?" for name, meant in habana_variables.misspelled().items()}
    rows: list[dict[str, object]] = [
        {"name": name, "value": os.environ.get(name), "read_by": None, "why": why} for name, why in sorted(vain.items())
    ]
    for name, reader in habana_variables.read_by_others().items():
        rows.append({"name": name, "value": os.environ.get(name), "read_by": reader, "why": None})
    return rows


def _as_json(setting: settings.Setting[object], value: object, error: str | None) -> dict[str, object]:
    return {
        "name": setting.name,
        "aliases": setting.aliases,
        "value": value,
        "default": setting.default,
        "set_by": setting.source(),
        "allowed": setting.allowed,
        "meaning": setting.meaning,
        "error": error,
    }


def _as_cells(setting: settings.Setting[object], value: object, error: str | None) -> list[str]:
    shown = "not allowed" if error else settings.shown(value)
    return [setting.name, shown, settings.shown(setting.default), setting.allowed, error or setting.meaning]
