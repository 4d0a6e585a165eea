"""What stands on the collectives: sharded weights, optimizers and tensors, checkpoints; each beside one process."""

from __future__ import annotations

import pytest

from tests.torch.child import needs_torch
from tests.torch.ranks import run

SHARDED = """
import sys
import torch.distributed.checkpoint
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, StateDictType, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

start()
mesh = init_device_mesh("hpu", (size,))
ALL, MINE = slice(None), slice(rank, None, size)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 1024), nn.ReLU(), nn.Linear(1024, 4))


def train(model, device, part, optimizer):
    for k in range(3):
        g = torch.Generator().manual_seed(k)
        x, y = torch.randn(8, 8, generator=g), torch.randn(8, 4, generator=g)
        optimizer.zero_grad()
        F.mse_loss(model(x[part].to(device)), y[part].to(device)).backward()
        htcore.mark_step()
        optimizer.step()
        htcore.mark_step()
    return model


def same(found, wanted):
    for (name, a), b in zip(found.items(), wanted.state_dict().values(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=2e-6, msg=lambda m: f"{name}: {m}")


def adam(model):
    return torch.optim.Adam(model.parameters(), 0.01)


alone = network()
train(alone, "cpu", ALL, adam(alone))

sharded = network().to(hpu)
for layer in (sharded[0], sharded[2], sharded):
    fully_shard(layer, mesh=mesh)
train(sharded, hpu, MINE, adam(sharded))
same({name: t.full_tensor() for name, t in sharded.state_dict().items()}, alone)

shared = DistributedDataParallel(network().to(hpu))
train(shared, hpu, MINE, ZeroRedundancyOptimizer(shared.parameters(), torch.optim.Adam, lr=0.01))
same(shared.module.state_dict(), alone)

torch.distributed.checkpoint.save(shared.module.state_dict(), checkpoint_id="checkpoint")
loaded = nn.Sequential(nn.Linear(8, 1024), nn.ReLU(), nn.Linear(1024, 4)).to(hpu).state_dict()
torch.distributed.checkpoint.load(loaded, checkpoint_id="checkpoint")
same(loaded, alone)

t = torch.arange(12.0).view(4, 3)
rows = distribute_tensor(t.to(hpu), mesh, [Shard(0)])
torch.testing.assert_close((rows @ rows.T.redistribute(placements=[Replicate()])).full_tensor().cpu(), t @ t.T)

flat = torch.ones(1 << 20, device=hpu)
htcore.mark_step()
storage = flat.untyped_storage()
before = torch.hpu.memory_allocated()
storage.resize_(0)
assert (before - torch.hpu.memory_allocated(), storage.nbytes()) == (4 << 20, 0)
storage.resize_(4 << 20)
assert storage.nbytes() == 4 << 20 and (flat.fill_(2.0) == 2).all()

for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
    older = FullyShardedDataParallel(
        network(), sharding_strategy=strategy, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}), device_id=hpu,
        use_orig_params=strategy is ShardingStrategy.FULL_SHARD,
    )
    train(older, hpu, MINE, adam(older))
    with FullyShardedDataParallel.state_dict_type(older, StateDictType.FULL_STATE_DICT):
        same(older.state_dict(), alone)
report(rank, strategy.name)
dist.destroy_process_group()
"""


@needs_torch
@pytest.mark.rest
@pytest.mark.parametrize("lazy", ["1", "0"])
def test_sharded(lazy: str) -> None:
    assert run(SHARDED, PT_HPU_LAZY_MODE=lazy) == ["NO_SHARD", "NO_SHARD"]
