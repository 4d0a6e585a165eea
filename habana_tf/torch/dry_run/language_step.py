"""A training step of a causal language model of `transformers`, laid on the cards of a job by PyTorch's own means:
layers shared by `parallelize_module`, weights and their state by `fully_shard`, stages by
`torch.distributed.pipelining`.

It is a program for `dry_run.ranks`: run as a rank of a job that does not exist.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional as F

from habana_tf.card.prediction.layouts import Layout
from habana_tf.torch.dry_run.float8_layers import Float8Layers
from habana_tf.torch.dry_run.generation import FUSED, shortened, use_habanas_attention
from habana_tf.torch.dry_run.shared_layers import read_by_parts


def program(
    config: Any, layout: Layout, length: int, layers: int, steps: Sequence[int],
    made: Callable[[Any, torch.dtype], Any] | None = None,
) -> Callable[[], None]:  # fmt: skip
    """What a rank does. length: tokens of a sequence; layers: of each stage; steps: the micro-batches of each. The
    first makes the optimizer's state. made: gives the model of a configuration, with the type of its weights, of which
    some may not be trained; by default a causal one with Habana's attention."""

    def run() -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import loss_parallel

        import habana_tf.torch.distributed.group  # noqa: F401

        use_habanas_attention()
        dist.init_process_group("hccl")
        shape = (layout.pp, layout.dp, layout.tp)
        mesh = init_device_mesh("hpu", shape, mesh_dim_names=("pp", "dp", "tp"))
        stage = _Stage(shortened(config, layers), layout, mesh, made or _causal)
        weights = [p for p in stage.module.parameters() if p.requires_grad]
        parts = [torch.nn.Parameter(_part(p.detach(), p)) for p in weights]
        optimizer = torch.optim.AdamW(parts)
        for micro_batches in steps:
            with loss_parallel() if layout.tp > 1 else nullcontext():  # each card has its part of the words
                stage.step(length, micro_batches)
            for p, part in zip(weights, parts, strict=True):
                part.grad, p.grad = None if p.grad is None else _part(p.grad, p), None
            _sum([part.grad for part, alone in zip(parts, stage.alone, strict=True) if alone], mesh["tp"].get_group())
            optimizer.step()
            optimizer.zero_grad()

    return run


def _causal(config: Any, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=FUSED)


def _keeping_products() -> Any:
    """Products of matrices, and sums over cards, are not made again in the backward pass."""
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    sums = torch.ops._c10d_functional
    kept = [
        torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.hpu.fp8_gemm_v2.default,
        sums.all_reduce.default, sums.wait_tensor.default,
    ]  # fmt: skip
    return create_selective_checkpoint_contexts(kept)


def _part(t: Any, weight: Any) -> Any:
    """This card's part of a weight, or of its gradient: an update of parts makes the same launches as one of DTensors,
    which takes PyTorch twice as long to find out."""
    return t.redistribute(placements=weight.placements).to_local() if hasattr(t, "to_local") else t


def _sum(gradients: list[Any], group: Any) -> None:
    """Sums them over cards, all at once."""
    if not gradients:
        return
    summed = torch.cat([each.flatten() for each in gradients])
    dist.all_reduce(summed, group=group)
    for each, part in zip(gradients, summed.split([each.numel() for each in gradients]), strict=True):
        each.copy_(part.view_as(each))


class _Stage:
    """This rank's part of the model. alone: of each weight, whether it is whole and reads a part of the sequence, so
    that its gradients are to be summed over the cards that share the sequence."""

    def __init__(self, config: Any, layout: Layout, mesh: Any, made: Callable[[Any, torch.dtype], Any]) -> None:
        self.layout, self.mesh, self.number = layout, mesh, mesh["pp"].get_local_rank()
        self.first, self.last = self.number == 0, self.number == layout.pp - 1
        dtype = torch.float32 if layout.precision == "mixed" else torch.bfloat16
        with torch.device("meta"):
            model = made(config, dtype).train()
        self.size, self.words = model.config.hidden_size, model.config.vocab_size
        if layout.recompute != "none":
            kept = {"context_fn": _keeping_products} if layout.recompute == "some" else {}
            model.gradient_checkpointing_enable({"use_reentrant": False, **kept})
        if not self.last:
            model.lm_head = model.base_model.norm = torch.nn.Identity()
        if not self.first:
            model.base_model.embed_tokens = torch.nn.Identity()
        self._in_8_bits = None
        if layout.precision == "fp8":
            stage, plan = mesh["dp", "tp"]._flatten().get_group(), model.config.base_model_tp_plan or {}
            self._in_8_bits = Float8Layers(model.base_model, plan, mesh["tp"], stage, layout.sequence, layout.zero < 3)
        _share(model, mesh["tp"], self._in_8_bits is not None, layout.sequence)
        self.alone = [layout.sequence and not _is_part(p) for p in model.parameters() if p.requires_grad]
        self.module: Any = _Called(model, self.first, layout.tp if layout.sequence else 1)
        alone = self.first and self.last
        if alone:
            model.tie_weights()  # sharing parts them, and so does taking memory
        if layout.zero and layout.dp > 1:
            (layers,) = [m for m in model.base_model.children() if isinstance(m, torch.nn.ModuleList)]
            _spread(self.module, layers, mesh["dp"], layout)
        self.module.to_empty(device="hpu")
        if alone:
            model.tie_weights()
        if layout.dp > 1 and not layout.zero:
            self.module = torch.nn.parallel.DistributedDataParallel(self.module, process_group=mesh["dp"].get_group())

    def loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """logits: of this card's part of the words where cards share the layers; of a classifier, whose labels are
        such words, of a sequence."""
        from torch.distributed.tensor import DTensor, Shard

        flat = logits.flatten(0, -2).float()
        if self.layout.tp > 1:
            whole = (len(flat), self.words)
            flat = DTensor.from_local(flat, self.mesh["tp"], [Shard(-1)], shape=whole, stride=(self.words, 1))
        return F.cross_entropy(flat, labels.flatten()[: len(flat)])

    def step(self, length: int, micro_batches: int) -> None:
        """The gradients of so many micro-batches."""
        with self._in_8_bits.step(micro_batches) if self._in_8_bits else nullcontext():
            self._gradients(length, micro_batches)

    def _gradients(self, length: int, micro_batches: int) -> None:
        ids = torch.empty(self.layout.micro_batch * micro_batches, length, dtype=torch.int64, device="hpu")
        if self.layout.pp > 1:
            self._through_stages(ids, micro_batches)
            return
        for number, part in enumerate(ids.chunk(micro_batches)):
            self._sums(number == micro_batches - 1)
            with self._products():
                loss = self.loss(self.module(part), part) / micro_batches
            loss.backward()

    def _products(self) -> AbstractContextManager[Any]:
        mixed = self.layout.precision == "mixed"  # what is computed again finds no weight that was cast before
        return torch.autocast("hpu", torch.bfloat16, cache_enabled=False) if mixed else nullcontext()

    def _sums(self, now: bool) -> None:
        """Whether the next backward pass sums its gradients over the copies of the model. If not, weights that are not
        spread beyond a step stay for the next."""
        if self.layout.dp > 1 and not self.layout.zero:
            self.module.require_backward_grad_sync = now
        elif self.layout.dp > 1:
            self.module.set_requires_gradient_sync(now or self.layout.zero != 1)
            self.module.set_reshard_after_backward(now or self.layout.zero == 3)

    def _through_stages(self, ids: torch.Tensor, micro_batches: int) -> None:
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        kind = torch.float32 if self.layout.precision == "mixed" else torch.bfloat16
        batch, length = self.layout.micro_batch, ids.shape[1]
        words = len(torch.empty(self.words, device="meta").chunk(self.layout.tp)[self.mesh["tp"].get_local_rank()])
        hidden = (batch, length // self.module.parts, self.size)
        passed = torch.empty(*hidden, dtype=kind, device="meta", requires_grad=True)
        given = ids[:batch].to("meta") if self.first else passed
        out = torch.empty(batch, length, words, dtype=kind, device="meta", requires_grad=True) if self.last else passed
        stage = PipelineStage(
            self.module, self.number, self.layout.pp, torch.device("hpu"), given, out,
            group=self.mesh["pp"].get_group(),
        )  # fmt: skip
        schedule = Schedule1F1B(stage, micro_batches, loss_fn=self.loss)
        with self._products():
            labels = {"target": ids} if self.last else {}
            schedule.step(*([ids] if self.first else []), **labels, return_outputs=False)


class _Called(torch.nn.Module):
    """A stage as pipelining calls it: tokens or hidden values in, hidden values or logits out. parts: of the sequence,
    of which this card has one where its layers are not shared."""

    def __init__(self, model: Any, first: bool, parts: int) -> None:
        super().__init__()
        self.model, self._first, self.parts = model, first, parts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = {"input_ids": x} if self._first else {"inputs_embeds": x}
        if self.parts > 1:
            length = x.shape[1] * (1 if self._first else self.parts)
            given["position_ids"] = torch.arange(length, device=x.device).unsqueeze(0)
        made: torch.Tensor = self.model(**given, use_cache=False).logits
        return made


def _share(model: Any, mesh: Any, in_8_bits: bool, sequence: bool) -> None:
    """Has this rank keep its part of the layers, by the configuration's own plan of tensor parallelism, and of the
    words. in_8_bits: whether it has that of the layers already; sequence: whether it has a part of hidden values."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if mesh.size() == 1:
        return
    hidden = Shard(1) if sequence else Replicate()
    styles = {"colwise": ColwiseParallel(), "rowwise": RowwiseParallel(output_layouts=hidden)}
    plan = {} if in_8_bits else model.config.base_model_tp_plan
    parallelize_module(model.base_model, mesh, {path: styles[style] for path, style in plan.items()})
    for owner in sorted({path.rpartition(".")[0] for path, style in plan.items() if style == "colwise"}):
        for module in _matching(model.base_model, owner):
            read_by_parts(module, functools.partial(_replicated, mesh, hidden))
    if not isinstance(model.base_model.embed_tokens, torch.nn.Identity):
        words = RowwiseParallel(input_layouts=Replicate(), output_layouts=hidden)
        parallelize_module(model.base_model, mesh, {"embed_tokens": words})
    if not isinstance(model.lm_head, torch.nn.Identity):
        parallelize_module(model, mesh, {"lm_head": ColwiseParallel(input_layouts=hidden)})


def _matching(model: Any, path: str) -> list[Any]:
    """Modules by a path with * for each of a list."""
    return [module for name, module in model.named_modules() if fnmatch.fnmatchcase(name, path)]


def _replicated(mesh: Any, placement: Any, x: torch.Tensor) -> Any:
    """A tensor that all cards have, or a part of one by its placement, as one that all have."""
    from torch.distributed.tensor import DTensor, Replicate

    found = DTensor.from_local(x, mesh, [placement], run_check=False)
    return found if placement.is_replicate() else found.redistribute(placements=[Replicate()])


def _is_part(weight: Any) -> bool:
    """Whether a card has a part of a weight, or DTensor sums its gradients."""
    return hasattr(weight, "placements") or getattr(weight, "tensor_model_parallel", False)


def _spread(module: Any, layers: Any, mesh: Any, layout: Layout) -> None:
    """Spreads weights, gradients and the optimizer's state over the copies of the model."""
    from torch.distributed.fsdp import fully_shard

    for each in (*layers, module):
        fully_shard(each, mesh=mesh, reshard_after_forward=layout.zero == 3)


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
