"""Options of `habana-tf run` that cannot be meant are refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from habana_tf.cli.main import main

WRONG = [
    ("-n", "0"), ("-n", "-1"), ("-n", "9" * 5000), ("-n", "1.5"),
    ("--port", "65536"), ("--port", "65535"), ("--port", "0"), ("--port", "1e3"), ("--port", "9" * 40),
    ("--grace", "nan"), ("--grace", "inf"), ("--grace", "-1"), ("--grace", "1e300"), ("--grace", ""),
    ("--log-dir", ""), ("--rsh", ""), ("--rsh", "'"), ("--python", ""), ("--nodes", ""), ("--nodes", ", ,"),
    ("--export", "A=b"), ("--export", ""), ("--export", "$(ls)"), ("--export", "NOT_SET_HERE"),
]  # fmt: skip


@pytest.mark.parametrize("option, value", WRONG, ids=[f"{option} {value[:20]}" for option, value in WRONG])
def test_what_cannot_be_meant_is_refused(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "a.py"
    program.write_text("")
    line = ["run", "-n", "2", option, value, str(program)]
    try:
        code = main(line)
    except SystemExit as ended:  # of argparse
        code = int(ended.code or 0)
    err = capsys.readouterr().err
    assert code == 2 and ("NOT_SET_HERE" if value == "NOT_SET_HERE" else option) in err and len(err) < 1000, err
