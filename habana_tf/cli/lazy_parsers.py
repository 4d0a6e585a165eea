"""Command parsers whose arguments are declared only when the command is chosen.

Declaring the arguments of all commands takes longer, and imports more, than most commands take to run. So a command is
listed as one line (name, help, the function that declares it). The rest is declared when the command line names it, or
when all words are needed (`completion`).

argparse takes up to a millisecond to make a parser, and there are two dozen: so the words after a command's name are
parsed by that command's parser alone, and all parsers are made only for help, errors and completion.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from habana_tf.reports.characters import columns


def _formatter(prog: str) -> argparse.HelpFormatter:
    """What argparse formats help with. It makes one for every argument that is declared, too, and would import modules
    for archives (`shutil`) each time to ask how wide the terminal is."""
    return argparse.RawDescriptionHelpFormatter(prog, width=columns(80) - 2)


class LazyParser(argparse.ArgumentParser):
    """A parser whose arguments are declared at first use, by the function that `where` names ("module:function").

    The function gets the parser. An empty `where` is a parser that is declared already.
    """

    def __init__(self, *, where: str = "", **options: Any) -> None:
        super().__init__(formatter_class=_formatter, **options)
        self._where = where
        self._what = ""
        self._rows: dict[str, tuple[str, str]] = {}
        self._made: dict[str, LazyParser] = {}

    def declared(self) -> LazyParser:
        """This parser, with its arguments."""
        if self._where:
            from importlib import import_module

            module, _, function = self._where.partition(":")
            self._where = ""
            getattr(import_module(module), function)(self)
        return self

    def complete(self) -> LazyParser:
        """This parser with its arguments and the parsers of all its commands."""
        self.declared()
        if self._what:
            commands = self.add_subparsers(
                title=f"{self._what}s", metavar=self._what.upper(), required=True, parser_class=LazyParser,
                prog=self.prog,  # or argparse formats a whole usage line for it
            )  # fmt: skip
            self._what = ""
            for name, (help_, where) in self._rows.items():
                commands.add_parser(name, help=help_, description=_sentence(help_), where=where)
        return self

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As every parser's. All parsing goes through here, also that of argparse itself with a command's parser."""
        self.declared()
        words = sys.argv[1:] if args is None else list(args)
        if words and words[0] in self._rows:
            help_, where = self._rows[words[0]]
            command = self._made.get(words[0])
            if command is None:
                command = LazyParser(prog=f"{self.prog} {words[0]}", description=_sentence(help_), where=where)
                self._made[words[0]] = command
            return command.parse_known_args(words[1:], namespace)
        self.complete()
        return super().parse_known_args(words, namespace)

    def format_usage(self) -> str:
        return super(LazyParser, self.complete()).format_usage()

    def format_help(self) -> str:
        return super(LazyParser, self.complete()).format_help()


def listed(parser: argparse.ArgumentParser, what: str, rows: Sequence[tuple[str, str, str]]) -> None:
    """Gives a LazyParser commands. what: "command" or another word for them. rows: name, help and where, of each."""
    assert isinstance(parser, LazyParser), "only a LazyParser has commands"
    parser._what, parser._rows = what, {name: (help_, where) for name, help_, where in rows}


def _sentence(help_: str) -> str:
    return f"{help_[0].upper()}{help_[1:]}."
