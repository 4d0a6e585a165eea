"""The table of what was tried together: its pairs, how it is read, and what an environment has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from release import matrix
from release.pythons import RELEASES
from tests.installation import ROOT


def test_the_page_has_all_pairs_and_is_as_it_would_be_written() -> None:
    page = matrix.PAGE.read_text()
    assert matrix.table(matrix.read(page)) in page
    assert sorted(matrix.pairs()) == sorted((t, p) for t, found in matrix.TENSORFLOWS.items() for p in found)


def test_pairs_are_those_that_the_package_is_for() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    least, most = re.findall(r'^tensorflow = \["tensorflow>=([\d.]+),<([\d.]+)"\]', project, re.MULTILINE)[0]
    minors = [int(each.split(".")[1]) for each in matrix.TENSORFLOWS]
    assert minors == list(range(int(least.split(".")[1]), int(most.split(".")[1])))
    assert set(RELEASES) == {python for found in matrix.TENSORFLOWS.values() for python in found}


def test_results_are_kept_where_there_are_no_newer_ones() -> None:
    old = {("2.15.1", "3.10"): "97.8 % | the oldest that are allowed", ("2.21.0", "3.13"): "98.3 % | the newest"}
    page = "Before.\n\n" + matrix.table(old) + "\nAfter.\n"
    assert matrix.read(page) == old
    assert "| 2.16.2 | 3.12 | - | - |" in page


def test_the_oldest_dependencies_are_the_lower_bounds() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    listed = project.partition("\ndependencies = [")[2].partition("]\n")[0]
    bounds = dict(re.findall(r'"([a-z]+)>=([\d.]+)', listed))
    oldest = dict(line.split("==") for line in matrix.OLDEST.read_text().split())
    assert oldest.keys() == bounds.keys()
    assert {name: version for name, version in oldest.items() if not f"{version}.0.0".startswith(bounds[name])} == {}


@pytest.mark.parametrize("accuracy", ["97.8%", "41.0%"])
def test_a_wheel_is_tried_in_an_environment_of_its_own(
    accuracy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which commands run, in the place of pip's downloads: the program's output is read, and decides."""
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "train_digits.py").write_text(f"print('Test accuracy: {accuracy} of 180 images')")
    monkeypatch.setattr(matrix, "ROOT", tmp_path)
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", "/nowhere")
    real, commands = subprocess.run, []

    def run(command: list[object], env: dict[str, str], **more: object) -> subprocess.CompletedProcess[str]:
        commands.append(" ".join(map(str, command)))
        assert "TF_RECIPE_CACHE_PATH" not in env
        words = [sys.executable, *command[1:]] if str(command[1]).endswith("train_digits.py") else ["true"]
        return real(words, env=env, **more)

    monkeypatch.setattr(matrix.subprocess, "run", run)
    wheel = Path("habana_tf-0.1.0-cp310-cp310-manylinux_2_28_x86_64.whl")
    if accuracy.startswith("4"):
        with pytest.raises(SystemExit, match="has not learned"):
            matrix.tried(Path("python3.10"), wheel, "2.15.1", oldest=True)
    else:
        assert matrix.tried(Path("python3.10"), wheel, "2.15.1", oldest=True) == (
            "97.8 % | the oldest that are allowed"
        )
    assert f"-c {matrix.OLDEST} {wheel} tensorflow-cpu==2.15.1 scikit-learn" in commands[1]
