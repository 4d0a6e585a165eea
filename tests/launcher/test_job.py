"""Jobs of small programs: what is heard of them, how they end, and where their ranks run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.launcher.jobs import SLEEPER, alive, run, start, wait_for, write


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
