"""Who runs where with which environment."""

from __future__ import annotations

import json
import os
import socket
from contextlib import ExitStack
from typing import Any

import pytest

from habana_tf.launcher import agent, plan
from habana_tf.launcher.plan import PlanError, Wish


def wish(**other: Any) -> Wish:
    return Wish(**{"count": 2, "strategy": "hpu", "program": "train.py", "python": "python", **other})


def test_workers_of_the_strategy_know_each_other() -> None:
    configs = [json.loads(rank.environment["TF_CONFIG"]) for rank in plan.make(wish(count=3))]
    assert [c["task"] for c in configs] == [{"type": "worker", "index": k} for k in range(3)]
    assert configs[0]["cluster"] == configs[1]["cluster"] == configs[2]["cluster"]
    assert len(set(configs[0]["cluster"]["worker"])) == 3


def test_a_worker_gets_the_port_that_is_held_for_it_and_nobody_else_does() -> None:
    with ExitStack() as held:
        (rank,) = plan.make(wish(count=1), held=held)
        (worker,) = json.loads(rank.environment["TF_CONFIG"])["cluster"]["worker"]
        port = int(worker.rpartition(":")[2])
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("localhost", port))
        with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True):  # as gRPC's
            socket.create_connection(("localhost", port)).close()


def test_several_hosts() -> None:
    ranks = plan.make(wish(count=4, hosts=("a", "b")))
    assert [(r.host, r.local_rank) for r in ranks] == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    workers = json.loads(ranks[3].environment["TF_CONFIG"])["cluster"]["worker"]
    assert workers == ["a:7850", "a:7851", "b:7850", "b:7851"]
    assert ranks[3].environment["HABANA_SIM_LOCAL_RANK"] == "1" and ranks[3].environment["HABANA_SIM_RANK"] == "3"
    assert ranks[3].describe() == "rank 3 on b"


def test_horovod() -> None:
    rank = plan.make(wish(count=4, hosts=("a", "b"), strategy="horovod"), ("10.0.0.1", 1234))[2]
    got = {name: rank.environment[f"HOROVOD_{name}"] for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE",
           "CROSS_RANK", "CROSS_SIZE", "GLOO_RENDEZVOUS_ADDR", "GLOO_RENDEZVOUS_PORT")}  # fmt: skip
    assert list(got.values()) == ["2", "4", "0", "2", "1", "2", "10.0.0.1", "1234"]
    assert "TF_CONFIG" not in rank.environment


def test_commands() -> None:
    assert plan.make(wish(arguments=("-x",)))[0].command == ("python", "train.py", "-x")
    assert plan.make(wish(program="pkg.train", as_module=True))[0].command == ("python", "-m", "pkg.train")
    assert plan.make(wish(load_first=True))[0].command == ("python", "-m", "habana_tf", "train.py")
    assert plan.make(wish(program="./run.sh"))[0].command == ("./run.sh",)


def test_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(**other: Any) -> list[Any]:
        return [rank.share for rank in plan.make(wish(**other))]

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
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", "/this/machine")
    rank = plan.make(wish(hosts=("a", "b")))[0]
    assert rank.environment["TF_RECIPE_CACHE_PATH"] == "/somewhere" and "UNRELATED" not in rank.environment
    assert "HABANA_SIM_STATE_DIR" not in rank.environment
    assert json.loads(rank.environment["TF_CONFIG"])["task"]["index"] == 0
    assert "TF_RECIPE_CACHE_PATH=/somewhere" in rank.shell_line()


def test_horovod_without_the_launcher() -> None:
    """Its ranks meet in the launcher, so the commands of single ranks would lead nowhere."""
    line = plan.horovodrun(wish(count=4, hosts=("a", "b"), directory="/my dir", load_first=True, arguments=("-x",)))
    assert line == "cd '/my dir' && horovodrun --gloo -np 4 -H a:2,b:2 python -m habana_tf train.py -x"
    assert " -H localhost:2 " in plan.horovodrun(wish())


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanError, match="3 ranks cannot be spread evenly over 2 hosts"):
        plan.make(wish(count=3, hosts=("a", "b")))
    with pytest.raises(PlanError, match="named twice"):
        plan.make(wish(hosts=("a", "a")))
    for itself in ("localhost", "LOCALHOST", "127.0.0.1", "127.0.1.1", "::1"):
        for hosts in ((itself, "b"), ("b", itself)):
            with pytest.raises(PlanError, match=f"{itself} is another host on each host: name this one"):
                plan.make(wish(hosts=hosts))
        plan.make(wish(hosts=(itself,)))
    monkeypatch.setenv("HLS1_MODULE_ID", "2")
    with pytest.raises(PlanError, match="HLS1_MODULE_ID would give the 2 ranks of a host the same card"):
        plan.make(wish())
    plan.make(wish(hosts=("a", "b")))
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4,5,6")
    with pytest.raises(PlanError, match=r"4 ranks .* 3 are visible.*HABANA_VISIBLE_MODULES"):
        plan.make(wish(count=4))
