"""Programs and commands of the guides do what the pages say.

A block ```python whose first line is `# name.py` is a program; a line of a block ```sh is run, and what its comment
says stands in what it prints. `placement.md` and `reading-guide.md` are read by tests/test_documents.py.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from habana_tf.tensorflow.graph import bf16_config
from tests import forked
from tests.child import environment

DOCS = Path(__file__).resolve().parents[2] / "docs"
ELSEWHERE = {
    "habana-tf predict digits.py": "tests/dry_run/test_script.py predicts a script",
    'habana-tf plan --target "1 hour" --dataset-size 60000 --epochs 12 digits.py': "tests/dry_run/test_plan.py",
}
OF_PYTORCH = "guides/language-models.md"
"""tests/torch/test_language_models.py runs it, where PyTorch is installed."""
FENCE = r"^```{}\n(.*?)^```$"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="not in a source tree")


def fences(page: str, language: str) -> list[str]:
    return re.findall(FENCE.format(language), (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def pages() -> list[str]:
    """Pages with commands, but for those that another test reads."""
    guides = sorted(f"guides/{path.name}" for path in (DOCS / "guides").glob("*.md"))
    guides.remove(OF_PYTORCH)
    found = ["index.md", "first-steps.md", "card-time.md", "recompilations.md", *guides]
    return [page for page in found if fences(page, "sh")]


def programs() -> dict[str, str]:
    """Name to text, of all pages: a page may run another's."""
    blocks = [block for page in pages() for block in fences(page, "python")]
    return {re.match(r"# (\S+\.py)\n", block)[1]: block for block in blocks if block.startswith("# ")}


def lines(page: str) -> list[tuple[str, str]]:
    """(command, what it prints somewhere)."""
    found = [line.partition("#") for block in fences(page, "sh") for line in block.splitlines()]
    return [(command.strip(), text.strip()) for command, _, text in found if command.strip()]


def test_every_program_is_run_and_says_what_is_expected() -> None:
    commands = [command for page in pages() for command, _ in lines(page)]
    for name in programs():
        assert any(name in command.split() for command in commands), f"no command runs {name}"
    assert ELSEWHERE.keys() <= set(commands)
    for page in pages():
        assert any(expected for _, expected in lines(page)) or page == "guides/team-cache.md", page


def test_the_configuration_of_bf16_is_one() -> None:
    (text,) = fences("guides/bf16.md", "json")
    config = bf16_config.parse(text, "the page")
    assert config != bf16_config.parse("{}", "nothing")
    with pytest.raises(bf16_config.ConfigError):
        bf16_config.parse(text.replace("allowlist", "allowed"), "misspelt")


@pytest.mark.rest
@pytest.mark.parametrize("page", pages() if DOCS.exists() else [])
def test_a_page(page: str, tmp_path: Path) -> None:
    for name, text in programs().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "train.py").write_text("")
    env = environment(HOME=str(tmp_path), TF_CPP_MIN_LOG_LEVEL="3", HABANA_SIM_LOG="info")
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    for command, expected in lines(page):
        words = shlex.split(command)
        own = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        if words[0] == "export":
            env |= own
        if words[0] == "export" or command in ELSEWHERE:
            continue
        said = run(words[len(own) :], command, env | own, tmp_path)
        assert expected in said, f"{page}: {command!r} does not print {expected!r} but\n{said[-3000:]}"


def run(words: list[str], command: str, env: dict[str, str], folder: Path) -> str:
    """What a command prints; programs in Python begin with TensorFlow imported, which saves seconds each."""
    if words[0] == "python":
        done = forked.run(words[1:], env, 120, folder)
    else:
        done = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr
