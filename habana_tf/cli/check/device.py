"""Runs `trial.py` in a process of its own for a framework and tells what came of it, whatever that process did.

The process has a simulated machine of its own, so that it takes no card from a job, and keeps no recipes, so that the
compiler has to work. Settings that would change what is tried, such as bf16, are left out.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from habana_tf.cli.check.finding import Finding
from habana_tf.cli.check.trial import STAGES

_SECONDS = 120.0
"""After this the process is ended. TensorFlow's start takes tens of seconds where its files are far away."""
_LEFT_OUT = ("TF_BF16_CONVERSION", "TF_ENABLE_BF16_CONVERSION", "TF_PLACE_ON_CPU", "TF_CONFIG", "TF_DUMP_GRAPH_PREFIX",
             "HABANA_PROFILE", "HABANA_SIM_CLUSTER_FUEL", "HLS_MODULE_ID", "HLS1_MODULE_ID",
             "HABANA_VISIBLE_MODULES", "PT_HPU_PLACE_ON_CPU")  # fmt: skip
_FRAMES = 3
_WORKING = {
    "TensorFlow": "import tensorflow", "PyTorch": "import torch", "HPU": "loading the device",
    "compiler": "compiling a training step", "numbers": "the same step on the CPU",
    "Horovod": "import horovod.tensorflow",
    "start": "starting a Python that is to try HPU", "end": "the end of the process, after all went well",
}  # fmt: skip
"""What a stage does, for messages."""
_OF_EACH = ("HPU", "compiler", "numbers")
"""Stages that each framework has."""
_REMEDIES = {
    "TensorFlow": "Run python -c 'import tensorflow': the same happens without habana_tf, so install it again.",
    "PyTorch": "Run python -c 'import torch': the same happens without habana_tf, so install it again.",
    "HPU": "Do what the message says; where it says nothing, report it with the lines at the end.",
    "compiler": "Report it with the lines at the end; until then TF_CPU_RUNTIME_FALLBACK=allow runs such steps slowly.",
    "numbers": "Do not train on this machine with it; report it with the lines at the end.",
    "start": "Report it with the lines at the end.",
    "end": "Report it with the lines at the end; the work of a program is done by then.",
    "Horovod": "Run pip uninstall horovod and pip cache remove horovod, then `make horovod` in the source tree.",
}


class Trial:
    """The process that tries a framework, from its start on; `findings` waits for it. seconds: of each stage that
    ended. cpu: what kernels use, or None as long as the compiler was not reached."""

    def __init__(self, framework: str) -> None:
        self.framework = framework
        self._folder = tempfile.TemporaryDirectory(prefix="habana-check-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # `close` closes it
        self.seconds: dict[str, float] = {}
        self.cpu: dict[str, Any] | None = None
        environment = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
        environment |= {
            "HABANA_SIM_STATE_DIR": self._folder.name,
            "HABANA_SIM_CACHE_MODE": "off",
            "HABANA_SIM_LOG": "warning",
            "TF_CPU_RUNTIME_FALLBACK": "forbid",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONFAULTHANDLER": "1",
            "PT_HPU_LAZY_MODE": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", _line(framework)], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=self._errors,
        )  # fmt: skip

    def close(self) -> None:
        """Ends the process, if it still runs, and removes its machine."""
        self._process.kill()
        self._process.wait()
        self._errors.close()
        self._folder.cleanup()

    def findings(self) -> Iterator[Finding]:
        """One for each stage that was reached, and one for all that were not."""
        try:
            said, _ = self._process.communicate(timeout=_SECONDS)
            ended = ""
        except subprocess.TimeoutExpired:
            self._process.kill()
            said, _ = self._process.communicate()
            ended = f"did not end within {_SECONDS:.0f} seconds"
        answers = [json.loads(line) for line in said.splitlines() if line.startswith(b"{") and line.endswith(b"}")]
        done = {answer["stage"]: answer for answer in answers}
        self.cpu = next((answer["cpu"] for answer in answers if answer.get("cpu")), None)
        if not done:
            yield self._failure("start", {}, ended)
        for stage, answer in done.items():
            if "found" in answer:
                self.seconds[stage] = answer["seconds"]
                yield from self._success(stage, answer["found"])
            else:
                yield self._failure(stage, answer, ended)
        stages = STAGES[self.framework]
        if all("found" in done.get(stage, {}) for stage in stages):
            if self._process.returncode or ended:
                yield self._failure("end", {}, ended)
        else:
            later = [stage for stage in stages if stage not in done]
            if later:
                yield Finding("not tried", "note", f"{', '.join(later)}: needs what failed above")

    def _success(self, stage: str, found: dict[str, Any]) -> Iterator[Finding]:
        took, of = f"{self.seconds[stage]:.1f} s", f"{self.framework}: "
        if stage == "HPU":
            yield Finding("HPU", "ok", of + f"loaded in {took}; an op ran on {found['device'].rpartition('/')[2]}")
        elif stage == "compiler":
            yield Finding("compiler", "ok", of + f"a training step was compiled and run in {took}")
        elif stage == "numbers":
            yield Finding("numbers", "ok", of + f"the CPU's but for {found['off']:.0e} of the greatest one")
        elif stage == "Horovod" and found:
            with_ = " and ".join(found["built"])
            if with_:
                yield Finding("Horovod", "ok", f"imported in {took}; built with {with_}")
            else:
                yield Finding("Horovod", "problem", "built with neither Gloo nor MPI", _REMEDIES[stage])

    def _failure(self, stage: str, answer: dict[str, Any], ended: str) -> Finding:
        doing = f"{self.framework}: {_WORKING[stage]}" if stage in _OF_EACH else _WORKING[stage]
        if "error" in answer:
            return Finding(stage, "problem", f"{doing}: {_first_lines(answer['error'])}", self._remedy(stage))
        code = self._process.returncode
        if not ended and code < 0:
            ended = f"was ended by {_signal(code)}"
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 20_000))
        errors = self._errors.read().decode(errors="replace")
        where = _frames(errors)
        text = f"{doing}: the process {ended or f'ended with exit code {code}'}{f', in {where}' if where else ''}"
        if not where and (last := _last_line(errors)):
            text += f", and said: {last}"
        return Finding(stage, "problem", text, self._remedy(stage))

    def _remedy(self, stage: str) -> str:
        if stage == "compiler" and os.environ.get("HABANA_SIM_COMPILE", "").strip().lower() == "forbid":
            return "Unset HABANA_SIM_COMPILE, unless the recipe cache is to have everything."
        return _REMEDIES[stage]


def _line(framework: str) -> str:
    """The program, which finds its modules where this process has found its own."""
    return f"import sys; sys.path[:] = {sys.path!r}; from habana_tf.cli.check import trial; trial.main({framework!r})"


def _first_lines(text: str, most: int = 400) -> str:
    """An error's message in one line of at most `most` characters; TensorFlow appends pages of nodes."""
    plain = re.sub(r"Graph execution error:.*?<stack traces unavailable>|\[\[\{\{node .*", "", text, flags=re.DOTALL)
    line = " ".join(plain.split())
    return line if len(line) <= most else f"{line[:most]}..."


def _signal(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _frames(errors: str) -> str:
    """Where Python was when the process crashed, innermost first, from what its faulthandler has written."""
    _, found, dump = errors.rpartition("(most recent call first):\n")
    frames = re.findall(r'^  File "(.+)", line (\d+) in (\S+)$', dump, re.MULTILINE) if found else []
    return " < ".join(f"{os.path.basename(file)}:{line} {name}" for file, line, name in frames[:_FRAMES])


def _last_line(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return _first_lines(lines[-1], 200) if lines else ""
