"""`habana-tf completion bash|zsh`: prints a script that completes commands, actions and options, made from the parsers.

    eval "$(habana-tf completion bash)"

The script contains all words, so that completing starts no process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from habana_tf.cli.lazy_parsers import LazyParser

_BASH = """\
_habana_tf() {{
    local line="" word index current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
    for ((index = 1; index < COMP_CWORD; index++)); do
        word="${{COMP_WORDS[index]}}"
        case "$line $word" in
{paths}
        esac
    done
    case "$line|$previous" in
{choices}
        *)
            case "$line" in
{words}
            esac
            ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    if [[ ${{#COMPREPLY[@]}} -eq 0 && $current != -* ]]; then
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _habana_tf habana-tf
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def declare(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example:\n  echo 'eval \"$(habana-tf completion bash)\"' >> ~/.bashrc\n"
    parser.add_argument("shell", choices=("bash", "zsh"))
    parser.set_defaults(run=_completion, in_any_environment=True)  # logins run it


def _completion(arguments: argparse.Namespace) -> int:
    from habana_tf.cli.main import parser

    sys.stdout.write((_ZSH if arguments.shell == "zsh" else "") + script(parser()))
    return 0


def script(root: LazyParser) -> str:
    paths: list[str] = []
    choices: list[str] = []
    words: list[str] = []
    for path, parser in _parsers(root, ""):
        here: list[str] = []
        for action in parser._actions:
            here += action.option_strings
            names = [str(choice) for choice in action.choices or ()]
            if isinstance(action, argparse._SubParsersAction):
                paths += [f'            "{path} {name}") line="{path} {name}" ;;' for name in names]
            if not action.option_strings:
                here += names
            elif names:
                choices += [f'        "{path}|{o}") words="{" ".join(names)}" ;;' for o in action.option_strings]
        words.append(f'                "{path}") words="{" ".join(here)}" ;;')
    return _BASH.format(paths="\n".join(paths), choices="\n".join(choices), words="\n".join(words))


def _parsers(parser: LazyParser, path: str) -> Iterator[tuple[str, LazyParser]]:
    """Every parser with the words that lead to it."""
    yield path, parser.complete()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from _parsers(inner, f"{path} {name}")
