"""The process that tries HPU: each way in which it can fail is a finding, and the stages do what they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from habana_tf.cli.check import device
from habana_tf.cli.check.finding import Finding
from habana_tf.cli.check.trial import STAGES
from habana_tf.hardware.device_state import TENSORFLOW
from tests.child import python

Broken = Callable[[str], list[Finding]]


@pytest.fixture
def with_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broken:
    """What is found where `import tensorflow` runs the code that is given."""

    def found(code: str) -> list[Finding]:
        (tmp_path / "tensorflow").mkdir(exist_ok=True)
        (tmp_path / "tensorflow" / "__init__.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        with closing(device.Trial(TENSORFLOW)) as trial:
            return list(trial.findings())

    return found


@pytest.mark.parametrize(
    "code, words",
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV, in __init__.py:1 <module>"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
        ("import os; os.write(2, b'libfoo.so.1 is missing\\n'); os._exit(127)", "exit code 127, and said: libfoo.so.1"),
        ("raise ImportError('libfoo.so.1: cannot open')", "ImportError: libfoo.so.1: cannot open"),
        ("raise RuntimeError('x' * 5000)", "x..."),
        ("print('{', 'noise'); import sys; sys.exit(3)", "exit code 3"),
    ],
)
def test_whatever_ends_the_process_is_a_finding(with_tensorflow: Broken, code: str, words: str) -> None:
    first, rest = with_tensorflow(code)
    assert first.name == "TensorFlow" and first.status == "problem" and words in first.fact, first
    assert first.remedy and len(first.fact) < 600 and "Traceback" not in first.fact
    assert (rest.name, rest.status) == ("not tried", "note") and "compiler" in rest.fact


ALL_WELL = """for stage in trial.STAGES['TensorFlow']:
    print(json.dumps({"stage": stage, "found": {"device": "", "off": 0, "built": ["MPI"]}, "seconds": 0}), flush=True)
"""
CRASH = "os.kill(os.getpid(), 11)"


@pytest.mark.parametrize(
    "main, stage, words",
    [
        ("raise ImportError('no trial')", "start", "exit code 1, and said: ImportError: no trial"),
        (CRASH, "start", "was ended by SIGSEGV"),
        (ALL_WELL + CRASH, "end", "after all went well: the process was ended by SIGSEGV"),
    ],
)
def test_a_crash_before_the_first_stage_and_after_the_last_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, main: str, stage: str, words: str
) -> None:
    """Of a program in the place of the one that is run."""
    line = f"import json, os\nfrom habana_tf.cli.check import trial\n{main}"
    monkeypatch.setattr(device, "_line", lambda framework: line)
    with closing(device.Trial(TENSORFLOW)) as trial:
        found = [finding for finding in trial.findings() if finding.status == "problem"]
    assert [finding.name for finding in found] == [stage] and words in found[0].fact, found


def test_a_process_that_hangs_is_ended(with_tensorflow: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_SECONDS", 0.2)
    assert "did not end within" in with_tensorflow("import time; time.sleep(3600)")[0].fact


def test_a_compiler_that_a_setting_forbids_and_wrong_numbers_fail_in_their_stages() -> None:
    """Both in one process. The numbers are made to differ by a ten-thousandth, after the step has run on HPU."""
    script = """
        import os
        from habana_tf.cli.check import trial, trial_tensorflow
        out = os.dup(1)
        trial_tensorflow.MORE["Horovod"] = lambda: {}
        trial.main("TensorFlow")
        os.environ["HABANA_SIM_COMPILE"] = "on"
        step = trial_tensorflow.step
        trial_tensorflow.step = lambda on, given: [r * (1.0001 if on == "hpu" else 1) for r in step(on, given)]
        os.dup2(out, 1)
        trial.main("TensorFlow")
    """
    done = python(
        script, imported=True, HABANA_SIM_COMPILE="forbid", HABANA_SIM_CACHE_MODE="off",
        TF_CPU_RUNTIME_FALLBACK="forbid",
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines()]
    failed, wrong = (each for each in said if "error" in each)
    assert failed["stage"] == "compiler" and "HABANA_SIM_COMPILE" in failed["error"], failed
    assert wrong["stage"] == "numbers" and "differs from the CPU's by 1.0e-04" in wrong["error"], wrong
    done = [each["stage"] for each in said if "found" in each]
    assert done == ["TensorFlow", "HPU", "Horovod", "TensorFlow", "HPU", "compiler", "Horovod"]
    assert failed["cpu"]["isa"], "what kernels use is told of a compiler that fails, too"


@pytest.mark.rest
def test_all_stages_of_a_machine_in_order() -> None:
    with closing(device.Trial(TENSORFLOW)) as trial:
        found = list(trial.findings())
    assert {finding.status for finding in found} == {"ok"}, found
    assert trial.seconds.keys() == set(STAGES[TENSORFLOW]) and trial.cpu is not None
