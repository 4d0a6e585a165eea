"""One oracle on every machine: TensorFlow with its oneDNN kernels.

Left to itself TensorFlow asks the CPU whether to use them. The others are no oracle: FusedBatchNorm leaves outputs
uninitialised, Conv3D reads the wrong element where SAME would pad by less than nothing.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests import effort, forked, installation

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it in its workers; what a test prints has the width of a file
os.environ["TF_CPU_RUNTIME_FALLBACK"] = "forbid"
"""A cluster that cannot be compiled fails its test, also in child processes, but for tests of what runs it then."""

# Hypothesis also draws numbers that stand in modules loaded so far: examples would depend on which tests ran before in
# the same process. Now they depend on its version alone, which pyproject.toml fixes.
providers._get_local_constants = lambda: providers._local_constants

# No test fails because other work keeps the machine busy.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")

HERE = Path(__file__).parent
FIRST = (
    "test_opinfo.py", "test_examples.py", "networks", "test_documents.py", "test_loader.py", "keras_coverage",
    "changes", "test_ways_of_training.py", "test_training.py", "launcher", "test_fuzz.py", "test_lightning_hosts.py",
    "test_horovod_compat.py", "test_lightning.py", "test_random_programs.py",
)  # fmt: skip
"""Files and folders that take minutes and would come late: a file is one process's, and none may be left for the end
when the others have nothing to do any more. In this order."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        wrong = installation.out_of_date()
        if wrong:
            raise pytest.UsageError(wrong)
        config.add_cleanup(forked.own_servers().cleanup)  # the workers inherit them
    if not getattr(config.option, "numprocesses", None):  # workers start where they are started from
        installation.leave_the_sources()


@pytest.hookimpl(trylast=True)  # of what the marks have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """TESTS_PART=1/6 takes every sixth test, from the second on, TESTS_FILES=1/2 all tests of every second file: CI
    does the one of what is long, the other of what every file prepares anew, other ones each day."""
    files = effort.part_of([*dict.fromkeys(item.path for item in items)], "TESTS_FILES")
    kept = effort.part_of([item for item in items if item.path in files], "TESTS_PART")
    left_out = set(items) - set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept
    items.sort(key=lambda item: min(map(_turn, item.path.relative_to(HERE).parts)))


def _turn(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST)


def pytest_collection_finish() -> None:
    gc.freeze()  # all that was imported and collected stays: looking for garbage there costs a twentieth of the time


@pytest.fixture(autouse=True)
def without_hpu() -> Iterator[None]:
    """Nothing loads HPU in pytest's own process: all tests that it runs later would run on it."""
    from habana_tf.hardware import device_state

    before = device_state.is_loaded()
    yield
    assert before or not device_state.is_loaded(), "this test has loaded HPU: it wants @on_hpu of tests/child.py"


@pytest.fixture
def without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the package's or of a launcher's is set, but what the test sets."""
    from habana_tf import settings

    for setting in settings.declared():
        for name in (setting.name, *setting.aliases):
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def falling_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that cannot be compiled runs all the same, as for users."""
    monkeypatch.setenv("TF_CPU_RUNTIME_FALLBACK", "allow")


@pytest.fixture
def propagating(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package's logger hands its messages on, however it was configured before, so that caplog has each once.

    As a fixture: when the test itself begins, pytest from 9.2 on adds caplog's handler to loggers that do not.
    """
    monkeypatch.setattr(logging.getLogger("habana_tf"), "propagate", True)
