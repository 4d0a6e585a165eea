"""A card is claimed by the first use, by one process at a time, and is free as soon as that process is gone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.child import environment, machine, python

HOLD = """
from habana_tf.hardware import cards, claim
try:
    print("card", claim.claim().module_id, flush=True)
except cards.CardError as error:
    print(error, flush=True)
input()
"""


class Machine:
    """A simulated machine and the light processes (no TensorFlow) that ask for its cards."""

    def __init__(self) -> None:
        self.directory = machine()
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, script: str = HOLD, **settings: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)],
            env=environment(HABANA_SIM_STATE_DIR=self.directory, **settings),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.processes.append(process)
        return process

    def claim(self, **settings: str) -> str:
        return said(self.start(**settings))

    def holders(self) -> dict[int, int]:
        """Module id to process id, as another process sees it."""
        script = """
        from habana_tf.hardware import cards, telemetry
        for card in cards.cards():
            holder = telemetry.holder(card.module_id)
            if holder is not None:
                print(card.module_id, holder.pid)
        """
        out = python(script, HABANA_SIM_STATE_DIR=self.directory).stdout
        return {int(module): int(pid) for module, pid in map(str.split, out.splitlines())}


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def host() -> Iterator[Machine]:
    host = Machine()
    yield host
    for process in host.processes:
        process.kill()
        process.wait()


def test_sixteen_processes_race_for_eight_cards(host: Machine) -> None:
    racers = [host.start() for _ in range(16)]
    lines = [said(process) for process in racers]
    winners = {int(line.split()[1]): p.pid for line, p in zip(lines, racers, strict=True) if line.startswith("card")}
    losers = [line for line in lines if not line.startswith("card")]
    assert sorted(winners) == list(range(8))
    assert len(losers) == 8 and all("all 8 of them are held" in line for line in losers)
    assert host.holders() == winners


def test_the_error_says_who_holds_which_card_since_when_and_what_to_do(host: Machine) -> None:
    one = host.start(HABANA_VISIBLE_MODULES="5")
    assert said(one) == "card 5"
    loser = host.start(HABANA_VISIBLE_MODULES="5")
    text, _ = loser.communicate("\n", timeout=300)
    who = re.search(r"card 5: pid (\d+) \((.*)\), since (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", text)
    assert who and int(who[1]) == one.pid and who[2].startswith("python"), text
    for advice in ("HABANA_VISIBLE_MODULES", f"HABANA_SIM_STATE_DIR=<directory> (now {host.directory}", "hl-smi"):
        assert advice in text


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_frees_its_card_at_once(host: Machine, how: signal.Signals) -> None:
    holder = host.start(HABANA_VISIBLE_MODULES="2")
    assert said(holder) == "card 2"
    holder.send_signal(how)
    holder.wait()
    assert host.holders() == {}
    assert host.claim(HABANA_VISIBLE_MODULES="2") == "card 2"


def test_two_directories_are_two_machines() -> None:
    first, second = Machine(), Machine()
    try:
        assert first.claim() == second.claim() == "card 0"
        assert len(first.holders()) == len(second.holders()) == 1
    finally:
        for process in first.processes + second.processes:
            process.kill()
            process.wait()


def test_ranks_and_variables_choose_the_card(host: Machine) -> None:
    ompi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2",
            "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}  # fmt: skip
    assert host.claim(**ompi, HABANA_VISIBLE_MODULES="6,3") == "card 3"
    assert host.claim(**ompi, HLS_MODULE_ID="7") == "card 7"
    assert host.claim(**ompi) == "card 1"
    assert [host.claim() for _ in range(2)] == ["card 0", "card 2"]
    assert "local rank 1 (OMPI_COMM_WORLD_LOCAL_RANK) gets card 1, and it is held" in host.claim(**ompi)


def test_a_fork_and_its_end_leave_the_parent_its_card(host: Machine) -> None:
    script = """
    import os
    from habana_tf.hardware import claim, telemetry
    claim.claim()
    pid = os.fork()
    if pid == 0:
        print("child", claim.held_card(), telemetry.holder(0).pid == os.getppid(), flush=True)
        os.closerange(3, 100)
        os._exit(0)
    os.waitpid(pid, 0)
    print("parent", claim.held_card().module_id, telemetry.holder(0).pid == os.getpid(), flush=True)
    input()
    """
    parent = host.start(script)
    assert [said(parent), said(parent)] == ["child None True", "parent 0 True"]
    assert host.holders() == {0: parent.pid}


def test_children_do_not_inherit_the_file(host: Machine) -> None:
    script = """
    import os, subprocess
    from habana_tf.hardware import claim
    claim.claim()
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    print(child.pid, flush=True)
    input()
    """
    parent = host.start(script)
    sleeper = int(said(parent))
    try:
        parent.kill()
        parent.wait()
        assert host.holders() == {}
    finally:
        os.kill(sleeper, signal.SIGKILL)


def test_what_a_dead_process_left_is_not_believed(host: Machine) -> None:
    holder = host.start()
    assert said(holder) == "card 0"
    holder.kill()
    holder.wait()
    left = Path(host.directory, "cards").read_bytes()
    assert str(holder.pid).encode() not in left[:4096] and b"python" in left[4096:8192]  # the page is still there
    assert host.holders() == {}


LOAD = """
import habana_tf, tensorflow as tf
from habana_tf.hardware import claim
habana_tf.load_habana_module()
held = lambda: None if claim.held_card() is None else claim.held_card().module_id
print("loaded", held(), flush=True)
"""


def test_a_process_that_only_loads_and_spawns_holds_no_card() -> None:
    done = python(
        LOAD
        + """
if __name__ == "__main__":
    import subprocess, sys
    tf.config.list_logical_devices("HPU")
    code = "import tensorflow as tf, habana_tf; habana_tf.load_habana_module(); tf.constant([1.0]) + 1.0;"
    code += "from habana_tf.hardware import claim; print('spawned', claim.held_card().module_id)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**__import__("os").environ, "HABANA_SIM_CARDS": "1"})
    print("parent", held())
""",
        imported=True,
    )
    assert done.stdout.splitlines() == ["loaded None", "spawned 0", "parent None"]


@pytest.mark.parametrize("before", ["", "tf.constant(1.0) + 1.0\n"])
def test_loading_claims_nothing_the_first_copy_or_op_does(before: str) -> None:
    done = python(
        LOAD.replace("habana_tf.load", before + "habana_tf.load")
        + """
x = tf.constant([1.0, 2.0])
print("copied", held())
print((x + x).numpy().tolist(), held())
""",
        imported=True,
    )
    assert done.stdout.splitlines() == ["loaded None", "copied 0", "[2.0, 4.0] 0"]


def test_a_machine_that_cannot_be_used_is_an_error_before_tensorflow_is_touched(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    done = python("import habana_tf; habana_tf.load_habana_module()", check=False, HABANA_SIM_STATE_DIR=str(tmp_path))
    assert "MachineError" in done.stderr and "chmod go-w" in done.stderr and "tensorflow" not in done.stderr


def test_tensorflow_shows_the_error_and_a_later_op_finds_a_freed_card(host: Machine) -> None:
    holder = host.start(HABANA_SIM_CARDS="1")
    assert said(holder) == "card 0"
    loser = host.start(
        LOAD
        + """
x = tf.constant([1.0, 2.0])
v = tf.Variable(x)
for run in (lambda: x + x, tf.function(lambda: x * x - 1.0),
            lambda: tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=1.0, delta=x)):
    try:
        run()
        print("ran")
    except tf.errors.FailedPreconditionError as error:
        print(*[line for line in str(error).splitlines() if "pid" in line], flush=True)
input()
print((x + x).numpy().tolist(), held(), flush=True)
""",
        HABANA_SIM_CARDS="1",
    )
    assert said(loser) == "loaded None"
    assert all(f"card 0: pid {holder.pid} (" in said(loser) for _ in range(3))
    holder.kill()
    holder.wait()
    assert loser.communicate("\n", timeout=300)[0].strip() == "[2.0, 4.0] 0"
