"""The backend `hccl`: every collective against what arithmetic on the host says, and what is told of a lost rank."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from tests.distribute.job import free_ports, job
from tests.torch.child import needs_torch
from tests.torch.ranks import PROLOGUE, run, variables

pytestmark = needs_torch

COLLECTIVES = """
import numpy as np
import torch.distributed._functional_collectives as functional

start()
R = dist.ReduceOp
FOLDS = {"SUM": np.sum, "AVG": np.mean, "MIN": np.min, "MAX": np.max, "PRODUCT": np.prod}
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8)


def numbers(of, dtype, count=6):
    values = np.random.default_rng(of).integers(1, 6, count)
    return torch.from_numpy(values).to(dtype)


def same(found, wanted):
    found = found.cpu() if isinstance(found, torch.Tensor) else found
    wanted = torch.as_tensor(np.asarray(wanted)).to(found.dtype)
    assert torch.equal(found, wanted), (found, wanted)


def reductions():
    for dtype in TYPES:
        for name, fold in FOLDS.items():
            wanted = fold([numbers(r, torch.float64).numpy() for r in range(size)], axis=0)
            for count_async in (False, True):
                t = numbers(rank, dtype).to(hpu)
                work = dist.all_reduce(t, getattr(R, name), async_op=count_async)
                if count_async:
                    assert work.wait(datetime.timedelta(seconds=60)) and work.is_completed() and work.result()[0] is t
                same(t, wanted)
            t = numbers(rank, dtype).to(hpu)
            dist.reduce(t, size - 1, getattr(R, name))
            if rank == size - 1:
                same(t, wanted)
    large = torch.arange(700_000, dtype=torch.float32).to(hpu) + rank  # several pieces of the exchange
    dist.all_reduce(large)
    same(large, size * np.arange(700_000) + sum(range(size)))
    with torch.inference_mode():
        for op, wanted in ((R.SUM, [sum(range(size)), 7 * size]), (R.AVG, [sum(range(size)) // size, 7])):
            t = torch.tensor([rank, 7], device=hpu)
            dist.all_reduce(t, op)
            same(t, wanted)
    a, b = on_card(rank), on_card(rank, 1)
    dist.all_reduce_coalesced([a, b])
    same(a, [sum(range(size))]), same(b, [sum(range(size)), size])
    with dist._coalescing_manager(device=hpu, async_ops=True) as several:
        a, b = on_card(rank), on_card(rank, 1)
        dist.all_reduce(a), dist.all_reduce(b)
    several.wait()
    same(a, [sum(range(size))]), same(b, [sum(range(size)), size])


def copies():
    t = on_card(rank, 7)
    dist.broadcast(t, 1)
    same(t, [1, 7])
    rows = [[r * 2, 6] for r in range(size)]
    parts = [on_card(0, 0) for _ in range(size)]
    dist.all_gather(parts, on_card(rank, 3) * 2)
    same(torch.stack([p.cpu() for p in parts]), rows)
    flat = torch.empty(2 * size, device=hpu)
    dist.all_gather_into_tensor(flat, on_card(rank, 3) * 2)
    same(flat, np.ravel(rows))
    into = [on_card(0, 0) for _ in range(size)] if rank == 0 else None
    dist.gather(on_card(rank, 3) * 2, into)
    if rank == 0:
        same(torch.stack([p.cpu() for p in into]), rows)
    one = on_card(0)
    dist.scatter(one, [on_card(r + 5) for r in range(size)] if rank == 0 else None)
    same(one, [rank + 5])
    parts = [on_card(0) for _ in range(size)]
    dist.all_to_all(parts, [on_card(10 * rank + r) for r in range(size)])
    same(torch.stack([p.cpu() for p in parts]).ravel(), [10 * r + rank for r in range(size)])
    parts = [torch.empty(rank + r, 2, device=hpu) for r in range(size)]  # of other sizes for each pair, one of none
    dist.all_to_all(parts, [torch.full((rank + r, 2), 10.0 * rank + r, device=hpu) for r in range(size)])
    for r, part in enumerate(parts):
        same(part, np.full((rank + r, 2), 10 * r + rank))
    flat = torch.empty(size, device=hpu)
    dist.all_to_all_single(flat, on_card(*[10 * rank + r for r in range(size)]))
    same(flat, [10 * r + rank for r in range(size)])


def scattered_sums():
    total = sum(range(size))
    mine = on_card(0, 0)
    dist.reduce_scatter(mine, [on_card(rank, r) for r in range(size)])
    same(mine, [total, size * rank])
    dist.reduce_scatter_tensor(mine, on_card(*[rank] * (2 * size)), R.AVG)
    same(mine, [total / size] * 2)
    whole = torch.tensor([0, 0], device=hpu)
    dist.reduce_scatter(whole, [torch.tensor([rank, -7 * r], device=hpu) for r in range(size)], R.AVG)
    same(whole, [total // size, -7 * rank])


def between_two():
    if rank == 0:
        dist.send(on_card(3, 4), 1)
    elif rank == 1:
        t = on_card(0, 0)
        assert dist.recv(t) == 0
        same(t, [3, 4])
    other, t = (rank + 1) % size, on_card(-1)
    ops = [dist.P2POp(dist.isend, on_card(rank), other), dist.P2POp(dist.irecv, t, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(t, [(rank - 1) % size])


def groups_and_objects():
    alone = [dist.new_group([r]) for r in range(size)][rank]
    t = on_card(rank + 1)
    dist.all_reduce(t, group=alone)
    same(t, [rank + 1])
    everyone = dist.new_group(list(range(size)))
    dist.all_reduce(t, group=everyone)
    same(t, [sum(range(1, size + 1))])
    found = [None] * size
    dist.all_gather_object(found, {"of": rank})
    assert found == [{"of": r} for r in range(size)]
    told = [("first", rank)]
    dist.broadcast_object_list(told, 1)
    assert told == [("first", 1)]
    dist.barrier()
    on_host = torch.tensor([float(rank)])
    dist.all_reduce(on_host)
    assert on_host.item() == sum(range(size))
    dist.destroy_process_group(everyone)


def futures():
    t = on_card(rank)
    future = dist.all_reduce(t, async_op=True).get_future().then(lambda done: done.value()[0].cpu() + 1)
    assert future.wait().item() == sum(range(size)) + 1
    parts = [on_card(0) for _ in range(size)]
    dist.all_gather(parts, on_card(rank), async_op=True).get_future().wait()
    same(torch.cat([p.cpu() for p in parts]), range(size))


def functional_ones():
    g = dist.group.WORLD
    same(functional.all_reduce(on_card(rank, 1), "sum", g), [sum(range(size)), size])
    same(functional.all_gather_tensor(on_card(rank), 0, g), range(size))
    same(functional.reduce_scatter_tensor(on_card(*range(size)), "sum", 0, g), [size * rank])
    same(functional.broadcast(on_card(rank), 1, g), [1])
    same(functional.all_to_all_single(on_card(*[rank] * size), None, None, g), range(size))


def unfinished_recordings():
    before = on_card(1, 2)
    kept = before + 1  # still to be computed, from what the collective overwrites
    dist.all_reduce(before)
    same(kept, [2, 3]), same(before, [size, 2 * size])
    source = on_card(rank) * 3  # not computed yet when it is sent round
    dist.all_reduce(source)
    same(source + 1, [3 * sum(range(size)) + 1])


assert type(dist.group.WORLD)._meet and dist.group.WORLD._exchange is not None  # sums go through shared memory
for test in (reductions, copies, scattered_sums, between_two, groups_and_objects, futures, functional_ones,
             unfinished_recordings):
    test()
mapped = lambda: sum("habana_tf-exchange" in line for line in open("/proc/self/maps"))
assert mapped() == 1, mapped()  # a group that is gone leaves no memory
report(rank, dist.get_backend())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("lazy", ["1", pytest.param("0", marks=pytest.mark.rest)])
def test_collectives(lazy: str) -> None:
    assert run(COLLECTIVES, PT_HPU_LAZY_MODE=lazy) == ["hccl", "hccl"]


@pytest.mark.rest
def test_collectives_of_three() -> None:
    assert run(COLLECTIVES, 3) == ["hccl"] * 3


LOST = """
import sys, time
start(seconds=3)
t = on_card(rank)
dist.all_reduce(t)
print("ready", flush=True)
if rank == 1:
    time.sleep(600)
errors = []
for collective in (lambda: dist.all_reduce(t), lambda: dist.broadcast(t.int(), 1)):
    try:
        collective()
        errors.append("none")
    except dist.DistBackendError as why:
        errors.append(str(why))
report(rank, errors)
os._exit(0)
"""


@pytest.mark.parametrize("dies", [True, False])
def test_a_rank_that_is_gone_or_late_is_named(dies: bool) -> None:
    (port,) = free_ports(1)
    with job(PROLOGUE + LOST) as running:
        for rank in range(2):
            running.start([sys.executable, "script.py"], **variables(rank, 2, port))
        while "ready" not in running.output(1):
            time.sleep(0.05)
            assert running.processes[1].poll() is None, running.everything()
        if dies:
            os.kill(running.processes[1].pid, signal.SIGKILL)
        assert running.processes[0].wait(120) == 0, running.everything()
        ((summed, copied),) = running.reports()
    told = "rank 1 (process" in summed and ("has ended" if dies else "did not take part within 3") in summed
    assert told and "hccl: allreduce failed on rank 0 of 2" in summed, summed
    assert "hccl: broadcast failed on rank 0 of 2" in copied and "init_process_group(timeout=...)" in copied, copied
