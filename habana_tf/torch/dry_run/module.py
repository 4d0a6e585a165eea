"""What a step of a `torch.nn.Module` would launch, found out without running it and without memory for its weights.

The module is copied, with tensors of the device that have no memory in the place of its parameters and buffers; the
copy is called, and with a loss its gradients and an optimizer's update are computed, all recorded and never run
(`torch.dry_run.recorder`). So the prediction is of the very programs that the step would have on the card in lazy mode,
without marks between forward pass, backward pass and update.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from habana_tf.card.model.lowered import Lowered
from habana_tf.card.prediction.foreseen import Foreseen, PredictionError
from habana_tf.card.prediction.prediction import HostOp, Transfer
from habana_tf.cluster.cluster import Role
from habana_tf.torch import loader
from habana_tf.torch.dry_run.known_values import is_told
from habana_tf.torch.dry_run.recorder import Unrun, Unrunner, ValueNeeded, lowered_cluster, recorded
from habana_tf.torch.record.nested import tensors
from habana_tf.torch.record.program import TorchCluster, cluster_of

WEIGHT, STATE = "weight", "state"
LEARNING_RATE, MOMENTUM = 0.1, 0.9
_WHY = "products and what Habana's lists of autocast name, as under torch.autocast('hpu', torch.bfloat16)"


@dataclass(frozen=True)
class Asked:
    """A step of a module. inputs: what it is called with, the last one of several the targets of `loss`; loss: a
    function of the outputs and the targets, or of the outputs alone; optimizer: see `predict`."""

    module: torch.nn.Module
    inputs: tuple[Any, ...]
    loss: Any = None
    optimizer: Any = None

    @property
    def trains(self) -> bool:
        return self.loss is not None or self.optimizer is not None


def foreseen(asked: Asked, precision: str) -> tuple[int, Foreseen]:
    """What the step would launch, and its batch. Raises PredictionError for a step that needs a value while it runs."""
    if precision not in ("bf16", "fp32"):
        raise ValueError(f"precision={precision!r}: it is 'bf16' or 'fp32'")
    found = Foreseen()
    try:
        loader.load()
        with recorded() as unrunner:
            batch = _Step(asked, unrunner, found).record(precision)
            made, host = list(unrunner.programs_made), list(unrunner.host)
    except ValueNeeded as why:
        raise PredictionError(str(why)) from why
    found.launches += [_launch(each, found) for each in made]
    for each in host:
        if each.op:
            found.host.append(HostOp(each.op, each.name, each.to_host + each.to_card))
        found.transfers += [
            Transfer(each.name, to, n) for to, n in (("host", each.to_host), ("card", each.to_card)) if n
        ]
    return batch, found


def precision_why(precision: str) -> str:
    """Why a prediction is in a precision."""
    return "asked for" if precision == "fp32" else _WHY


def _launch(each: Unrun, found: Foreseen) -> Lowered:
    cluster = cluster_of(each.recording)
    read = {ref for node in cluster.nodes for ref in node.inputs}
    for k, role in enumerate(each.roles):
        kind, _, name = role.partition(":")
        variable = kind in (WEIGHT, STATE)
        unread = not role and (-1, k) not in read  # it was written over whole: the card need not have it
        cluster.inputs[k] = replace(
            cluster.inputs[k], name=name or f"input_{k}", variable=variable, host=unread
        )  # fmt: skip
    _tell_roles(cluster, each)
    made = lowered_cluster(cluster)
    for k, role in enumerate(each.roles):
        if role and not cluster.inputs[k].variable:
            shape, _ = each.recording.inputs[k]
            found.fed[role] = math.prod(shape) * cluster.inputs[k].dtype.bytes
    return made


def _tell_roles(cluster: TorchCluster, each: Unrun) -> None:
    """Says of a cluster's tensors which are weights, state and gradients."""
    roles: list[tuple[tuple[int, int], Role]] = [(ref, "gradient") for ref in each.gradients]
    for k, role in enumerate(each.roles):
        kind = role.partition(":")[0]
        if kind == WEIGHT:
            roles.append(((-1, k), "weight"))
        elif kind == STATE:
            roles.append(((-1, k), "state"))
    if cluster.nodes:
        cluster.nodes[0].told = tuple(roles)  # type: ignore[attr-defined]


class _Step:
    """One step of a copy of the module."""

    def __init__(self, asked: Asked, unrunner: Unrunner, found: Foreseen) -> None:
        self.asked, self.unrunner, self.found = asked, unrunner, found
        self.module = self._copied(_inner(asked.module))

    def record(self, precision: str) -> int:
        """Records it; returns the batch."""
        args, kwargs, targets = self._arguments()
        chosen, updates = self.asked.optimizer, None
        if chosen is not None:
            updates = _optimizer(chosen, _inner(self.asked.module), self.module)
            self._make_state(updates)
        self.unrunner.forget()
        with torch.set_grad_enabled(self.asked.trains):
            with torch.autocast("hpu", torch.bfloat16) if precision == "bf16" else nullcontext():
                outputs = self.module(*args, **kwargs)
                loss = self._loss(outputs, targets) if self.asked.trains else None
            if loss is not None:
                outputs = None  # else the program would write them
                loss.backward()
                weights = [p for p in self.module.parameters() if p.grad is not None]
                self.unrunner.note_gradients([p.grad for p in weights if p.grad is not None])
                if updates is not None:
                    updates.step()
                    updates.zero_grad(set_to_none=True)
        self.unrunner.flush()
        first = next((t for t in tensors([args, kwargs]) if t.dim()), None)
        return 1 if first is None else int(first.shape[0])

    def _copied(self, module: torch.nn.Module) -> torch.nn.Module:
        memo: dict[int, Any] = {}
        for name, t in [*module.named_parameters(), *module.named_buffers()]:
            if id(t) not in memo:
                memo[id(t)] = self._empty(t, f"{WEIGHT}:{name}")
                self._tell(memo[id(t)], t)
        made = copy.deepcopy(module, memo)
        return made.train() if self.asked.trains else made

    def _empty(self, t: Any, role: str) -> Any:
        """A tensor of the device like another, without memory."""
        shape, dtype = tuple(t.shape), t.dtype
        dense = torch.empty_like(t, device="meta").stride()
        made: Any = torch.empty_strided(shape, dense, dtype=dtype, device="hpu")
        self.unrunner.call(made, role)
        if isinstance(t, torch.nn.Parameter):
            made = torch.nn.Parameter(made, requires_grad=t.requires_grad)
        return made

    def _arguments(self) -> tuple[list[Any], dict[str, Any], list[Any]]:
        """Arguments of the module by position and by name, and of the loss."""
        given = list(self.asked.inputs)
        targets = []
        if self.asked.loss is not None and len(given) > 1 and _takes(self.asked.loss) > 1:
            targets = [given.pop()]
        names = _names(self.module, len(given))
        made = [self._input(x, name) for x, name in zip(given, names, strict=True)]
        targets = [self._input(x, "target") for x in targets]
        if len(made) == 1 and isinstance(made[0], dict) and not _wants_dict(self.module):
            return [], made[0], targets
        return made, {}, targets

    def _input(self, x: Any, name: str) -> Any:
        if isinstance(x, dict):
            return type(x)({k: self._input(v, f"{name}/{k}") for k, v in x.items()})
        if isinstance(x, (list, tuple)) and not (x and all(isinstance(n, int) for n in x)):
            return type(x)(self._input(v, f"{name}/{k}") for k, v in enumerate(x))
        like = _like(x)
        if like is None:
            return x
        self.found.arguments.append(name)
        made = self._empty(like, name)
        self._tell(made, x)
        return made

    def _tell(self, made: torch.Tensor, contents: Any) -> None:
        """Whole numbers of the host are known, so that the step may branch on what follows from them."""
        given = torch.as_tensor(contents) if isinstance(contents, np.ndarray) else contents
        if isinstance(given, torch.Tensor) and given.device.type == "cpu" and is_told(given):
            self.unrunner.tell(made, given)

    def _make_state(self, updates: torch.optim.Optimizer) -> None:
        """The optimizer's state now, as it is from the second step on."""
        for p in self.module.parameters():
            if p.requires_grad:
                p.grad = torch.empty_like(p)
        updates.step()
        updates.zero_grad(set_to_none=True)
        for state in updates.state.values():
            for name, t in state.items():
                if isinstance(t, torch.Tensor) and t.device.type == "hpu":
                    self.unrunner.call(t, f"{STATE}:{name}")

    def _loss(self, outputs: Any, targets: list[Any]) -> Any:
        if self.asked.loss is not None:
            return self.asked.loss(outputs, *targets)
        own = getattr(outputs, "loss", None)
        if own is None and isinstance(outputs, dict):
            own = outputs.get("loss")
        if own is not None:
            return own
        total: Any = None
        for y in tensors(outputs):
            if not y.is_floating_point():
                continue
            if y.dim() > 1 and y.shape[-1] > 1:
                labels = torch.zeros(y.shape[:-1].numel(), dtype=torch.int64, device="hpu")
                each = F.cross_entropy(y.reshape(-1, y.shape[-1]).float(), labels)
            else:
                each = y.float().square().mean()
            total = each if total is None else total + each
        if total is None:
            raise PredictionError("the module gives no tensor that a loss could be of: give loss=")
        return total


def _inner(module: Any) -> Any:
    """The module that a wrapper of torch.compile or of data parallel training is about."""
    while True:
        if hasattr(module, "_orig_mod"):
            module = module._orig_mod
        elif isinstance(module, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            module = module.module
        else:
            return module


def _like(x: Any) -> Any:
    """A tensor without values for a tensor, an array or a shape of fp32; None for a constant."""
    if isinstance(x, torch.Tensor):
        return x.detach()
    if isinstance(x, (torch.Size, list, tuple)):
        return torch.empty(tuple(x), device="meta")
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return torch.empty(tuple(x.shape), dtype=torch.from_numpy(np.empty(0, x.dtype)).dtype, device="meta")
    return None


def _parameters(call: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        found = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):
        return []
    return [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _takes(loss: Any) -> int:
    """How many arguments a loss takes."""
    return len(_parameters(loss.forward if hasattr(loss, "forward") else loss))


def _names(module: Any, count: int) -> list[str]:
    names = [p.name for p in _parameters(module.forward)][:count]
    return names + [f"argument_{k}" for k in range(len(names), count)]


def _wants_dict(module: Any) -> bool:
    """Whether a module's forward takes one argument, which may be a dict."""
    return len(_parameters(module.forward)) == 1


def _optimizer(chosen: Any, original: Any, module: Any) -> Any:
    """A new optimizer like the chosen one for a copy of a module."""
    weights = [p for p in module.parameters() if p.requires_grad]
    if isinstance(chosen, torch.optim.Optimizer):
        mine = {id(p): q for p, q in zip(original.parameters(), module.parameters(), strict=True)}
        groups = [
            {**group, "params": [mine[id(p)] for p in group["params"] if id(p) in mine]}
            for group in chosen.param_groups
        ]
        takes = {p.name for p in _parameters(type(chosen).__init__)} | set(inspect.signature(type(chosen)).parameters)
        return type(chosen)(groups, **{k: v for k, v in chosen.defaults.items() if k in takes})
    if isinstance(chosen, str):
        if chosen == "momentum":
            return torch.optim.SGD(weights, lr=LEARNING_RATE, momentum=MOMENTUM)
        kinds = {name.lower(): kind for name, kind in vars(torch.optim).items() if isinstance(kind, type)}
        if chosen.lower() not in kinds:
            raise ValueError(
                f"optimizer={chosen!r}: give an optimizer, or the name of one in torch.optim, or 'momentum'"
            )
        chosen = kinds[chosen.lower()]
    if chosen is torch.optim.SGD:
        return chosen(weights, lr=LEARNING_RATE)
    return chosen(weights)
