"""Commands print in any encoding and at any width."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pytest

import habana_tf
from habana_tf.cli.main import main
from habana_tf.cli.smi.main import main as smi

PACKAGE = Path(habana_tf.__file__).parent

COMMANDS = ["settings", "settings --without-effect", "ops conv", "info", "info --changes", "recipes stats",
            "recipes list", "recipes explain"]  # fmt: skip


def in_ascii(monkeypatch: pytest.MonkeyPatch) -> io.TextIOWrapper:
    """Standard output from now on; its `buffer` has what was written."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    return stream


def written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.mark.parametrize("columns", [60, 80, 140])
@pytest.mark.parametrize("command", COMMANDS)
def test_in_ascii_at_every_width(command: str, columns: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(tmp_path))
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", str(tmp_path))
    stream = in_ascii(monkeypatch)
    assert main(command.split()) in (0, 1)
    for line in written(stream).splitlines():
        longest = max(map(len, line.split()), default=0)
        assert len(line) <= columns or longest > columns // 2 - 16, "only a word sticks out"


def test_hl_smi_in_ascii(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", str(tmp_path))
    stream = in_ascii(monkeypatch)
    assert smi([]) == 0 and "HL-SMI" in written(stream)


def _calls(path: Path) -> list[str]:
    """Text files that are opened in the encoding of the moment, and consoles of rich, in a source file."""
    found = []
    source = path.read_text("utf-8")
    if not any(word in source for word in ("open(", "write_text(", "Console(")):
        return []  # most files: parsing all of them takes seconds
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        binary = any(
            isinstance(a, ast.Constant) and isinstance(a.value, str) and "b" in a.value for a in node.args[1:2]
        )
        encoded = any(keyword.arg == "encoding" for keyword in node.keywords)
        of_os = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "os" and name == "open"
        text = name == "fdopen" or (name == "open" and isinstance(node.func, ast.Name))
        if text and not (binary or encoded or of_os) and "devnull" not in ast.dump(node):
            found.append(f"{path.name}:{node.lineno} {name}")
        if name == "write_text" and not encoded and len(node.args) < 2:
            found.append(f"{path.name}:{node.lineno} {name}")
        if name == "Console" and any(keyword.arg == "color_system" for keyword in node.keywords):
            found.append(f"{path.name}:{node.lineno} a console of its own")
    return found


def test_all_text_is_written_in_a_known_encoding() -> None:
    """One helper draws reports (`reports.table`), commands never fail (`reports.characters`), files say theirs."""
    assert [call for path in sorted(PACKAGE.rglob("*.py")) for call in _calls(path)] == []
