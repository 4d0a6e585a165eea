"""What `habana-tf top` shows, from readings made by hand, and of a process that holds a card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from habana_tf.cli.main import main
from habana_tf.cli.top import lines, rows, table
from habana_tf.hardware.cards import cards
from habana_tf.hardware.readings import Reading
from habana_tf.hardware.telemetry import Holder, Telemetry


def reading(launches: int, recipes: int, pid: int = 1 << 30, card: int = 0, steps: int = 0) -> Reading:
    told = Telemetry(0.0, "gaudi2", "train.py", 96 << 30, 2 << 20, 3 << 20, launches, steps, recipes, 2, 5, 1.0, 0.25)
    of = cards()[card]
    return Reading(of, of.chip, Holder(of.module_id, pid, told), 96 << 30, 1 << 30, 0.25, 100.0, 40.0)


def test_rates_are_differences_of_the_same_process() -> None:
    first, before, now = reading(0, 3), reading(100, 5), reading(150, 7)
    (row,) = rows([first], [before], [now], 2.0)
    assert (row.launches_per_second, row.recipes, row.new_recipes, row.busy) == (25.0, 7, 4, 0.25)
    (row,) = rows([first], [reading(100, 5, steps=7)], [reading(150, 7, steps=27)], 2.0)
    assert (row.steps_per_second, row.recompiled, row.cache_hits) == (10.0, 2, 5)
    (other,) = rows([first], [before], [reading(150, 7, pid=(1 << 30) + 1)], 2.0)
    assert other.launches_per_second is None and other.new_recipes == 7, "another process began anew"
    (free,) = rows([first], [before], [replace(now, holder=None)], 2.0)
    assert (free.pid, free.launches, free.memory) == (None, 0, 0)


def test_the_table_fits_and_names_free_cards() -> None:
    now = [reading(90, 7, steps=30), replace(reading(0, 0, card=1), holder=None)]
    made = rows(now, [reading(0, 7)], now, 2.0)
    wide, narrow = lines(made, 140), lines(made, 80)
    assert wide[0] == "1 of 2 cards in use, free: 1"
    assert wide[1].split()[:6] == ["card", "rank", "steps/s", "launches/s", "compiled", "again"]
    assert wide[3].split()[:6] == ["0", "-", "15.0", "45.0", "7", "2"] and "5 of 12" in wide[3]
    assert max(map(len, narrow)) <= 80 and narrow[1].split()[:2] == ["card", "steps/s"]
    for shown in ("15.0", "5 of 12", "25%", "2.0 MiB", "train.py"):
        assert shown in narrow[3]
    assert table(made).columns.index("at most") == 8
    assert lines([], 80) == ["0 of 0 cards in use"]


def test_the_rank_is_read_of_the_process(tmp_path: Path) -> None:
    environment = {**os.environ, "HABANA_SIM_RANK": "3", "SLURM_PROCID": "7"}
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert child.stdout is not None and child.stdout.readline()
        (row,) = rows([], [], [reading(1, 1, pid=child.pid)], 1.0)
        assert row.rank == 3
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("words", [["top", "--once"], ["top", "--json"], ["info"]])
def test_ctrl_c_ends_a_command_without_a_traceback(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("HABANA_SIM_STATE_DIR", str(tmp_path))
    if words[0] == "top":
        monkeypatch.setattr("time.sleep", interrupted)
    else:  # while its module is imported
        monkeypatch.setattr("habana_tf.cli.lazy_parsers.LazyParser.parse_args", interrupted)
    assert main(words) == 130
    assert capsys.readouterr() == ("", "")


def test_once_and_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", str(tmp_path))
    assert main(["top", "--once", "--interval", "0.05"]) == 0
    assert capsys.readouterr().out.startswith("0 of 8 cards in use, free: 0, 1")
    assert main(["top", "--json", "--interval", "0.05"]) == 0
    assert [row["pid"] for row in json.loads(capsys.readouterr().out)] == [None] * 8
    with pytest.raises(SystemExit):
        main(["top", "--interval", "0"])
