"""One rank of a job that does not exist: its program runs as if all other ranks were there, and nothing is computed.

Within `pretended` the program's `torch.distributed` gets groups that answer at once and note what they were asked: the
kind of a collective, its bytes, its group, the line of the program. So whatever a program uses
(DistributedDataParallel, `fully_shard`, DTensor, `torch.distributed.pipelining`) is met as it is. Tensors of the card
have no memory (`dry_run.recorder`); a value that the host reads is 0, and counted. Numbers of the host that ranks send
or broadcast, as objects are, reach those who are run, too (`Board`); what is gathered of them is this rank's own.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from habana_tf.settings.environment import kept
from habana_tf.torch.dry_run import meshes
from habana_tf.torch.dry_run.pretended_group import PretendedGloo, PretendedGroup
from habana_tf.torch.dry_run.rank import Board, Ended, Rank, RankRecorder, Step
from habana_tf.torch.dry_run.recorder import recorded

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_METHODS = ("env", "tcp", "file")
_c10d: Any = dist.distributed_c10d
_OBJECTS = ("send_object_list", "recv_object_list", "broadcast_object_list")
_meeting: Any = importlib.import_module("torch.distributed.rendezvous")  # the package has a function of this name


@contextmanager
def _changed(gloo: type) -> Iterator[None]:
    """Within it objects are exchanged in tensors of the CPU, because a sum of their sizes on the card is computed by
    nobody, groups of gloo are of this class, and DistributedDataParallel does not compare its parameters with those of
    ranks that are not there."""

    def on_cpu(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: call(*args, **{**kwargs, "device": torch.device("cpu")})

    made: dict[str, Any] = {name: on_cpu(getattr(dist, name)) for name in _OBJECTS}
    made["_verify_params_across_processes"] = lambda *_: None
    places = [(dist, name, call) for name, call in made.items()]
    places += [(_c10d, name, made[name]) for name in _OBJECTS]
    places += [(_c10d, "_get_object_coll_device", lambda *_: "cpu"), (_c10d, "ProcessGroupGloo", gloo)]
    before = [getattr(module, name) for module, name, _ in places]
    for module, name, call in places:
        setattr(module, name, call)
    try:
        yield
    finally:
        for (module, name, _), call in zip(places, before, strict=True):
            setattr(module, name, call)


@contextmanager
def pretended(rank: int, size: int, cards: int, board: Board, steps: int | None = None) -> Iterator[Rank]:
    """Within it this process is a rank of a job of that size, on machines of so many cards. board: of the job. steps:
    of an optimizer, after which `Ended` leaves the program."""
    from habana_tf.torch.distributed import group

    group.register()
    made = Rank(rank, size, board=board)
    local = min(cards, size)
    board.begin()
    handlers = dict(_meeting._rendezvous_handlers)

    def meet(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield dist.HashStore(), rank, size

    _meeting._rendezvous_handlers.update(dict.fromkeys(_METHODS, meet))

    def create(options: Any, _: Any) -> PretendedGroup:
        members = list(options.global_ranks_in_group) or list(range(size))
        return PretendedGroup(made, options.group_rank, members, str(options.group_id or ""))

    class Gloo(PretendedGloo):
        job = made

    update = 0

    def begins(*_: Any) -> None:
        nonlocal update
        recorder.flush()
        update = len(made.events)

    def ended(*_: Any) -> None:
        recorder.flush()
        made.steps.append(Step(list(made.events), update, recorder.memory.most))
        made.events.clear()
        if len(made.steps) == steps:
            raise Ended

    before, group.pretended = group.pretended, create
    hooked = sys.excepthook  # to which each `init_process_group` adds the number of its rank
    hooks = [register_optimizer_step_pre_hook(begins), register_optimizer_step_post_hook(ended)]
    values = (rank, size, rank % local, local, "localhost", 29500)
    try:
        with kept(*_VARIABLES), _changed(Gloo), recorded(lambda: RankRecorder(made)) as recorder:
            os.environ.update(zip(_VARIABLES, map(str, values), strict=True))
            meshes.forget()
            recorder.flush()
            made.events.clear()
            try:
                yield made
                recorder.flush()
            finally:
                made.alive = recorder.memory.most
                if dist.is_initialized():
                    dist.destroy_process_group()
                meshes.forget()  # here: outside it would take a card
    finally:
        for hook in hooks:
            hook.remove()
        sys.excepthook = hooked
        group.pretended = before
        _meeting._rendezvous_handlers.clear()
        _meeting._rendezvous_handlers.update(handlers)
