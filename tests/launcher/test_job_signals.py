"""Signals that a job gets: which ranks they reach, and what a second and a third interrupt do."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from tests.launcher.jobs import SLEEPER, alive, killed_in_the_end, start, wait_for, wait_for_end, write


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
