"""Whatever ends a job or a part of it, no process that its programs started is left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.launcher.jobs import SLEEPER, alive, killed_in_the_end, start, wait_for, wait_for_end, write


def test_nothing_outlives_a_killed_launcher(tmp_path: Path) -> None:
    program = write(tmp_path / "a.py", SLEEPER + """
    import subprocess
    child = subprocess.Popen(["sleep", "300"])
    (folder / f"{rank}.child").write_text(str(child.pid))
    time.sleep(300)
    """)  # fmt: skip
    job = start("-n", "2", "--grace", "1", program, tmp_path)
    pids = [wait_for(tmp_path / name) for name in ("0", "1", "0.child", "1.child")]
    job.kill()
    job.communicate(timeout=300)
    for pid in pids:
        wait_for_end(pid)


@pytest.mark.parametrize("how", ["program ends", "rank is killed", "launcher is killed"])
def test_nothing_in_groups_and_sessions_of_its_own_is_left(tmp_path: Path, how: str) -> None:
    """A child in a session of its own, an orphan in another, and what `timeout` runs, which makes a process group."""
    program = write(tmp_path / "a.py", """
    import subprocess
    """ + SLEEPER.replace("part.rename", """
    there = "echo $$ > $0.part; mv $0.part $0; exec sleep 300"
    subprocess.Popen(["sh", "-c", there, folder / f"{rank}.session"], start_new_session=True)
    subprocess.Popen(["timeout", "300", "sh", "-c", there, folder / f"{rank}.group"])
    subprocess.run(["sh", "-c", "setsid sh -c '" + there + "' $0 &", folder / f"{rank}.orphan"])
    while len(list(folder.glob(f"{rank}.[sgo]*[!t]"))) < 3:
        time.sleep(0.05)
    part.rename""") + """
    while not (folder / "go").exists():
        time.sleep(0.05)
    """)  # fmt: skip
    job = start("-n", "2", "--grace", "1", program, tmp_path)
    ranks = [wait_for(tmp_path / "0"), wait_for(tmp_path / "1")]
    below = [wait_for(tmp_path / f"{rank}.{kind}") for rank in "01" for kind in ("session", "group", "orphan")]
    try:
        assert all(map(alive, below))
        if how == "program ends":
            (tmp_path / "go").touch()
        elif how == "rank is killed":
            os.kill(ranks[1], signal.SIGKILL)
        else:
            job.kill()
        _, err = job.communicate(timeout=300)
        assert job.returncode == {"program ends": 0, "rank is killed": 137, "launcher is killed": -9}[how], err
        for pid in ranks + below:
            wait_for_end(pid)
    finally:
        job.kill()
        for pid in filter(alive, below):
            os.kill(pid, signal.SIGKILL)


LEAVES_CHILDREN = (
    SLEEPER.replace(
        "part.rename",
        """
    import subprocess
    there = "echo $$ > $0.part; mv $0.part $0; exec sleep 300"
    subprocess.Popen(["sh", "-c", there, folder / f"{rank}.child"])
    subprocess.Popen(["sh", "-c", there, folder / f"{rank}.session"], start_new_session=True)
    subprocess.run(["sh", "-c", "setsid sh -c '" + there + "' $0 &", folder / f"{rank}.orphan"])
    while len(list(folder.glob(f"{rank}.[cso]*[!t]"))) < 3:
        time.sleep(0.05)
    part.rename""",
    )
    + """
    time.sleep(300)
"""
)
REMOTE = f"""\
    #!{sys.executable}
    import os, signal, subprocess, sys, threading
    # As ssh and sshd: the program is in another session, has a pipe of its own, and gets no signal of the client.
    if os.fork() == 0:
        os.setsid()
        remote = subprocess.Popen(["sh", "-c", " ".join(sys.argv[2:])], stdin=subprocess.PIPE, bufsize=0)
        def bring():
            while data := os.read(0, 4096):
                remote.stdin.write(data)
            os._exit(255)  # sshd waits for no program when its client is gone
        threading.Thread(target=bring, daemon=True).start()
        code = remote.wait()
        os._exit(code if code >= 0 else 255)  # of a program that a signal has ended ssh says no more
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]) & 255)
"""


def parents(pid: int) -> tuple[int, int]:
    """The agent and the guard of a rank's program."""
    above = [pid]
    for _ in range(2):
        above.append(int(Path(f"/proc/{above[-1]}/stat").read_text().rpartition(")")[2].split()[1]))
    for each in above[1:]:
        assert "habana_tf.launcher.agent" in Path(f"/proc/{each}/cmdline").read_text()
    return above[1], above[2]


@pytest.mark.parametrize("where", ["here", pytest.param("other hosts", marks=pytest.mark.rest)])
@pytest.mark.parametrize("how", ["agent killed", "guard killed", "agent stopped", "guard stopped", "both stopped"])
def test_nothing_outlives_an_agent_or_guard(tmp_path: Path, how: str, where: str) -> None:
    """Killed, and the job ends; or stopped, and then the launcher is killed. Children of the program too, in sessions
    of their own and as orphans."""
    program = write(tmp_path / "a.py", LEAVES_CHILDREN)
    shell = write(tmp_path / "shell", REMOTE)
    shell.chmod(0o755)
    options = ("--nodes", "a,b", "--rsh", shell) if where == "other hosts" else ()
    job = start("-n", "2", "--grace", "1", *options, program, tmp_path)
    with killed_in_the_end(job) as pids:
        pids += [wait_for(tmp_path / name) for name in ("0", "1")]
        agent, guard = parents(pids[1])
        pids += [wait_for(tmp_path / f"{rank}.{kind}") for rank in "01" for kind in ("child", "session", "orphan")]
        pids += [agent, guard]
        if "killed" in how:
            os.kill(agent if how == "agent killed" else guard, signal.SIGKILL)
        else:
            for process in {"agent stopped": [agent], "guard stopped": [guard]}.get(how, [agent, guard]):
                os.kill(process, signal.SIGSTOP)
            job.kill()
        _, err = job.communicate(timeout=300)
        if "killed" in how:
            code = 255 if (how, where) == ("guard killed", "other hosts") else 128 + signal.SIGKILL
            assert job.returncode == code and "rank 1" in err, err
        for pid in pids:
            wait_for_end(pid)


def test_nothing_outlives_an_agent_that_is_killed_together_with_its_guard(tmp_path: Path) -> None:
    program = write(tmp_path / "a.py", LEAVES_CHILDREN)
    job = start("-n", "2", "--grace", "1", program, tmp_path)
    with killed_in_the_end(job) as pids:
        pids += [wait_for(tmp_path / name) for name in ("0", "1", "0.session", "1.session", "1.child", "1.orphan")]
        for process in parents(pids[1]):
            os.kill(process, signal.SIGKILL)
        _, err = job.communicate(timeout=300)
        assert "rank 1" in err and job.returncode == 137
        for pid in pids:
            wait_for_end(pid)
