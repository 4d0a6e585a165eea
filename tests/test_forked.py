"""Processes that have imported a framework, from which programs are forked. Here they have imported next to nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.child import environment

SERVER = "import os; print(open(f'/proc/{os.getppid()}/stat').read().split()[3])"
"""Prints which process the keeper of a program was forked from."""


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of servers of its own. Every program asks anew for its server, as the first of a process does."""
    monkeypatch.setenv("TESTS_SERVERS", os.environ["TESTS_SERVERS"])  # and so puts it back
    monkeypatch.setattr(forked, "_server", forked._server.__wrapped__)
    with forked.own_servers() as folder:
        yield Path(folder)


def server_of_a_program() -> int:
    return int(forked.run(["-c", SERVER], environment(), timeout=60, framework="json").stdout)


def test_processes_have_one_server_which_ends_with_the_last_connection(servers: Path) -> None:
    with forked._server("json", forked.early(environment()), False):
        first = server_of_a_program()
        assert server_of_a_program() == first
    end = time.monotonic() + 60
    while any(path.suffix != ".lock" for path in servers.iterdir()):
        assert time.monotonic() < end, "it still serves"
        time.sleep(0.01)
    assert server_of_a_program() != first


def test_other_variables_of_the_import_are_another_server(servers: Path) -> None:
    with forked._server("json", forked.early(environment()), False):
        other = forked.run(["-c", SERVER], environment(TF_CPP_X="1"), timeout=60, framework="json")
        assert int(other.stdout) != server_of_a_program()
