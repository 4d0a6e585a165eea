"""Parsers that are declared when they are chosen.

To declare the arguments of every command takes longer, and imports more, than most commands take to run. So a command
is one line where it is listed (its name, its help, and where the function is that declares it), and the rest follows
when the command line names it, or when somebody asks for all words (`completion`).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any


def _formatter(prog: str) -> argparse.HelpFormatter:
    """What argparse formats help with. It makes one for every argument that is declared, too, and would import modules
    for archives (`shutil`) each time to ask how wide the terminal is."""
    return argparse.RawDescriptionHelpFormatter(prog, width=_columns() - 2)


def _columns() -> int:
    """Of the terminal, as for `shutil`: what COLUMNS says, what the terminal says, 80."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


class Later(argparse.ArgumentParser):
    """A parser whose arguments are declared at first use, by the function that `where` names ("module:function").

    The function gets the parser. An empty `where` is a parser that is declared already.
    """

    def __init__(self, *, where: str = "", **options: Any) -> None:
        super().__init__(formatter_class=_formatter, **options)
        self._where = where

    def declared(self) -> Later:
        """This parser, with its arguments."""
        if self._where:
            from importlib import import_module

            module, _, function = self._where.partition(":")
            self._where = ""
            getattr(import_module(module), function)(self)
        return self

    def parse_known_args(self, *arguments: Any, **options: Any) -> Any:
        """As every parser's; whoever parses with a command's parser, argparse itself too, comes by here."""
        self.declared()
        return super().parse_known_args(*arguments, **options)


def listed(parser: argparse.ArgumentParser, what: str, rows: Sequence[tuple[str, str, str]]) -> None:
    """Gives `parser` sub-commands. what: "command" or another word for them. rows: name, help and where, of each."""
    commands = parser.add_subparsers(
        title=f"{what}s", metavar=what.upper(), required=True, parser_class=Later,
        prog=parser.prog,  # or argparse formats a whole usage line for it
    )  # fmt: skip
    for name, help_, where in rows:
        commands.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.", where=where)
