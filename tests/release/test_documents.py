"""What surrounds a release says what the package is: versions, extras, the container, CI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from habana_tf.version import __version__
from release.notes import notes
from release.pythons import RELEASES
from tests.installation import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text()


def listed(extra: str) -> set[str]:
    (found,) = re.findall(rf'^"?{re.escape(extra)}"? = \[(.*?)\]', PROJECT, re.MULTILINE | re.DOTALL)
    return set(re.findall(r'"([^"]+)"', found))


def extras() -> list[str]:
    section = PROJECT.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    return re.findall(r'^"?([\w.-]+)"? = \[', section, re.MULTILINE)


def test_the_readme_has_every_extra() -> None:
    table = (ROOT / "README.md").read_text().partition("## Install")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([\w.-]+)` \|", table, re.MULTILINE) == extras()


def test_extras_are_named_as_every_pip_finds_them() -> None:
    """Metadata has their normal form (PEP 685), and pip before 23.3 looks for what was typed: others it leaves out."""
    assert [each for each in extras() if each != re.sub(r"[-_.]+", "-", each).lower()] == []


def test_tests_need_what_examples_need() -> None:
    assert listed("examples") <= listed("test")


def test_examples_import_what_their_extra_has() -> None:
    """But for retinanet, which has a list of its own, and what the package and TensorFlow bring."""
    texts = [path.read_text() for path in (ROOT / "examples").rglob("*.py") if "retinanet" not in path.parts]
    texts += [path.read_text() for path in (ROOT / "examples").rglob("*.ipynb")]
    named = set(
        re.findall(r'(?:^|")\s*(?:import|from) (sklearn|matplotlib|pandas|scipy|PIL|seaborn)', "\n".join(texts), re.M)
    )
    have = {re.split(r"[<>=]", each)[0] for each in listed("examples")}
    assert named and {{"sklearn": "scikit-learn"}.get(each, each) for each in named} <= have


def test_pythons_are_the_same_everywhere() -> None:
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", PROJECT)
    assert tuple(named) == RELEASES
    minor = int(RELEASES[-1].split(".")[1])
    assert f'requires-python = ">={RELEASES[0]},<3.{minor + 1}"' in PROJECT


def test_versions_are_the_same_everywhere() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert len(notes((ROOT / "CHANGELOG.md").read_text(), __version__)) > 1000


def test_notes_are_the_section_of_a_version() -> None:
    text = "# Changelog\n\n## 0.2.0, unreleased\n\n- New.\n\n### More\n\n- x\n\n## 0.1.0\n\n- Old.\n"
    assert notes(text, "0.2.0") == "- New.\n\n### More\n\n- x\n"
    assert notes(text, "0.1.0") == "- Old.\n"
    with pytest.raises(KeyError, match="no section"):
        notes(text, "0.3.0")


def test_the_container_is_built_of_what_there_is_and_runs_without_rights() -> None:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    copied = [word for line in lines if line.startswith("COPY") and "--from" not in line for word in line.split()[1:-1]]
    assert copied and all((ROOT / each).exists() for each in copied)
    build = (ROOT / "CMakeLists.txt").read_text()
    needed = {each.split("/")[0] for each in re.findall(r"\b(?:kernels|habana_tf|habana_frameworks)/[\w./]+", build)}
    assert needed <= set(copied) and {"pyproject.toml", "README.md", "CMakeLists.txt"} <= set(copied)
    ends = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert ends.index("CMD") > ends.index("USER"), "the demo would run as root"
    assert [line for line in lines if line.startswith("USER")] == ["USER 1000"]
    named = set(re.findall(r"\[([\w.,-]+)\]\"", "\n".join(lines))[0].split(","))
    assert named <= set(extras())


def test_ci_runs_what_there_is() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is in the extra `test`")
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands
    targets = [each.split()[1] for each in commands if each.startswith("make ")]
    makefile = (ROOT / "Makefile").read_text()
    assert targets and all(re.search(rf"^{each}:", makefile, re.MULTILINE) for each in targets)
    modules = re.findall(r"-m (release\.\w+)", " ".join(commands))
    assert modules and all(Path(ROOT, f"{each.replace('.', '/')}.py").exists() for each in modules)


def test_forms_of_issues_can_be_read() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is in the extra `test`")
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        if path.stem != "config":
            assert form["name"] and form["description"]
            ids = [part["id"] for part in form["body"]]
            assert len(set(ids)) == len(ids) and all(part["attributes"]["label"] for part in form["body"])
