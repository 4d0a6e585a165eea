"""The whole command: within 80 columns on any terminal, no secrets in what is pasted, and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from habana_tf.cli.check import report
from habana_tf.cli.check.finding import Finding, tried
from tests.child import environment

CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGABRT)"


def check(tmp_path: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """On a machine whose TensorFlow crashes, so that it is quick."""
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text(CRASH)
    env = environment(**variables)
    env["PYTHONPATH"] = f"{tmp_path}:{env['PYTHONPATH']}"
    return subprocess.run([sys.executable, "-m", "habana_tf.cli", "check", *options], env=env, capture_output=True,
                          text=True)  # fmt: skip


def test_it_fits_80_columns_of_an_ascii_terminal_and_keeps_secrets(tmp_path: Path) -> None:
    key = tmp_path / "hunter2"
    recipes = tmp_path / ("nämlich " + "ä" * 60) / "hunter4"
    recipes.mkdir(parents=True)
    recipes.chmod(0o777)
    done = check(
        tmp_path, PYTHONIOENCODING="ascii", HABANA_SIM_CACHE_SIGNING_KEY=str(key), MY_PASSWORD="hunter3",
        TF_RECIPE_CACHE_PATH=str(recipes), LOG_LEVEL_ALL="hunter5", HABANA_SIM_CHIP="gaudi3",
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr == "", done
    long = [line for line in done.stdout.splitlines() if len(line) > 80]
    assert all(len(line.split()) == 1 and "/" in line for line in long), "a path sticks out, and is not broken"
    assert done.stdout.isascii() and "\033" not in done.stdout
    assert "SIGABRT" in done.stdout and "Traceback" not in done.stdout
    pasted = done.stdout.partition("For a bug report")[2].replace("\n  ", " ")
    assert "HABANA_SIM_CHIP=gaudi3" in pasted and "HABANA_SIM_CACHE_SIGNING_KEY (set)" in pasted
    assert "SIGABRT" in pasted and "cores" in pasted and "LOG_LEVEL_ALL (set)" in pasted
    assert "hunter" not in pasted


def test_json_has_the_same(tmp_path: Path) -> None:
    done = check(tmp_path, "--json", HABANA_SIM_CARDS="nine")
    said = json.loads(done.stdout)
    assert done.returncode == 1 and said["problems"] == sum(each["status"] == "problem" for each in said["checks"])
    by_name = {each["name"]: each for each in said["checks"]}
    assert "nine" in by_name["settings"]["fact"] and "SIGABRT" in by_name["TensorFlow"]["fact"]
    assert by_name["Python"] == {"name": "Python", "status": "ok", "fact": by_name["Python"]["fact"], "remedy": ""}
    assert any("habana_tf" in line for line in said["bug_report"]) and said["tensorflow_seconds"] is None


def test_colours_are_of_the_mark_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding("cards", "problem", "none " * 30, "Wait.")
    plain = report.line(finding)
    monkeypatch.setattr("habana_tf.cli.output.in_colour", lambda: True)
    assert report.line(finding) == plain.replace("PROBLEM", "\033[31mPROBLEM\033[0m")
    assert all(len(line) <= 80 for line in plain.splitlines()) and "-> Wait." in plain


def test_places_are_named_by_their_variables_and_nothing_else_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", "~/secret/recipes")
    monkeypatch.setenv("SLURM_JOB_ID", "15")
    text = "TensorFlow 2.15.1: /home/ada/secret/recipes is full, /home/ada/train.py, ~/secret/recipes"
    lines = report.bug_report([Finding("disk", "problem", text)], None)
    assert "TensorFlow 2.15.1: $TF_RECIPE_CACHE_PATH is full, ~/train.py," in " ".join(lines).replace("   ", " ")
    assert not any("secret" in line or "ada" in line for line in lines), lines


@pytest.mark.parametrize(
    "value, text, told",
    [
        ("/recipes", "/recipes: mode: off", "$TF_RECIPE_CACHE_PATH: mode: off"),
        ("recipes", "/srv/firm/recipes/v4 is full of recipes", "$TF_RECIPE_CACHE_PATH/v4 is full of recipes"),
        ("/recipes", "/home/adam/x, /home/ada/x", "/home/adam/x, ~/x"),
        ("/", "/ is full", "/ is full"),
    ],
)
def test_a_place_is_a_whole_path(value: str, text: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "abspath", lambda path: os.path.normpath(os.path.join("/srv/firm", path)))
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", value)
    lines = report.bug_report([Finding("disk", "note", text)], None)
    assert f"note: disk: {told}" in lines, lines


def test_a_check_that_fails_itself_is_a_finding() -> None:
    def broken() -> list[Finding]:
        raise OSError("the disk is gone")

    (finding,) = tried("disk", broken)
    assert finding.status == "problem" and "OSError: the disk is gone" in finding.fact


@pytest.mark.rest
def test_a_machine_in_order() -> None:
    done = subprocess.run([sys.executable, "-m", "habana_tf.cli", "check", "--json"], env=environment(),
                          capture_output=True, text=True)  # fmt: skip
    said = json.loads(done.stdout)
    ok = {each["name"] for each in said["checks"] if each["status"] == "ok"}
    assert (done.returncode, said["problems"]) == (0, 0), said
    assert {"Python", "TensorFlow", "settings", "cards", "HPU", "compiler", "numbers"} <= ok
