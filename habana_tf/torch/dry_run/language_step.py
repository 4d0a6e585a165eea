"""A training step of a causal language model of `transformers`, laid on the cards of a job by PyTorch's own means:
layers shared by `parallelize_module`, weights and their state by `fully_shard`, stages by
`torch.distributed.pipelining`.

It is a program for `dry_run.ranks.predict_ranks`: run as a rank of a job that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional as F

from habana_tf.card.prediction.layouts import Layout
from habana_tf.torch.dry_run.generation import FUSED, shortened, use_habanas_attention

STEPS = 2
"""Of the optimizer: the first makes its state."""


def program(config: Any, layout: Layout, length: int, layers: int, micro_batches: int) -> Callable[[], None]:
    """What a rank does. length: tokens of a sequence; layers: of each stage; micro_batches: of a step."""

    def run() -> None:
        from torch.distributed.device_mesh import init_device_mesh

        import habana_tf.torch.distributed.group  # noqa: F401

        use_habanas_attention()
        dist.init_process_group("hccl")
        shape = (layout.pp, layout.dp, layout.tp)
        mesh = init_device_mesh("hpu", shape, mesh_dim_names=("pp", "dp", "tp"))
        stage = _Stage(config, layout, layers, mesh)
        optimizer = torch.optim.AdamW(_groups(stage.module))
        for _ in range(STEPS):
            stage.step(length, micro_batches)
            optimizer.step()
            optimizer.zero_grad()

    return run


def _groups(module: torch.nn.Module) -> list[dict[str, Any]]:
    """Weights that are shared and those that are not: fused updates take one kind at a time."""
    from torch.distributed.tensor import DTensor

    weights = list(module.parameters())
    kinds: dict[Any, list[Any]] = {}
    for p in weights:
        kinds.setdefault(p.device_mesh if isinstance(p, DTensor) else None, []).append(p)
    return [{"params": found} for found in kinds.values()]


class _Stage:
    """This rank's part of the model."""

    def __init__(self, config: Any, layout: Layout, layers: int, mesh: Any) -> None:
        from transformers import AutoModelForCausalLM

        self.layout, self.mesh, self.number = layout, mesh, mesh["pp"].get_local_rank()
        self.first, self.last = self.number == 0, self.number == layout.pp - 1
        dtype = torch.bfloat16 if layout.precision == "bf16" else torch.float32
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(
                shortened(config, layers), dtype=dtype, attn_implementation=FUSED
            ).train()
        self.size, self.words = model.config.hidden_size, model.config.vocab_size
        if layout.recompute:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        if not self.last:
            model.lm_head = model.base_model.norm = torch.nn.Identity()
        if not self.first:
            model.base_model.embed_tokens = torch.nn.Identity()
        _share(model, mesh["tp"])
        _spread(model, mesh["dp"], layout)
        self.module = model.to_empty(device="hpu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens or hidden values in, hidden values or logits out."""
        given = {"input_ids": x} if self.first else {"inputs_embeds": x}
        made: torch.Tensor = self.module(**given, use_cache=False).logits
        return made

    def loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    def step(self, length: int, micro_batches: int) -> None:
        """The gradients of so many micro-batches."""
        ids = torch.empty(self.layout.micro_batch * micro_batches, length, dtype=torch.int64, device="hpu")
        if self.layout.pp > 1:
            self._through_stages(ids, micro_batches)
            return
        for number, part in enumerate(ids.chunk(micro_batches)):
            self._sums(self.layout.zero != 1 or number == micro_batches - 1)
            with self._products():
                loss = self.loss(self.forward(part), part) / micro_batches
            loss.backward()

    def _products(self) -> AbstractContextManager[Any]:
        mixed = self.layout.precision == "mixed"
        return torch.autocast("hpu", torch.bfloat16) if mixed else nullcontext()

    def _sums(self, now: bool) -> None:
        """Whether the next backward pass sums its gradients over the copies of the model."""
        if self.layout.dp > 1:
            self.module.set_requires_gradient_sync(now)

    def _through_stages(self, ids: torch.Tensor, micro_batches: int) -> None:
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        kind = torch.float32 if self.layout.precision == "mixed" else torch.bfloat16
        shape = (self.layout.micro_batch, ids.shape[1])
        hidden, logits = ((*shape, n) for n in (self.size, self.words))
        passed = torch.empty(*hidden, dtype=kind, device="meta", requires_grad=True)
        given = ids[: shape[0]].to("meta") if self.first else passed
        out = torch.empty(*logits, dtype=kind, device="meta", requires_grad=True) if self.last else passed
        stage = PipelineStage(
            _Called(self), self.number, self.layout.pp, torch.device("hpu"), given, out,
            group=self.mesh["pp"].get_group(),
        )  # fmt: skip
        schedule = Schedule1F1B(stage, micro_batches, loss_fn=self.loss)
        with self._products():
            schedule.step(*([ids] if self.first else []), **({"target": ids} if self.last else {}))


class _Called(torch.nn.Module):
    """A stage as the module that pipelining calls."""

    def __init__(self, stage: _Stage) -> None:
        super().__init__()
        self.module, self._forward = stage.module, stage.forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._forward(x)


def _share(model: Any, mesh: Any) -> None:
    """Has this rank keep its part of the layers, by the configuration's own plan of tensor parallelism."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if mesh.size() == 1:
        return
    styles = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}
    plan = model.config.base_model_tp_plan
    parallelize_module(model.base_model, mesh, {path: styles[style]() for path, style in plan.items()})
    if not isinstance(model.lm_head, torch.nn.Identity):
        parallelize_module(model, mesh, {"lm_head": ColwiseParallel(output_layouts=Replicate())})


def _spread(model: Any, mesh: Any, layout: Layout) -> None:
    """Spreads weights, gradients and the optimizer's state over the copies of the model."""
    from torch.distributed.fsdp import fully_shard

    if layout.dp == 1:
        return
    for layer in model.base_model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=layout.zero == 3)
    fully_shard(model, mesh=mesh, reshard_after_forward=layout.zero == 3)


def shares(config: Any) -> list[int]:
    """How many cards may share the layers of a model."""
    plan, text = getattr(config, "base_model_tp_plan", None), config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    if not plan or set(plan.values()) - {"colwise", "rowwise"}:
        return [1]
    return [tp for tp in range(1, heads + 1) if heads % tp == 0 and text.num_attention_heads % tp == 0]


def weights(config: Any) -> tuple[int, int]:
    """Numbers of weights: of a layer, and outside the layers."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        one, two = (AutoModelForCausalLM.from_config(shortened(config, n)) for n in (1, 2))
    counts = [sum(p.numel() for p in model.parameters()) for model in (one, two)]
    layer = counts[1] - counts[0]
    return layer, counts[0] - layer
