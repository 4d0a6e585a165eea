"""Running commands inside the test process, with a clean environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from habana_tf.cli.main import main


class Run(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], without_settings: None) -> Callable[..., Run]:
    def run(*arguments: str) -> Run:
        try:
            code = main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        return Run(code, *capsys.readouterr())

    return run
