"""Jobs of small programs: how they end, and that nothing of them is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.child import environment


def write(path: Path, text: str) -> Path:
    path.write_text(textwrap.dedent(text))
    return path


PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)


def start(*arguments: str | Path, ignoring: Sequence[int] = (), both: bool = False) -> subprocess.Popen[str]:
    """Starts a job. ignoring: signals that whoever starts it ignores. both: its errors go where its output goes."""

    def arrange() -> None:
        for number in PASSED_ON:  # whatever started the tests
            signal.signal(number, signal.SIG_IGN if number in ignoring else signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, "-m", "habana_tf.cli", "run", *map(str, arguments)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if both else subprocess.PIPE,
        text=True,
        preexec_fn=arrange,
    )


def run(*arguments: str | Path) -> tuple[int, list[str], str]:
    job = start(*arguments)
    out, err = job.communicate(timeout=300)
    return job.returncode, sorted(out.splitlines()), err


@contextlib.contextmanager
def killed_in_the_end(job: subprocess.Popen[str]) -> Iterator[list[int]]:
    """Takes the numbers of processes: of a test that fails neither they are left nor the job."""
    pids: list[int] = []
    try:
        yield pids
    finally:
        job.kill()
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]
    except (ProcessLookupError, FileNotFoundError):
        return False


def wait_for(path: Path, seconds: float = 60) -> int:
    """The process id that a program writes to `path`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError(f"{path} was not written")


def wait_for_end(pid: int) -> None:
    for _ in range(200):
        if not alive(pid):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")


SLEEPER = """
    import os, sys, time
    from pathlib import Path
    folder, rank = Path(sys.argv[1]), os.environ["HABANA_SIM_RANK"]
    part = folder / f"{rank}.part"
    part.write_text(str(os.getpid()))
    part.rename(folder / rank)
"""


def test_every_rank_runs_and_is_heard(tmp_path: Path) -> None:
    program = write(tmp_path / "a.py", """
        import os, sys
        print(os.environ["HABANA_SIM_RANK"], os.environ["HABANA_SIM_SIZE"], *sys.argv[1:])
        print("trouble", file=sys.stderr)
    """)  # fmt: skip
    code, out, err = run("-n", "3", "--log-dir", tmp_path / "logs", program, "--epochs", "2")
    assert code == 0
    assert out == [f"[{k}] {k} 3 --epochs 2" for k in range(3)]
    assert sorted(err.splitlines()) == [f"[{k}] trouble" for k in range(3)]
    assert set((tmp_path / "logs" / "rank_2.log").read_text().splitlines()) == {"2 3 --epochs 2", "trouble"}


def test_a_rank_that_fails_stops_the_others(tmp_path: Path) -> None:
    program = write(tmp_path / "a.py", SLEEPER + """
    if rank == "1":
        while len(list(folder.glob("?"))) < 3:
            time.sleep(0.05)
        sys.exit(7)
    time.sleep(300)
    """)  # fmt: skip
    code, _, err = run("-n", "3", program, tmp_path)
    assert code == 7
    assert "rank 1 (process " in err and "failed with exit code 7" in err and "stopping the other 2" in err
    for rank in range(3):
        assert not alive(wait_for(tmp_path / str(rank)))


def test_a_killed_rank_is_named(tmp_path: Path) -> None:
    program = write(tmp_path / "a.py", SLEEPER + "\n    time.sleep(300)\n")
    job = start("-n", "2", program, tmp_path)
    pids = [wait_for(tmp_path / "0"), wait_for(tmp_path / "1")]
    os.kill(pids[1], signal.SIGKILL)
    _, err = job.communicate(timeout=300)
    assert job.returncode == 128 + signal.SIGKILL
    assert "rank 1" in err and "was ended by SIGKILL" in err
    assert not any(map(alive, pids))


def test_a_rank_that_will_not_end_is_killed(tmp_path: Path) -> None:
    program = write(tmp_path / "a.py", """
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    """ + SLEEPER + """
    if rank == "0":
        while not (folder / "1").exists():
            time.sleep(0.05)
        sys.exit(3)
    time.sleep(300)
    """)  # fmt: skip
    begin = time.monotonic()
    code, _, err = run("-n", "2", "--grace", "0.5", program, tmp_path)
    assert code == 3 and time.monotonic() - begin < 60
    assert "in order: rank 0" in err and "rank 1" in err.split("in order", 1)[1]
    assert not alive(wait_for(tmp_path / "1"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_every_rank(tmp_path: Path, number: signal.Signals) -> None:
    program = write(tmp_path / "a.py", f"""
    import signal, sys
    def leave(number, frame):
        print("got", number, flush=True)
        sys.exit(0)
    signal.signal({int(number)}, leave)
    """ + SLEEPER + "\n    time.sleep(300)\n")  # fmt: skip
    job = start("-n", "2", program, tmp_path)
    wait_for(tmp_path / "0"), wait_for(tmp_path / "1")
    job.send_signal(number)
    out, _ = job.communicate(timeout=300)
    assert job.returncode == 0
    assert sorted(out.splitlines()) == [f"[0] got {int(number)}", f"[1] got {int(number)}"]


@pytest.mark.parametrize("both", [False, True], ids=["output", "output and errors"])
def test_a_job_goes_on_when_nobody_reads_it(tmp_path: Path, both: bool) -> None:
    program = write(tmp_path / "a.py", SLEEPER + """
    print("before", flush=True)
    while not (folder / "go").exists():
        time.sleep(0.05)
    for _ in range(3):
        print("after", flush=True)
        print("trouble", file=sys.stderr, flush=True)
    sys.exit(7)
    """)  # fmt: skip
    job = start("-n", "1", "--log-dir", tmp_path / "logs", program, tmp_path, both=both)
    assert job.stdout is not None and job.stdout.readline() == "[0] before\n"
    job.stdout.close()
    (tmp_path / "go").touch()
    err = "" if job.stderr is None else job.stderr.read()
    assert job.wait(30) == 7, err
    log = (tmp_path / "logs" / "rank_0.log").read_text()
    assert sorted(log.split()) == ["after"] * 3 + ["before"] + ["trouble"] * 3
    if not both:
        assert err.count("[0] trouble") == 3 and err.count("standard output cannot be written to any more") == 1
        assert "rank 0 (process " in err and "Traceback" not in err and "Exception" not in err


def test_signals_reach_what_timeout_runs(tmp_path: Path) -> None:
    program = write(tmp_path / "a.py", """
    import signal
    def leave(number, frame):
        (folder / f"{rank}.got").write_text(str(number))
        os._exit(0)  # a second one, from timeout itself, finds nobody
    signal.signal(signal.SIGINT, leave)
    """ + SLEEPER + "\n    time.sleep(300)\n")  # fmt: skip
    shell = write(tmp_path / "a.sh", """\
        #!/bin/sh
        trap : INT
        timeout 300 "$@"
    """)  # fmt: skip
    shell.chmod(0o755)
    job = start("-n", "2", shell, sys.executable, program, tmp_path)
    with killed_in_the_end(job) as pids:
        pids += [wait_for(tmp_path / "0"), wait_for(tmp_path / "1")]
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=300)
        assert job.returncode == 0, err
        assert [wait_for(tmp_path / f"{rank}.got", 0.1) for rank in (0, 1)] == [signal.SIGINT] * 2


def test_an_ignored_signal_is_ignored_by_the_job(tmp_path: Path) -> None:
    """As after `nohup habana-tf run ... &` and the end of the terminal."""
    program = write(tmp_path / "a.py", """
    import signal
    print([signal.getsignal(number) == signal.SIG_IGN for number in (signal.SIGHUP, signal.SIGTERM)])
    """ + SLEEPER + """
    while not (folder / "go").exists():
        time.sleep(0.05)
    """)  # fmt: skip
    job = start("-n", "2", program, tmp_path, ignoring=[signal.SIGHUP])
    wait_for(tmp_path / "0"), wait_for(tmp_path / "1")
    job.send_signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    out, _ = job.communicate(timeout=300)
    assert job.returncode == 0
    assert sorted(out.splitlines()) == ["[0] [True, False]", "[1] [True, False]"]


@pytest.mark.parametrize("interrupts", [2, 3])
def test_a_second_interrupt_ends_the_job_and_a_third_kills_it(tmp_path: Path, interrupts: int) -> None:
    """Programs that ignore every interrupt, and the processes they have started."""
    program = write(tmp_path / "a.py", """
    import signal, subprocess, sys
    def count(number, frame):
        (folder / f"{rank}.int").write_text(str(number))
    """ + SLEEPER.replace("part.rename", """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL if sys.argv[2] == "2" else signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "300"])
    signal.signal(signal.SIGINT, count)
    (folder / f"{rank}.child").write_text(str(child.pid))
    part.rename""") + """
    while True:
        time.sleep(300)
    """)  # fmt: skip
    grace = "240" if interrupts == 3 else "120"
    job = start("-n", "2", "--grace", grace, program, tmp_path, str(interrupts))
    try:
        pids = [wait_for(tmp_path / name) for name in ("0", "1", "0.child", "1.child")]
        job.send_signal(signal.SIGINT)
        assert [wait_for(tmp_path / f"{rank}.int") for rank in range(2)] == [signal.SIGINT] * 2
        assert all(map(alive, pids)) and job.poll() is None
        begin = time.monotonic()
        for _ in range(interrupts - 1):
            job.send_signal(signal.SIGINT)
            time.sleep(0.5)
        _, err = job.communicate(timeout=100)  # less than the grace
        ending = signal.SIGTERM if interrupts == 2 else signal.SIGKILL
        assert job.returncode == 128 + ending and ending.name in err, err
        assert time.monotonic() - begin < 100
        for pid in pids:
            wait_for_end(pid)
    finally:
        job.kill()


def test_a_third_interrupt_kills_what_runs_on_other_hosts(tmp_path: Path) -> None:
    """A remote shell that ends as ssh does: what it runs is not told but meets the end of its input."""
    shell = write(tmp_path / "shell", f"""\
        #!{sys.executable}
        import os, subprocess, sys, threading
        line = ["sh", "-c", " ".join(sys.argv[2:])]
        remote = subprocess.Popen(line, stdin=subprocess.PIPE, bufsize=0, start_new_session=True)
        def bring():
            while data := os.read(0, 4096):
                remote.stdin.write(data)
            remote.stdin.close()
        threading.Thread(target=bring, daemon=True).start()
        sys.exit(remote.wait())
    """)  # fmt: skip
    shell.chmod(0o755)
    program = write(tmp_path / "a.py", """
    import signal
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: (folder / f"{rank}.{number}").write_text(str(number)))
    """ + SLEEPER + """
    while True:
        time.sleep(300)
    """)  # fmt: skip
    job = start("-n", "2", "--nodes", "a,b", "--rsh", shell, "--grace", "120", program, tmp_path)
    with killed_in_the_end(job) as pids:
        pids += [wait_for(tmp_path / "0"), wait_for(tmp_path / "1")]
        for number in (signal.SIGINT, signal.SIGTERM):  # passed on, and asked to end
            job.send_signal(signal.SIGINT)
            assert [wait_for(tmp_path / f"{rank}.{number}") for rank in (0, 1)] == [number] * 2
        job.send_signal(signal.SIGINT)
        _, err = job.communicate(timeout=60)  # less than the grace
        assert not any(map(alive, pids))
        assert job.returncode == 128 + signal.SIGKILL and "rank 0 on a was ended by SIGKILL" in err, err


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


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    code, _, err = run("-n", "2", tmp_path / "no.py")
    assert code == 2 and "there is no file" in err
    code, _, err = run("-n", "2", tmp_path / "nothing")
    assert code == 127 and "could not be started" in err and "cannot run" in err


def test_a_job_that_fails_says_which_line_goes_on_from_its_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the program noted last; rank 1 noted nothing, and rank 0 notes before its end only. A job that ends well
    says nothing."""
    program = write(
        tmp_path / "train.py",
        """
        import os, sys, time
        from pathlib import Path
        if os.environ["HABANA_SIM_RANK"] == "1":
            while not Path("saved").exists():
                time.sleep(0.01)
            sys.exit(int(sys.argv[1]))
        for step in (10, 20):
            Path(os.environ["HABANA_SIM_CHECKPOINT_NOTE"]).write_text(f"here/ckpt-{step}")
        Path("saved").touch()
        time.sleep(0 if sys.argv[1] == "0" else 60)
        """,
    )
    line = "-n", "2", "--no-bind", program, "3", "--name", "two words"
    monkeypatch.chdir(tmp_path)
    _, _, err = run(*line)
    said = [each for each in err.splitlines() if "goes on from" in each]
    typed = f"habana-tf run -n 2 --no-bind {program} 3 --name 'two words'"
    assert said == [f"[0] the job goes on from here/ckpt-20 by: {typed}"], err
    code, _, err = run("-n", "2", program, "0")
    assert code == 0 and "goes on" not in err


def test_a_note_is_read_where_the_agent_made_its_folder(tmp_path: Path) -> None:
    """And not through a link in its place. What it says cannot look like a line of the launcher's."""
    (tmp_path / "secrets").mkdir()
    write(tmp_path / "secrets" / "checkpoint", "s3cret")
    program = write(tmp_path / "a.py", r"""
        import os, sys
        note = os.environ["HABANA_SIM_CHECKPOINT_NOTE"]
        open(note, "wb").write(b"a\x1b[2J\nhabana-tf run: b")
        folder = os.path.dirname(note)
        os.rename(folder, folder + ".old")
        os.symlink(sys.argv[1], folder)
        sys.exit(3)
    """)  # fmt: skip
    code, _, err = run("-n", "1", program, tmp_path / "secrets")
    assert code == 3 and "s3cret" not in err and "Traceback" not in err, err
    assert r"[0] the job goes on from a\x1b[2J\nhabana-tf run: b by: habana-tf run -n 1 " in err


def test_what_cannot_be_started_names_its_option(tmp_path: Path) -> None:
    program = write(tmp_path / "a.py", "")
    pipes = tmp_path / "pipes"
    pipes.mkdir()
    os.mkfifo(pipes / "rank_1.log")
    wrong = [("--python", "/no/python"), ("--rsh", "no-shell"), ("--log-dir", "/proc/no"), ("--log-dir", str(pipes))]
    for option, value in wrong:
        code, _, err = run("-n", "2", *(("--nodes", "a,b") if option == "--rsh" else ()), option, value, program)
        assert code in (1, 2) and option in err and "Traceback" not in err, err


def test_print_runs_nothing(tmp_path: Path) -> None:
    program = write(tmp_path / "a.py", SLEEPER)
    code, out, _ = run("-n", "2", "--nodes", "a,b", "--print", program, tmp_path)
    assert code == 0 and len(out) == 2 and not (tmp_path / "0").exists()
    assert out[1].startswith("rank 1 on b: cd ") and "TF_CONFIG=" in out[1] and "b:7850" in out[1]
    code, out, _ = run("-n", "2", "--nodes", "a,b", "--strategy", "horovod", "--print", program, tmp_path)
    assert code == 0 and len(out) == 1 and "horovodrun --gloo -np 2 -H a:1,b:1 " in out[0]


def test_other_hosts_are_reached_through_the_remote_shell(tmp_path: Path) -> None:
    """A remote shell of ours that runs the line here, as ssh does there, and says for which host."""
    shell = write(tmp_path / "shell", """\
        #!/bin/sh
        host=$1
        shift
        HOST_ASKED=$host exec sh -c "$*"
    """)  # fmt: skip
    shell.chmod(0o755)
    program = write(tmp_path / "a.py", """
        import os
        print(os.environ["HOST_ASKED"], os.environ["HABANA_SIM_RANK"], os.environ["HABANA_SIM_LOCAL_RANK"])
    """)  # fmt: skip
    code, out, err = run("-n", "2", "--nodes", "a,b", "--rsh", shell, program)
    assert code == 0, err
    assert out == ["[0] a 0 0", "[1] b 1 0"]


def test_a_host_that_is_lost_is_named_and_ends_the_job(tmp_path: Path) -> None:
    """A remote shell that ends as ssh does when its host has not answered for some time."""
    shell = write(tmp_path / "shell", """\
        #!/bin/sh
        host=$1
        shift
        [ $host = a ] && exec sh -c "$*"
        while ! [ -e "$(dirname $0)/0" ]; do sleep 0.05; done
        exit 255
    """)  # fmt: skip
    shell.chmod(0o755)
    program = write(tmp_path / "a.py", SLEEPER + "\n    time.sleep(300)\n")
    code, _, err = run("-n", "2", "--nodes", "a,b", "--rsh", shell, program, tmp_path)
    assert code == 255 and "rank 1 on b could not be reached any more" in err and "stopping the other 1" in err
    assert not alive(wait_for(tmp_path / "0"))
