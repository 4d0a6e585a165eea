"""What comes from outside reaches a log and a terminal as text, whatever is in it."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from habana_tf.cache.disk import Store
from habana_tf.cli.main import main
from habana_tf.files import trust
from habana_tf.files.escaped import escaped
from tests.cache.conftest import _make_entry
from tests.child import environment, python

NASTY = "a\x1b]0;owned\x07\x1b[2J\nhabana_tf: all is well\r\x9b31m\u202e\udcff"


def is_clean(text: str) -> bool:
    """No control characters but ends of lines, and no line that the name of a file has made."""
    return all(c.isprintable() or c == "\n" for c in text) and "\nhabana_tf: all is well" not in text


def test_what_is_not_printable_is_shown_as_python_writes_it() -> None:
    assert escaped(NASTY).isprintable() and escaped(NASTY).startswith(r"a\x1b]0;owned\x07\x1b[2J\nhabana_tf")
    assert escaped("größe 数\t\n", keep="\n") == "größe 数\\t\n" and escaped(3) == "3"
    assert escaped("\udcff\U000e0001") == r"\udcff\U000e0001"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory whose path steers terminals, with a damaged entry of a file name that does so too."""
    path = Path(os.fsdecode(os.fsencode(str(tmp_path / NASTY))))
    store = Store(str(path))
    entry = _make_entry()
    assert store.write(entry)
    (written,) = path.rglob("*.recipe")
    damaged = written.with_name(f"{NASTY}-{entry.digest}.recipe")
    written.rename(damaged)
    with damaged.open("r+b") as file:
        file.seek(-10, os.SEEK_END)
        file.write(b"0" * 10)
    os.mkfifo(damaged.with_name(f"{NASTY}-{'0' * 64}.recipe"))
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(path))
    return path


def test_messages_of_the_cache(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In the record already: a program may have a handler of its own."""
    store, digest = Store(str(root)), _make_entry().digest
    with caplog.at_level(logging.WARNING):
        assert store.read(digest) is None
    assert "is damaged" in caplog.text and is_clean(caplog.records[0].getMessage())
    shutil.rmtree(root / "v6")
    (root / "v6").symlink_to(root)
    with caplog.at_level(logging.WARNING):
        assert store.read(digest) is None
    assert "symbolic link" in caplog.text and is_clean(caplog.records[-1].getMessage())
    with (
        pytest.raises(trust.Refused) as raised,
        trust.root_directory(str(root), create=False) as opened,
        trust.regular_file("v6", opened),
    ):
        pass
    assert is_clean(str(raised.value))


@pytest.mark.parametrize(
    "command", ["list", "verify", "stats", "explain", "show", "prune --max-size 1G", "clear", "diff a b"]
)
def test_commands(command: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["recipes", *command.split()])
    said = capsys.readouterr()
    assert code in (0, 1, 2) and is_clean(said.out.replace("\x1b[", "")) and is_clean(said.err), said


def test_the_check_of_a_folder(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--recipes"]) in (0, 1)
    assert is_clean(capsys.readouterr().out.replace("\x1b[", ""))


def test_every_message_on_the_terminal() -> None:
    done = python(f"""
    import logging
    from habana_tf import log
    log.configure()
    logging.getLogger("habana_tf.some").warning("%s cannot be used", {NASTY!r})
    logging.getLogger("habana_tf.some").warning("two\\nlines")
    """)
    lines = done.stderr.splitlines()
    assert lines[0].startswith(r"habana_tf: a\x1b]0;owned\x07\x1b[2J") and lines[-1] == "lines"
    assert all(line.isprintable() for line in lines)


def test_the_launcher_s_own_words(tmp_path: Path) -> None:
    name = os.fsencode(NASTY.replace("/", "_")) + b".py"
    words = [sys.executable, "-m", "habana_tf.cli", "run", "-n", "1"]
    for more in ([os.fsencode(tmp_path) + b"/" + name], ["--print", "--", os.fsencode(NASTY)], [os.fsencode(NASTY)]):
        done = subprocess.run([*words, *more], env=environment(), capture_output=True, timeout=300)
        said = (done.stdout + done.stderr).decode(errors="surrogateescape")
        assert is_clean(said) and "Traceback" not in said and said, said
