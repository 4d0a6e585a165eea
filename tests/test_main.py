"""`python -m habana_tf script.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import forked
from tests.child import environment

SCRIPT = """
import os, sys
import helper_beside_the_script
import tensorflow as tf

assert __name__ == "__main__" and "__main__" in sys.modules
assert sys.path[0] == os.path.dirname(os.path.abspath(sys.argv[0]))
x = tf.random.normal([4, 4]) @ tf.ones([4, 4])
print([os.path.basename(sys.argv[0]), *sys.argv[1:]], x.device[-5:])
sys.exit(3)
"""


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "habana_tf", *arguments]
    return subprocess.run(command, env=environment(), cwd=cwd, capture_output=True, text=True, timeout=300)


def test_script_runs_with_hpu(tmp_path: Path) -> None:
    (tmp_path / "helper_beside_the_script.py").write_text("")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = run(str(tmp_path / "script.py"), "--epochs", "2")
    assert done.returncode == 3, done.stderr  # its own exit code
    assert done.stdout.splitlines()[-1] == "['script.py', '--epochs', '2'] HPU:0"


def test_module_runs_with_hpu(tmp_path: Path) -> None:
    (tmp_path / "helper_beside_the_script.py").write_text("")
    lines = "import sys, tensorflow as tf\nprint(sys.argv[1:], __name__, tf.identity(tf.constant(1.0)).device[-5:])\n"
    (tmp_path / "some_module.py").write_text(lines)
    done = forked.run(["-m", "habana_tf", "-m", "some_module", "a"], environment(), 300, tmp_path, hpu=True)
    assert done.stdout.splitlines()[-1] == "['a'] __main__ HPU:0", done.stderr


def test_without_a_script() -> None:
    for arguments, words in [((), "usage"), (("no_such.py",), "no script 'no_such.py'"), (("-m",), "needs an")]:
        done = run(*arguments)
        assert done.returncode != 0 and words in done.stderr, done.stderr
    assert run("--help").stdout.startswith("usage")
