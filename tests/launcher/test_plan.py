"""Who runs where with which environment."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import pytest

from habana_tf import settings
from habana_tf.launcher import agent, carried, plan
from habana_tf.launcher.plan import JobOptions, PlanError


def options(**other: Any) -> JobOptions:
    return JobOptions(**{"count": 2, "strategy": "hpu", "program": "train.py", "python": "python", **other})


def test_workers_of_the_strategy_know_each_other() -> None:
    configs = [json.loads(rank.environment["TF_CONFIG"]) for rank in plan.make(options(count=3))]
    assert [c["task"] for c in configs] == [{"type": "worker", "index": k} for k in range(3)]
    assert configs[0]["cluster"] == configs[1]["cluster"] == configs[2]["cluster"]
    assert len(set(configs[0]["cluster"]["worker"])) == 3


def test_a_worker_gets_the_port_that_is_held_for_it_and_nobody_else_does() -> None:
    with ExitStack() as held:
        (rank,) = plan.make(options(count=1), held=held)
        (worker,) = json.loads(rank.environment["TF_CONFIG"])["cluster"]["worker"]
        port = int(worker.rpartition(":")[2])
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("localhost", port))
        with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True):  # as gRPC's
            socket.create_connection(("localhost", port)).close()


def test_several_hosts() -> None:
    ranks = plan.make(options(count=4, hosts=("a", "b")))
    assert [(r.host, r.local_rank) for r in ranks] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    workers = json.loads(ranks[3].environment["TF_CONFIG"])["cluster"]["worker"]
    assert workers == ["a:7850", "a:7851", "b:7850", "b:7851"]
    assert ranks[3].environment["HABANA_SIM_LOCAL_RANK"] == "1" and ranks[3].environment["HABANA_SIM_RANK"] == "3"
    assert ranks[3].describe() == "rank 3 on b"


def test_horovod() -> None:
    rank = plan.make(options(count=4, hosts=("a", "b"), strategy="horovod"), ("10.0.0.1", 1234))[2]
    got = {name: rank.environment[f"HOROVOD_{name}"] for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE",
           "CROSS_RANK", "CROSS_SIZE", "GLOO_RENDEZVOUS_ADDR", "GLOO_RENDEZVOUS_PORT")}  # fmt: skip
    assert list(got.values()) == ["2", "4", "0", "2", "1", "2", "10.0.0.1", "1234"]
    assert "TF_CONFIG" not in rank.environment


def test_torch() -> None:
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT".split()
    rank = plan.make(options(count=4, hosts=("a", "b"), strategy="torch"))[3]
    assert [rank.environment[name] for name in names] == ["3", "4", "1", "2", "a", "7850"]
    assert not {"TF_CONFIG", "HOROVOD_RANK"} & rank.environment.keys()
    here = plan.make(options(strategy="torch"))
    assert len({r.environment["MASTER_PORT"] for r in here}) == 1 and here[1].environment["MASTER_ADDR"] == "localhost"
    with pytest.raises(PlanError, match="--load is for TensorFlow"):
        plan.make(options(strategy="torch", load_first=True))


def test_commands() -> None:
    assert plan.make(options(arguments=("-x",)))[0].command == ("python", "train.py", "-x")
    assert plan.make(options(program="pkg.train", as_module=True))[0].command == ("python", "-m", "pkg.train")
    assert plan.make(options(load_first=True))[0].command == ("python", "-m", "habana_tf", "train.py")
    assert plan.make(options(program="./run.sh"))[0].command == ("./run.sh",)


def test_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(**other: Any) -> list[Any]:
        return [rank.share for rank in plan.make(options(**other))]

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {8, 9, 10, 11, 12})
    assert [agent.cores(*share) for share in shares()] == [[8, 9], [10, 11]]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {8})
    assert [agent.cores(*share) for share in shares()] == [[8], [8]]
    assert shares(count=4, hosts=("a", "b")) == [(0, 2), (1, 2)] * 2
    assert shares(bind=False) == [None, None]


def test_settings_go_to_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", "/somewhere")
    monkeypatch.setenv("TF_CONFIG", "not this one")
    monkeypatch.setenv("UNRELATED", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", "/this/machine")
    rank = plan.make(options(hosts=("a", "b")))[0]
    assert rank.environment["OMP_NUM_THREADS"] == "3"
    assert rank.environment["TF_RECIPE_CACHE_PATH"] == "/somewhere" and "UNRELATED" not in rank.environment
    assert "HABANA_SIM_STATE_DIR" not in rank.environment
    assert json.loads(rank.environment["TF_CONFIG"])["task"]["index"] == 0
    assert "TF_RECIPE_CACHE_PATH=/somewhere" in rank.shell_line()


SECRETS = """
    AWS_SECRET_ACCESS_KEY AZURE_STORAGE_KEY GITHUB_TOKEN GOOGLE_APPLICATION_CREDENTIALS HABANA_SECRET
    HABANA_SIMULATOR_PASSWORD HBN_PASSWORD HF_TOKEN HLS_TOKEN HOROVOD_PASSWORD HTTPS_PROXY KERAS_API_KEY
    OMPI_COMM_WORLD_RANK OMP_TOKEN PATH_TO_SECRETS PMI_RANK PYTHON_KEYRING_PASSWORD PYTHONPASSWORD SLURM_PROCID
    TF_CONFIG_SECRET TF_TOKEN_app_terraform_io TF_VAR_db_password TF_VAR_password XDG_CACHE_HOME_SECRET XDG_RUNTIME_DIR
""".split()  # of other programs, some with the beginnings of our names; and where another launcher has put this process


@pytest.mark.parametrize("strategy", ["hpu", "horovod", "torch"])
def test_nothing_that_is_not_asked_for_leaves_this_host(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "5a5a")
    monkeypatch.setenv("TF_TOKEN_wanted", "s3cret")
    job = options(hosts=("a", "b"), export=("TF_TOKEN_wanted", "HF_TOKEN"), strategy=strategy)
    for rank in plan.make(job, ("10.0.0.1", 1)):
        sent = {name for name in SECRETS if rank.environment.get(name) == "5a5a"}
        assert sent == {"HF_TOKEN"} and rank.environment["TF_TOKEN_wanted"] == "s3cret"
        line = rank.shell_line()
        assert "s3cret" not in line and 'TF_TOKEN_wanted="$TF_TOKEN_wanted"' in line and 'HF_TOKEN="$HF_TOKEN"' in line
    left = carried.left_here(job.export)
    assert {"HABANA_SECRET", "TF_VAR_password", "OMP_TOKEN"} <= set(left) and "AWS_SECRET_ACCESS_KEY" not in left
    assert "TF_TOKEN_wanted" not in left and not set(left) & carried.known()


def test_a_shell_line_takes_what_is_exported_from_its_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "here")
    program = ("-c", "import os; print(os.environ['HF_TOKEN'])")
    job = options(hosts=("a", "b"), export=("HF_TOKEN",), program=sys.executable, arguments=program, directory="/")
    line = plan.make(job)[1].shell_line()
    done = subprocess.run(line, shell=True, env={**os.environ, "HF_TOKEN": "it's $there"}, capture_output=True)
    assert done.stdout.decode() == "it's $there\n"


def test_a_shell_line_is_one_line_whatever_is_in_it() -> None:
    words = ("a\nb", "\x1b[2J", "it's \\ $HOME", "\\\n'", "\x9b\u202e\udcff")
    script = ("-c", "import os, sys; print([os.fsencode(word) for word in sys.argv[1:]])")
    line = plan.make(options(program=sys.executable, arguments=(*script, *words), directory="/"))[0].shell_line()
    assert line.isprintable()
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert done.stdout.decode().strip() == str([os.fsencode(word) for word in words])


def test_every_setting_that_is_declared_is_known() -> None:
    stay = {"HABANA_SIM_STATE_DIR", "HABANA_SIM_CHECKPOINT_NOTE", "TF_CONFIG"}
    ours = {each.name for each in settings.declared() if each.name.startswith(("HABANA_", "TF_", "HBN_", "HLS"))}
    assert len(ours) > 30 and ours - stay <= carried.known() and not stay & carried.known()


def test_horovod_without_the_launcher() -> None:
    """Its ranks meet in the launcher, so the commands of single ranks would lead nowhere."""
    line = plan.horovodrun(options(count=4, hosts=("a", "b"), directory="/my dir", load_first=True, arguments=("-x",)))
    assert line == "cd '/my dir' && horovodrun --gloo -np 4 -H a:2,b:2 python -m habana_tf train.py -x"
    assert " -H localhost:2 " in plan.horovodrun(options())


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanError, match="3 ranks cannot be spread evenly over 2 hosts"):
        plan.make(options(count=3, hosts=("a", "b")))
    with pytest.raises(PlanError, match="named twice"):
        plan.make(options(hosts=("a", "a")))
    for itself in ("localhost", "LOCALHOST", "127.0.0.1", "127.0.1.1", "::1"):
        for hosts in ((itself, "b"), ("b", itself)):
            with pytest.raises(PlanError, match=f"{itself} means another host on each host: name this one"):
                plan.make(options(hosts=hosts))
        plan.make(options(hosts=(itself,)))
    with pytest.raises(PlanError, match="NOT_SET_HERE is not set here"):
        plan.make(options(export=("NOT_SET_HERE",)))
    plan.make(options(port=65534))
    with pytest.raises(PlanError, match="would have port 65536, and there is none past 65535: use 65534 or less"):
        plan.make(options(port=65535))
    monkeypatch.setenv("HLS1_MODULE_ID", "2")
    with pytest.raises(PlanError, match="HLS1_MODULE_ID would give the 2 ranks of a host the same card"):
        plan.make(options())
    plan.make(options(hosts=("a", "b")))
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4,5,6")
    with pytest.raises(PlanError, match=r"4 ranks .* 3 are visible.*HABANA_VISIBLE_MODULES"):
        plan.make(options(count=4))
