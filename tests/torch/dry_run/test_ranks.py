"""Programs of PyTorch as ranks of jobs that do not exist: bytes and calls as each way of training says of itself."""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.child import python
from tests.torch.child import HAS_TORCH, needs_torch, on_device

if HAS_TORCH:
    import torch
    import torch.distributed as dist
    from torch import nn

    import habana_tf
    from habana_tf.card.prediction.ranks import Collective, Disagreement, Launch
    from habana_tf.dry_run.ranks import RanksPrediction

LAZY = ("lazy",)
WIDTH, LAYERS = 256, 4
WEIGHTS = LAYERS * (WIDTH * WIDTH + WIDTH)


def layers() -> nn.Sequential:
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])


def steps(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(100):
        module(torch.randn(32, WIDTH, device="hpu")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def begun() -> None:
    import habana_frameworks.torch.distributed.hccl  # noqa: F401

    dist.init_process_group("hccl")


def calls(found: RanksPrediction, rank: int = 0) -> dict[str, list[Collective]]:
    made: dict[str, list[Collective]] = {}
    for span in found.spans:
        if span.rank == rank and isinstance(span.event, Collective):
            made.setdefault(span.event.kind, []).append(span.event)
    return made


def total(found: list[Collective]) -> int:
    return sum(each.nbytes for each in found)


def data_parallel() -> None:
    begun()
    assert dist.get_world_size() == 16 and os.environ["LOCAL_RANK"] == str(dist.get_rank() % 8)
    module = nn.parallel.DistributedDataParallel(layers().to("hpu"), bucket_cap_mb=0.3)
    steps(module, torch.optim.SGD(module.parameters(), 0.1))


@on_device(modes=LAZY)
def test_data_parallel_sums_gradients_in_buckets_beside_the_backward_pass() -> None:
    found = habana_tf.predict(data_parallel, world=16, rank=(0, 9), chip="gaudi2")
    for rank in (0, 9):
        made = calls(found, rank)
        assert set(made) == {"all_reduce"} and total(made["all_reduce"]) == 4 * WEIGHTS
        assert len(made["all_reduce"]) > 1 and {each.ranks for each in made["all_reduce"]} == {tuple(range(16))}
    assert found.world == 16 and [each.rank for each in found.ranks] == [0, 9] and found.seconds > 0
    assert 4 * 2 * WEIGHTS < found.memory < 4 * 6 * WEIGHTS  # weights, gradients, two lots of buckets
    again = habana_tf.predict(data_parallel, world=16, chip="gaudi3")
    assert again.seconds < found.seconds
    assert "16 cards" in str(found) and json.loads(json.dumps(found.to_dict()))["ranks"][1]["rank"] == 9


def sharded() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    begun()
    mesh = init_device_mesh("hpu", (dist.get_world_size(),))
    with torch.device("meta"):
        module = layers()
    for layer in module:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    module.to_empty(device="hpu")
    steps(module, torch.optim.AdamW(module.parameters()))


@on_device(modes=LAZY)
def test_sharded_weights_are_gathered_twice_and_gradients_scattered_once() -> None:
    made = calls(habana_tf.predict(sharded, world=8))
    assert set(made) == {"all_gather", "reduce_scatter"}
    assert total(made["reduce_scatter"]) == 4 * WEIGHTS
    assert 4 * (2 * WEIGHTS - WIDTH * WIDTH - WIDTH) <= total(made["all_gather"]) <= 8 * WEIGHTS  # the last may stay
    alone, shared = (habana_tf.predict(sharded, world=n).memory for n in (1, 8))
    assert shared < alone / 2


class Block(nn.Module if HAS_TORCH else object):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


def tensor_parallel() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    begun()
    mesh = init_device_mesh("hpu", (2, 4), mesh_dim_names=("dp", "tp"))
    with torch.device("meta"):
        module = nn.Sequential(*[Block() for _ in range(LAYERS)])
    for block in module:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    module.to_empty(device="hpu")
    steps(module, torch.optim.SGD(module.parameters(), 0.1))


@on_device(modes=LAZY)
def test_tensor_parallel_sums_activations_within_its_group() -> None:
    found = habana_tf.predict(tensor_parallel, world=8, rank=(1, 6))
    one, other = calls(found, 1)["all_reduce"], calls(found, 6)["all_reduce"]
    assert {each.ranks for each in one} == {(0, 1, 2, 3)} and {each.ranks for each in other} == {(4, 5, 6, 7)}
    forward = [each for each in one if each.nbytes == 4 * 32 * WIDTH]
    assert len(forward) == 2 * LAYERS - 1  # forward of each block, backward of all but the first
    assert all(span.end > span.begin for span in found.spans)


def pipeline() -> None:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    begun()
    rank, size = dist.get_rank(), dist.get_world_size()
    with torch.device("hpu"):
        module = nn.Sequential(nn.Linear(WIDTH, WIDTH))
    stage = PipelineStage(module, rank, size, torch.device("hpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=lambda y, target: (y - target).square().mean())
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for _ in range(3):
        x = torch.randn(32, WIDTH, device="hpu")
        if rank == 0:
            schedule.step(x)
        elif rank == size - 1:
            schedule.step(target=x)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()


@on_device(modes=LAZY)
def test_stages_of_a_pipeline_send_micro_batches_and_wait() -> None:
    """Stages tell each other of shapes in objects before, which need what other ranks say."""
    found = habana_tf.predict(pipeline, world=3, rank=(0, 1, 2))
    counts = [Counter({kind: len(each) for kind, each in calls(found, rank).items()}) for rank in range(3)]
    assert counts == [Counter(send=4, recv=4), Counter(send=8, recv=8), Counter(send=4, recv=4)]
    sent = [span for span in found.spans if isinstance(span.event, Collective) and span.event.ranks == (0, 1)]
    assert {span.event.nbytes for span in sent} == {4 * 8 * WIDTH} and len(sent) == 8  # both sides of four
    first = min(
        span.begin for span in found.spans if span.rank == 2 and isinstance(span.event, Launch) and span.event.reads
    )
    assert first > min(span.begin for span in found.spans if span.rank == 0)
    assert found.ranks[0].exposed > 0


def wrong() -> None:
    begun()
    x = torch.ones(64, device="hpu")
    dist.all_reduce(x)
    if dist.get_rank() == 5:
        dist.broadcast(x, 0)
    else:
        dist.all_reduce(x)


def wrong_at_first() -> None:
    begun()
    module = nn.parallel.DistributedDataParallel(layers().to("hpu"))
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for step in range(5):
        module(torch.randn(32, WIDTH, device="hpu")).square().mean().backward()
        optimizer.step()
        if step or dist.get_rank() != 5:
            dist.all_reduce(torch.ones(16, device="hpu"))  # not by all


@on_device(modes=LAZY)
def test_a_wrong_line_of_a_step_that_is_not_predicted_is_named() -> None:
    line = next(k for k, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "# not by all" in text)
    with pytest.raises(Disagreement, match=f"rank 0 calls all_reduce of 64 bytes at {__file__}:{line}, rank 5 calls"):
        habana_tf.predict(wrong_at_first, world=8, rank=(0, 5))


@on_device(modes=LAZY)
def test_one_wrong_line_is_named_with_that_of_the_others() -> None:
    lines = Path(__file__).read_text().splitlines()
    there = [k for k, line in enumerate(lines, 1) if line.startswith("        dist.")]
    with pytest.raises(Disagreement) as caught:
        habana_tf.predict(wrong, world=8, rank=(0, 5))
    words = str(caught.value)
    assert f"rank 0 calls all_reduce of 256 bytes at {__file__}:{there[1]}" in words
    assert f"rank 5 calls broadcast of 256 bytes at {__file__}:{there[0]}" in words


def of_one_root() -> None:
    begun()
    x = torch.ones(8, device="hpu")
    all_of_them = [torch.empty_like(x) for _ in range(4)] if dist.get_rank() == 1 else None
    dist.gather(x, all_of_them, dst=1)
    dist.scatter(x, all_of_them, src=1)
    large = torch.ones(4096, 4096, device="hpu")
    dist.reduce_scatter_tensor(torch.empty(1024, 4096, device="hpu"), large @ large)


@on_device(modes=LAZY)
def test_ranks_of_a_gather_have_other_bytes_and_a_sum_waits_for_what_it_sends() -> None:
    found = habana_tf.predict(of_one_root, world=4, rank=(0, 1))
    assert list(calls(found)) == list(calls(found, 1)) == ["gather", "scatter", "reduce_scatter"]
    mine = [span for span in found.spans if span.rank == 0]
    product = max((span for span in mine if isinstance(span.event, Launch)), key=lambda span: span.event.seconds)
    summed = next(span for span in mine if isinstance(span.event, Collective) and span.event.kind == "reduce_scatter")
    assert summed.begin >= product.end > product.begin


def talking() -> None:
    begun()
    told: list[object] = [{"name": dist.get_rank()}]
    dist.broadcast_object_list(told, src=2)
    assert told == [{"name": 2}]
    everyone: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, "the same")
    assert everyone == ["the same"] * 4
    summed, most = torch.tensor([3]), torch.tensor([3])
    dist.all_reduce(summed)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    assert (summed.item(), most.item()) == (12, 3)
    x = torch.ones(8, device="hpu")
    dist.all_reduce(x)
    assert (x * 2).sum().item() == 0  # nothing is computed


@on_device(modes=LAZY)
def test_objects_are_told_and_values_are_counted() -> None:
    found = habana_tf.predict(talking, world=4)
    assert {each.rank for each in found.ranks} == {0, 2}  # rank 2 says what rank 0 hears
    line = next(k for k, text in enumerate(Path(__file__).read_text().splitlines(), 1) if ".item() == 0" in text)
    assert found.ranks[0].reads == {f"{__file__}:{line}": 1}
    assert not dist.is_initialized() and "RANK" not in os.environ
    assert torch.ones(2, device="hpu").sum().item() == 2  # the card computes again


def beside_gloo() -> None:
    begun()
    hosts = dist.new_group(backend="gloo")
    pair = dist.new_group([1, 3], backend="gloo")
    told: list[object] = ["a" * 5000 if dist.get_rank() == 3 else None]
    dist.broadcast_object_list(told, src=3, group=hosts)
    assert told == ["a" * 5000]
    everyone: list[object] = [None] * 4
    dist.all_gather_object(everyone, dist.get_rank(), group=hosts)
    assert everyone == [dist.get_rank()] * 4
    if dist.get_rank() in (1, 3):
        seen = torch.tensor([1.5])
        dist.all_reduce(seen, group=pair)
        assert seen.item() == 3 and dist.get_process_group_ranks(pair) == [1, 3]
        dist.monitored_barrier(pair)
    assert (dist.get_backend(hosts), dist.get_backend()) == ("gloo", "hccl")
    dist.all_reduce(torch.ones(8, device="hpu"))


def of_both() -> None:
    dist.init_process_group("cpu:gloo,hpu:hccl")
    dist.all_reduce(torch.ones(8, device="hpu"))
    dist.barrier()


@on_device(modes=LAZY)
def test_groups_of_gloo_beside_hccl() -> None:
    found = habana_tf.predict(beside_gloo, world=4, rank=(1, 3))
    assert {kind: [each.ranks for each in made] for kind, made in calls(found, 1).items()} == {
        "barrier": [(1, 3)],
        "all_reduce": [(0, 1, 2, 3)],
    }
    assert set(calls(habana_tf.predict(of_both, world=4))) == {"all_reduce", "barrier"}


kept: list[torch.Tensor] = []


def in_two_kinds(calls: bool) -> None:
    """Work of the MME, and then as much of the TPC."""
    begun()
    kept.clear()
    a = torch.empty(4096, 4096, device="hpu", dtype=torch.bfloat16)
    kept.append(a @ a + 1)
    if calls:
        dist.all_reduce(kept[0])
    for _ in range(20):
        kept[0] = kept[0].sin()


@on_device(modes=LAZY)
def test_a_collective_between_two_programs_takes_its_own_time_and_no_more() -> None:
    """MME and TPC work side by side within a program; so they do where a collective makes two of it."""
    one, two = (habana_tf.predict(partial(in_two_kinds, calls), world=2, chip="gaudi2") for calls in (False, True))
    assert len(one.spans) == 1 and len(two.spans) > 2
    assert abs(two.ranks[0].launches / one.ranks[0].launches - 1) < 0.02


@on_device(modes=LAZY)
def test_what_is_asked_wrong() -> None:
    for given in ({"world": 0}, {"world": 4, "rank": 4}, {"world": 4, "rank": ()}):
        with pytest.raises(ValueError, match="name ranks from 0"):
            habana_tf.predict(wrong, **given)
    with pytest.raises(ValueError, match="world says how many cards"):
        habana_tf.predict(wrong, torch.ones(2), world=4)
    with pytest.raises(ValueError, match="launches nothing"):
        habana_tf.predict(begun, world=4)
    with pytest.raises(ZeroDivisionError):
        habana_tf.predict(lambda: 1 / 0, world=4)
    assert not dist.is_initialized()


@needs_torch
def test_a_script_from_the_command_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\n"
        "from tests.torch.dry_run.test_ranks import data_parallel\n"
        "print('begun', *sys.argv[1:])\n"
        "data_parallel()\n"
    )
    page = tmp_path / "waits.html"
    words = (
        f"['predict', '--world', '16', '--ranks', '0,9', '--json', '--html', {str(page)!r}, {str(script)!r}, '--fast']"
    )
    done = python(f"import sys; from habana_tf.cli.main import main; sys.exit(main({words}))")
    found = json.loads(done.stdout)
    assert found["world"] == 16 and [each["rank"] for each in found["ranks"]] == [0, 9] and found["seconds"] > 0
    assert "begun --fast" in done.stderr
    assert "all_reduce of" in page.read_text() and "rank 9" in page.read_text()
    for text, code, said in (
        ("raise ValueError('mine')", 1, "Traceback"), ("raise SystemExit(7)", 1, "train.py ended with 7"),
        ("raise SystemExit(0)", 1, "launches nothing on the card"),
    ):  # fmt: skip
        script.write_text(text)
        done = python(f"import sys; from habana_tf.cli.main import main; sys.exit(main({words}))", check=False)
        assert done.returncode == code and said in done.stderr, done.stderr
    done = python(
        f"import sys; from habana_tf.cli.main import main; sys.exit(main({words.replace('0,9', '0,16')}))", check=False
    )
    assert done.returncode == 2 and "name ranks from 0 to 15" in done.stderr
