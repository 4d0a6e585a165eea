"""A command's module is imported when the command is named, and not before."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest

from habana_tf.cli.lazy_parsers import LazyParser, listed

declared: list[str] = []


def declare_add(parser: argparse.ArgumentParser) -> None:
    declared.append("add")
    parser.add_argument("number", type=int)
    parser.set_defaults(run=lambda arguments: arguments.number)


def declare_more(parser: argparse.ArgumentParser) -> None:
    declared.append("more")
    listed(parser, "action", [("add", "add a number", f"{__name__}:declare_add")])


@pytest.fixture
def parser() -> LazyParser:
    declared.clear()
    made = LazyParser(prog="tool")
    listed(made, "command", [("add", "add a number", f"{__name__}:declare_add"),
                             ("more", "more of it", f"{__name__}:declare_more")])  # fmt: skip
    return made


def test_only_what_is_named_is_declared(parser: LazyParser) -> None:
    assert parser.parse_args(["add", "3"]).number == 3
    assert declared == ["add"]


def test_also_below_another_one(parser: LazyParser) -> None:
    chosen = parser.parse_args(["more", "add", "4"])
    assert chosen.run(chosen) == 4
    assert declared == ["more", "add"]


def test_once(parser: LazyParser) -> None:
    parser.parse_args(["add", "3"])
    parser.parse_args(["add", "4"])
    assert declared == ["add"]


def test_help_needs_no_declaration(parser: LazyParser) -> None:
    assert "add a number" in parser.format_help()
    assert declared == []


@pytest.mark.parametrize(
    "words", ["more add 3 x", "more add", "more add x", "add 3 --x", "more", "less", "", "more -h", "-h", "more less 3"]
)
def test_errors_and_help_are_those_of_argparse(
    parser: LazyParser, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What parsing with one command's parser says is what parsing with all of them said."""
    usual = argparse.ArgumentParser(prog="tool", formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = usual.add_subparsers(title="commands", metavar="COMMAND", required=True)
    adds = [commands.add_parser("add", help="add a number", description="Add a number.")]
    more = commands.add_parser("more", help="more of it", description="More of it.")
    actions = more.add_subparsers(title="actions", metavar="ACTION", required=True)
    adds.append(actions.add_parser("add", help="add a number", description="Add a number."))
    for add in adds:
        add.add_argument("number", type=int)
    monkeypatch.setenv("COLUMNS", "82")
    said = []
    for either in (usual, parser):
        with pytest.raises(SystemExit) as ended:
            either.parse_args(words.split())
        said.append((ended.value.code, *capsys.readouterr()))
    assert said[0] == said[1]


def test_usage_and_help_of_a_command_are_those_declared(parser: LazyParser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(["more", "add", "--help"])
    out = capsys.readouterr().out
    assert out.startswith("usage: tool more add [-h] number\n")
    assert "Add a number." in out


def test_help_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("40", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        usual = argparse.ArgumentParser(prog="tool", formatter_class=argparse.RawDescriptionHelpFormatter)
        usual.add_argument("--number", help="words " * 100)
        ours = LazyParser(prog="tool")
        ours.add_argument("--number", help="words " * 100)
        assert ours.format_help() == usual.format_help()


@pytest.mark.parametrize(
    ("words", "imported"),
    [("--help", ""), ("recipes --help", "recipes"), ("recipes list --help", "recipes recipes.common recipes.listing"),
     ("recipes path --path .", "recipes recipes.common recipes.upkeep")],
)  # fmt: skip
def test_what_a_command_imports_of_the_others(words: str, imported: str) -> None:
    code = (
        "import sys; from habana_tf.cli.main import main\n"
        f"try: main({words.split()})\n"
        "except SystemExit: pass\n"
        "own = {f'habana_tf.cli{m}' for m in ('', '.main', '.lazy_parsers', '.output')}\n"
        "loaded = {m for m in sys.modules if m.startswith('habana_tf.cli')} - own\n"
        "print(*sorted(m.removeprefix('habana_tf.cli.') for m in loaded), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == imported
