"""The programs for PyTorch in README, docs/torch.md and docs/guides/several-cards.md run as they stand there, and so do
the commands of CONTRIBUTING that are for its environment."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.child import environment

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/torch.md", "docs/guides/several-cards.md")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
"""What starts a program of several processes."""

pytestmark = pytest.mark.skipif(not (ROOT / "CONTRIBUTING.md").exists(), reason="not in a source tree")


def programs() -> list[tuple[str, str]]:
    """(page, program): the fenced blocks of Python that import torch first."""
    return [
        (page, block)
        for page in PAGES
        for block in re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
        if block.startswith("import torch\n")
    ]


@pytest.mark.parametrize("page, program", programs() if (ROOT / PAGES[0]).exists() else [])
def test_a_program_of_a_page(page: str, program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    words = [*(TORCHRUN if "init_process_group" in program else ()), "program.py"]
    done = forked.run(words, environment(HABANA_SIM_CARDS="2"), 300, tmp_path, hpu=True, framework="torch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "runs on the CPU" not in done.stderr, done.stderr
    assert done.stdout, "a program of a page prints what it did"


def commands() -> list[str]:
    """The blocks of CONTRIBUTING that begin with the environment of PyTorch, each as a script of the shell."""
    found = re.findall(r"(?:^    .*\n)+", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    return [
        block for block in (re.sub("^    ", "", each, flags=re.MULTILINE) for each in found) if ".venv-torch/" in block
    ]


@pytest.mark.parametrize("block", commands() if (ROOT / "CONTRIBUTING.md").exists() else [])
def test_a_block_of_commands(block: str, tmp_path: Path) -> None:
    (tmp_path / ".venv-torch").symlink_to(sys.prefix)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    words = ["/bin/bash", "-euo", "pipefail", "-c", block]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout, done.stdout + done.stderr


def test_the_readme_has_one() -> None:
    assert [page for page, _ in programs()].count("README.md") == 1
