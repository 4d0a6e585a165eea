"""Ranks get cards that are free, or the job is refused before a program starts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from habana_tf.cli.main import main
from habana_tf.launcher import free_cards
from tests import child

HOLD = """
import sys
from habana_tf.hardware import claim
print(claim.claim().module_id, flush=True)
sys.stdin.read()
"""
PROGRAM = """
import os
from habana_tf.hardware import claim
print("started on", claim.claim().module_id, flush=True)
"""


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Without settings of the machine."""
    for name in ("HLS_MODULE_ID", "HLS1_MODULE_ID", "HABANA_SIM_CARDS", "HABANA_VISIBLE_MODULES"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@contextmanager
def held(state: str, *modules: int) -> Iterator[None]:
    """While other processes hold these cards."""
    holders = []
    try:
        for module in modules:
            env = child.environment(HABANA_SIM_STATE_DIR=state, HLS_MODULE_ID=str(module))
            holders.append(subprocess.Popen([sys.executable, "-c", HOLD], env=env, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True))  # fmt: skip
            assert holders[-1].stdout is not None and holders[-1].stdout.readline() == f"{module}\n"
        yield
    finally:
        for holder in holders:
            holder.communicate()


def run(state: str, folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    return subprocess.run(
        [sys.executable, "-m", "habana_tf.cli", "run", *words, str(program)],
        env=child.environment(HABANA_SIM_STATE_DIR=state, **environment), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_a_held_card_is_passed_over_and_said_so(tmp_path: Path) -> None:
    with held(machine := child.machine(), 0):
        done = run(machine, tmp_path, "-n", "2", HABANA_SIM_CARDS="4")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] started on 1", "[1] started on 2"]
    assert "cards 1,2 (card 0: pid " in done.stderr


@pytest.mark.parametrize(
    "count, name, value, sentence",
    [
        ("2", "HABANA_SIM_CARDS", "2", "2 ranks need as many free cards, and 1 of the 2 visible (0,1) is free"),
        ("1", "HABANA_VISIBLE_MODULES", "0", "1 rank needs a free card, and none of the 1 visible (0) is free"),
        ("1", "HLS_MODULE_ID", "0", "1 rank needs a free card, and none of the 1 visible (0) is free"),
    ],
)
def test_too_few_free_cards_are_refused_at_once(
    count: str, name: str, value: str, sentence: str, tmp_path: Path, clean: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    clean.setenv("HABANA_SIM_STATE_DIR", machine := child.machine())
    clean.setenv(name, value)
    (tmp_path / "program.py").write_text("print('started')")
    with held(machine, 0):
        code = main(["run", "-n", count, str(tmp_path / "program.py")])
    out, err = capfd.readouterr()
    assert (code, out) == (1, "") and sentence in err and re.search(r"^  card 0: pid \d+ ", err, re.MULTILINE), err
    assert "hl-smi" in err and "HABANA_SIM_STATE_DIR" in err


def test_a_card_that_does_not_exist_is_a_wrong_setting(
    tmp_path: Path, clean: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    clean.setenv("HABANA_VISIBLE_MODULES", "0,9")
    (tmp_path / "program.py").write_text("print('started')")
    assert main(["run", "-n", "2", str(tmp_path / "program.py")]) == 2
    assert "HABANA_VISIBLE_MODULES" in capfd.readouterr().err


def test_one_module_for_several_ranks_is_a_wrong_setting(
    tmp_path: Path, clean: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    clean.setenv("HABANA_SIM_STATE_DIR", child.machine())
    clean.setenv("HLS_MODULE_ID", "3")
    (tmp_path / "program.py").write_text("print('started')")
    assert main(["run", "-n", "2", str(tmp_path / "program.py")]) == 2
    assert "HLS_MODULE_ID would give the 2 ranks of a host the same card: unset it" in capfd.readouterr().err


def test_a_rank_on_another_host_is_refused_there_before_its_program_starts(tmp_path: Path) -> None:
    """The other host is this one, through a shell that gives it another simulated machine."""
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    shell.chmod(0o755)
    with held(machine := child.machine(), 1):
        done = run(machine, tmp_path, "-n", "2", "--nodes", "elsewhere", "--rsh", str(shell))
    assert done.returncode == 1 and "[1] started" not in done.stdout
    assert "[1] HPU has no card for this process: local rank 1" in done.stderr, done.stderr


def test_cards_are_chosen_in_the_order_in_which_they_are_visible(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("HABANA_SIM_STATE_DIR", machine := child.machine())
    clean.setenv("HABANA_VISIBLE_MODULES", "5,2,7,3")
    assert free_cards.choose(2) == ((), "")
    with held(machine, 2, 3):
        modules, passed_over = free_cards.choose(2)
        assert modules == (5, 7, 2, 3) and passed_over.startswith("card 2: pid ") and "card 3" not in passed_over
        assert free_cards.choose(1) == ((), "")
