"""The page of questions about language models: each section's programs and commands print what stands below them.

A block ```python whose first line is `# name.py` is a program, which those of other sections may import; ```sh has
commands, and the ```text behind it lines of what they print, in that order. `…` stands for anything. Blanks and rules
may be any, and so may times, sizes and shares: they are a model's of a card, or this host's.

`python -m tests.torch.test_language_models` writes the lines anew, but for those with `…`.
"""

from __future__ import annotations

import functools
import re
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import forked
from tests.child import environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "language-models.md"
FENCE = r"^```{}\n(.*?)^```$"
UNIT = r" ?(?:%|(?:ns|µs|us|ms|s|min|h|B|KiB|MiB|GiB|sequences|(?:tokens|examples)/s)\b)"
MEASURED = re.compile(rf"<?\d[\d,]*(?:\.\d+(?:e[+-]\d+)?(?:{UNIT})?|{UNIT})")
"""What another machine or another model of a card gives another number for: decimals, and numbers with a unit."""

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="not in a source tree")


def fences(text: str, language: str) -> list[str]:
    return re.findall(FENCE.format(language), text, re.MULTILINE | re.DOTALL)


def sections() -> dict[str, str]:
    """Heading to text, of those with commands."""
    parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    return {part.split("\n")[0]: part for part in parts if fences(part, "sh")} if PAGE.exists() else {}


def plain(line: str) -> str:
    """A line without what differs from run to run."""
    return MEASURED.sub("#", " ".join(line.replace("─", " ").split()))


def found(shown: str, said: Sequence[str]) -> Iterator[tuple[str, int | None]]:
    """The lines that are shown, each with the number of the line behind the last one that says so."""
    at = 0
    for line in shown.splitlines():
        if not plain(line):
            continue
        words = [re.escape(part.strip()) for part in plain(line).split("…")]
        pattern = re.compile(".*".join(words) + ("" if line.endswith("…") else "$"))
        where = next((k for k in range(at, len(said)) if pattern.match(plain(said[k]))), None)
        yield line, where
        at = at if where is None else where + 1


def missing(shown: str, said: str) -> str:
    """The first line that is shown and was not said behind those before it; empty where all were."""
    return next((line for line, where in found(shown, said.splitlines()) if where is None), "")


def written(section: str, said: Sequence[str]) -> str:
    """A section with the lines as they are printed now, and the rules below headings of tables."""
    out = section
    for shown in fences(section, "text"):
        lines = []
        for line, where in found(shown, said):
            lines.append(line if where is None or "…" in line else said[where].rstrip())
            if (
                where is not None
                and "…" not in line
                and said[where + 1 : where + 2]
                and said[where + 1].startswith("─")
            ):
                lines.append(said[where + 1].rstrip())
        out = out.replace(f"```text\n{shown}```", "```text\n" + "".join(f"{line}\n" for line in lines) + "```")
    return out


@functools.cache
def said_by(command: str, fails: bool) -> str:
    """What a command prints in a folder with the page's programs. Two sections may have the same one."""
    words = shlex.split(command)
    own = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    words = words[len(own) :]
    words = ["-m", "habana_tf.cli", *words[1:]] if words[0] == "habana-tf" else words[1:]
    programs = re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        for name, program in programs:
            (Path(folder) / name).write_text(f"# {name}\n{program}")
        env = environment(HOME=folder, COLUMNS="120", **own)
        done = forked.run(words, env, 300, folder, hpu=True, framework="torch")
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"{command}\n{said}"
    return said


def run(section: str) -> str:
    """What the commands of a section print. One with `|| true` fails, all others do not."""
    lines = "".join(fences(section, "sh")).splitlines()
    return "\n".join(said_by(line.removesuffix(" || true"), line.endswith(" || true")) for line in lines)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("heading", sections())
def test_a_section_prints_what_stands_below_its_commands(heading: str) -> None:
    section = sections()[heading]
    said = run(section)
    shown = "".join(fences(section, "text"))
    assert not missing(shown, said), f"{missing(shown, said)!r} is not in\n{said}"


def test_there_are_fifteen_questions() -> None:
    assert PAGE.read_text().count("\n## ") == 15
    assert missing("a 3 ms\nb", "x\na  4.5 ms\nc\nb\n") == "" and missing("b\na", "a\nb") == "a"


if __name__ == "__main__":
    text = PAGE.read_text()
    for section in sections().values():
        text = text.replace(section, written(section, run(section).splitlines()))
    PAGE.write_text(text)
