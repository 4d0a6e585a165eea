"""A LLaMA whose weights lie on two cards, by `fully_shard` and by DTensor's plans, beside one process."""

from __future__ import annotations

import pytest

from tests.torch.child import needs_torch
from tests.torch.ranks import run

TWO_WAYS = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module,
)
from transformers import LlamaConfig, LlamaForCausalLM

start()
VOCABULARY, LENGTH = 96, 16


def network():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=LENGTH, initializer_range=0.2, tie_word_embeddings=False,
    ))


def train(model, part, clip=True):
    optimizer, losses = torch.optim.AdamW(model.parameters(), 0.01, weight_decay=0.1, foreach=clip), []
    device = "cpu" if part is None else hpu
    for step in range(3):
        tokens = torch.randint(VOCABULARY, (4, LENGTH), generator=torch.Generator().manual_seed(step))
        tokens = (tokens if part is None else tokens[part]).to(device)
        optimizer.zero_grad()
        logits = model(tokens, use_cache=False).logits
        with loss_parallel() if isinstance(logits, DTensor) else torch.enable_grad():
            loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) if clip else torch.zeros(())
        htcore.mark_step()
        optimizer.step()
        htcore.mark_step()
        loss = loss.full_tensor() if isinstance(loss, DTensor) else loss.detach()
        losses.append((loss.cpu(), (norm.full_tensor() if isinstance(norm, DTensor) else norm).cpu()))
    return losses


def same(found, wanted, model, alone):
    for (a, norm), (b, wanted_norm) in zip(found, wanted, strict=True):
        torch.testing.assert_close(norm, wanted_norm, rtol=1e-4, atol=0)
        torch.testing.assert_close(a, b, rtol=1e-4, atol=0)
    for (name, a), b in zip(model.state_dict().items(), alone.state_dict().values(), strict=True):
        a = a.full_tensor() if isinstance(a, DTensor) else a
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4, msg=lambda m: f"{name}: {m}")


alone = network()
clip = os.environ.get("SEQUENCE_PARALLEL") != "0"  # PyTorch mixes no DTensors and tensors in one op
wanted = train(alone, None, clip)
"""

SHARDED = """
mesh = init_device_mesh("hpu", (size,))
model = network().to(hpu)
for layer in (*model.model.layers, model):
    fully_shard(layer, mesh=mesh)
held = sum(p.to_local().numel() for p in model.parameters())
losses = train(model, slice(rank, None, size), clip)
mean = torch.tensor([float(loss) for loss, _ in losses]).to(hpu)
dist.all_reduce(mean)
same(list(zip((mean / size).cpu(), [norm for _, norm in losses])), wanted, model, alone)
drawn = torch.distributed.tensor.randn(2 * size, 64, device_mesh=mesh, placements=[Shard(0)])
everywhere = drawn.full_tensor().cpu()
assert everywhere.unique().numel() == everywhere.numel() and abs(float(everywhere.std()) - 1) < 0.2, "ranks draw alike"
report(rank, (held, sum(p.numel() for p in alone.parameters())))
dist.destroy_process_group()
"""

TENSOR_PARALLEL = """
mesh = init_device_mesh("hpu", (size,), mesh_dim_names=("tp",))
model = network().to(hpu)
sequence = os.environ["SEQUENCE_PARALLEL"] == "1"
rows = RowwiseParallel(output_layouts=Shard(1)) if sequence else RowwiseParallel()
columns, whole, part = ColwiseParallel(), (Replicate(),), (Shard(1),)
plan = {
    "self_attn.q_proj": columns, "self_attn.k_proj": columns, "self_attn.v_proj": columns, "self_attn.o_proj": rows,
    "mlp.gate_proj": columns, "mlp.up_proj": columns, "mlp.down_proj": rows,
}
if sequence:
    plan |= {
        "input_layernorm": SequenceParallel(), "post_attention_layernorm": SequenceParallel(),
        "self_attn": PrepareModuleInput(
            input_kwarg_layouts={"hidden_states": Shard(1)}, desired_input_kwarg_layouts={"hidden_states": Replicate()}
        ),
        "mlp": PrepareModuleInput(input_layouts=part, desired_input_layouts=whole),
    }
for layer in model.model.layers:
    parallelize_module(layer, mesh, plan)
parallelize_module(model, mesh, {
    "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
    **({
        "model.layers.0": PrepareModuleInput(input_layouts=whole, desired_input_layouts=part, use_local_output=True),
        "model.norm": SequenceParallel(),
    } if sequence else {}),
    "lm_head": ColwiseParallel(
        input_layouts=Shard(1) if sequence else Replicate(), output_layouts=Shard(-1), use_local_output=False),
})
held = sum(p.to_local().numel() if isinstance(p, DTensor) else p.numel() for p in model.parameters())
same(train(model, slice(None), clip), wanted, model, alone)
report(rank, (held, sum(p.numel() for p in alone.parameters())))
dist.destroy_process_group()
"""


@needs_torch
@pytest.mark.rest
@pytest.mark.parametrize("lazy", ["1", "0"])
def test_sharded_weights_train_as_one_process_does(lazy: str) -> None:
    for held, all_of_them in run(TWO_WAYS + SHARDED, PT_HPU_LAZY_MODE=lazy):
        assert held == all_of_them / 2


@needs_torch
@pytest.mark.rest
@pytest.mark.parametrize(("lazy", "sequence"), [("1", "0"), ("1", "1"), ("0", "0")])
def test_tensor_parallel_trains_as_one_process_does(lazy: str, sequence: str) -> None:
    norms = 5 * 32
    for held, all_of_them in run(TWO_WAYS + TENSOR_PARALLEL, PT_HPU_LAZY_MODE=lazy, SEQUENCE_PARALLEL=sequence):
        assert held == (all_of_them - norms) / 2 + norms
