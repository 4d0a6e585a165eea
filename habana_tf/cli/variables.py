"""`habana-tf settings`: every environment variable, its value here and now, and what it means."""

from __future__ import annotations

import argparse

from habana_tf import settings
from habana_tf.cli.output import print_json, print_table


def declare(parser: argparse.ArgumentParser) -> None:
    """Declares the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_settings)


def _settings(arguments: argparse.Namespace) -> int:
    """Exit code 2 when a variable has a value that is not allowed; the table is printed all the same."""
    rows = []
    for setting in settings.declared():
        value, error = None, None
        try:
            value = setting.get()
        except settings.SettingError as wrong:
            error = str(wrong)
        rows.append((setting, value, error))
    if arguments.json:
        print_json([_as_json(*row) for row in rows])
    else:
        print_table(["variable", "value", "default", "allowed", "meaning"], [_as_cells(*row) for row in rows])
    return 2 if any(error for _, _, error in rows) else 0


def _as_json(setting: settings.Setting[object], value: object, error: str | None) -> dict[str, object]:
    return {
        "name": setting.name,
        "aliases": setting.aliases,
        "value": value,
        "default": setting.default,
        "set_by": setting.source(),
        "allowed": setting.allowed,
        "meaning": setting.meaning,
        "in_recipe_key": setting.key,
        "error": error,
    }


def _as_cells(setting: settings.Setting[object], value: object, error: str | None) -> list[str]:
    meaning = setting.meaning + (" Part of the recipe key." if setting.key else "")
    shown = "not allowed" if error else settings.shown(value)
    return [setting.name, shown, settings.shown(setting.default), setting.allowed, error or meaning]
