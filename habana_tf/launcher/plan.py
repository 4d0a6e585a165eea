"""Decides what every rank of a job runs, where, and with which environment.

Ranks are numbered host by host, with as many on each. For HPUStrategy each gets TF_CONFIG with the addresses of all
workers; for Horovod its ranks and the address of the job's rendezvous server (`rendezvous.py`); for PyTorch what
torchrun would set. `HABANA_SIM_RANK` and its like tell each rank which card to take. Each gets an equal share of the
cores of its host.

Invariant: a plan depends only on its arguments, except for the free ports of a job on this host.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shlex
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from habana_tf import settings
from habana_tf.launcher import carried

LOCAL = "localhost"
RSH = "ssh -o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3"
"""Ends with 255 when its host has not answered for 15 seconds; by default it would wait for hours."""
_LAST_PORT = 65535


class PlanError(ValueError):
    """A job cannot be laid out as asked; the message says what to change."""


@dataclass(frozen=True)
class JobOptions:
    """A job as the user asked for it. count: ranks in all; hosts: empty for this one; port: of the first worker of a
    host, 0 for free ones (this host only); arguments: those of the program; export: names of variables that other hosts
    get beside those of `carried.known`."""

    count: int
    strategy: str
    program: str
    arguments: tuple[str, ...] = ()
    as_module: bool = False
    load_first: bool = False
    hosts: tuple[str, ...] = ()
    port: int = 0
    bind: bool = True
    python: str = sys.executable
    directory: str = field(default_factory=os.getcwd)
    export: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rank:
    """One process of a job. python: the interpreter on its host; share: which of how many equal parts of its host's
    cores it gets, None for all cores; exported: names in `environment` whose values are not shown."""

    rank: int
    host: str
    python: str
    local_rank: int
    command: tuple[str, ...]
    environment: dict[str, str]
    share: tuple[int, int] | None
    directory: str
    exported: frozenset[str] = frozenset()

    def describe(self) -> str:
        return f"rank {self.rank}" if self.host == LOCAL else f"rank {self.rank} on {self.host}"

    def shell_line(self) -> str:
        """The rank as a line for a shell, which takes what was exported from the environment that it is run in."""
        shown = {name: _quoted(value) for name, value in self.environment.items()}
        shown |= {name: f'"${name}"' for name in self.exported}
        variables = " ".join(f"{name}={value}" for name, value in shown.items())
        return f"cd {_quoted(self.directory)} && {variables} {' '.join(map(_quoted, self.command))}"


def make(
    job: JobOptions, rendezvous: tuple[str, int] | None = None, held: ExitStack | None = None, free: Sequence[int] = ()
) -> list[Rank]:
    """The ranks of a job, in order.

    rendezvous: address and port of the job's rendezvous server, for Horovod. held: until it is closed, the
    kernel gives the free ports that were chosen for the workers to no other process. free: module ids for the ranks on
    this host, as `free_cards.choose` gives them; empty leaves the choice to the ranks.
    Raises PlanError.
    """
    hosts = job.hosts or (LOCAL,)
    if len(set(hosts)) != len(hosts):
        raise PlanError("the same host is named twice")
    if job.strategy == "torch" and job.load_first:
        raise PlanError("--load is for TensorFlow: a program of PyTorch imports habana_frameworks.torch itself")
    itself = [host for host in hosts if _is_itself(host)]
    if itself and len(hosts) > 1:
        raise PlanError(
            f"{itself[0]} means another host on each host: name this one by a name or address that the others know"
        )
    if job.count % len(hosts):
        raise PlanError(f"{job.count} ranks cannot be spread evenly over {len(hosts)} hosts: use a multiple of that")
    local_size = job.count // len(hosts)
    cards = len(settings.HABANA_VISIBLE_MODULES.get()) or settings.HABANA_SIM_CARDS.get()
    if local_size > cards:
        raise PlanError(
            f"{local_size} ranks on one host need as many cards, and {cards} are visible: use fewer ranks or more "
            "hosts, or change HABANA_VISIBLE_MODULES or HABANA_SIM_CARDS"
        )
    if settings.HLS_MODULE_ID.get() is not None and local_size > 1:
        raise PlanError(
            f"{settings.HLS_MODULE_ID.source()} would give the {local_size} ranks of a host the same card: unset it; "
            "HABANA_VISIBLE_MODULES chooses their cards"
        )
    missing = [name for name in job.export if name not in os.environ]
    if missing:
        raise PlanError(f"{', '.join(missing)} is not set here, so it cannot be exported: set it, or leave it out")
    workers = _addresses(job, hosts, local_size, held)
    ranks = []
    for rank in range(job.count):
        host, local_rank = hosts[rank // local_size], rank % local_size
        environment = _texts({
            "HABANA_SIM_RANK": rank, "HABANA_SIM_SIZE": job.count, "HABANA_SIM_LOCAL_RANK": local_rank,
            "HABANA_SIM_LOCAL_SIZE": local_size,
        })  # fmt: skip
        if job.strategy == "hpu":
            task = {"type": "worker", "index": rank}
            environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
        elif job.strategy == "torch":
            environment |= _torch(rank, local_rank, job.count, local_size, workers[0])
        else:
            environment |= _horovod(rank, local_rank, job.count, local_size, host, rendezvous)
        environment["PYTHONUNBUFFERED"] = "1"
        if free and host == LOCAL:
            environment["HABANA_VISIBLE_MODULES"] = ",".join(map(str, free))
        hidden: frozenset[str] = frozenset()
        if host != LOCAL:
            hidden = frozenset(job.export) - environment.keys()
            environment = {**carried.carried(job.export), **environment}
        share = (local_rank, local_size) if job.bind else None
        ranks.append(Rank(rank, host, job.python, local_rank, _command(job), environment, share, job.directory, hidden))
    return ranks


def horovodrun(job: JobOptions) -> str:
    """The line for a shell that runs a Horovod job without this launcher, in whose process its ranks would meet.

    Raises PlanError.
    """
    ranks = make(job)
    slots = ",".join(f"{host}:{job.count // len(job.hosts or (LOCAL,))}" for host in job.hosts or (LOCAL,))
    words = ["horovodrun", "--gloo", "-np", str(job.count), "-H", slots, *ranks[0].command]
    return f"cd {_quoted(job.directory)} && {' '.join(map(_quoted, words))}"


def _quoted(word: str) -> str:
    """A word for a shell; bytes that are not printable as $'...' writes them, so that a line stays one."""
    if word.isprintable():
        return shlex.quote(word)
    escapes = {"\\": r"\\", "'": r"\'"}
    shown = (c if c.isprintable() else "".join(rf"\x{byte:02x}" for byte in os.fsencode(c)) for c in word)
    return "$'" + "".join(escapes.get(c, c) for c in shown) + "'"


def _is_itself(host: str) -> bool:
    """Whether a name or address means the host that uses it, whichever that is."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() in (LOCAL, "localhost.localdomain", "ip6-localhost")


def _command(job: JobOptions) -> tuple[str, ...]:
    if not (job.as_module or job.load_first or job.program.endswith(".py")):
        return (job.program, *job.arguments)
    loads = ("-m", "habana_tf") if job.load_first else ()
    module = ("-m",) if job.as_module else ()
    return (job.python, *loads, *module, job.program, *job.arguments)


def _addresses(job: JobOptions, hosts: Sequence[str], local_size: int, held: ExitStack | None) -> list[str]:
    """host:port of every worker of HPUStrategy."""
    if job.port or job.hosts:
        first = job.port or 7850  # where Habana's own scripts begin
        if first + local_size - 1 > _LAST_PORT:
            raise PlanError(
                f"--port {first}: the last of the {local_size} ranks of a host would have port "
                f"{first + local_size - 1}, and there is none past {_LAST_PORT}: use {_LAST_PORT - local_size + 1} or "
                "less"
            )
        return [f"{host}:{first + k}" for host in hosts for k in range(local_size)]
    with ExitStack() as briefly:
        return [f"{LOCAL}:{port}" for port in _free_ports(job.count, held or briefly)]


def _free_ports(count: int, held: ExitStack) -> list[int]:
    """Free ports that Linux assigns to no other socket until `held` is closed.

    A worker that asks for its port by number gets it all the same: its server, as all of gRPC's, has SO_REUSEADDR too,
    and two such sockets may share a port while one of them does not listen.
    """
    sockets = [held.enter_context(socket.socket()) for _ in range(count)]
    for each in sockets:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind((LOCAL, 0))
    return [each.getsockname()[1] for each in sockets]


def _torch(rank: int, local_rank: int, size: int, local_size: int, first: str) -> dict[str, str]:
    """What torch.distributed reads. first: host:port of rank 0, where the ranks find each other."""
    host, port = first.rsplit(":", 1)
    ranks = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local_rank, "LOCAL_WORLD_SIZE": local_size}
    return {**_texts(ranks), "MASTER_ADDR": host.strip("[]"), "MASTER_PORT": port}


def _texts(values: dict[str, int]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _horovod(
    rank: int, local_rank: int, size: int, local_size: int, host: str, rendezvous: tuple[str, int] | None
) -> dict[str, str]:
    """What Horovod's Gloo controller reads."""
    address, port = rendezvous or ("127.0.0.1", 0)
    ranks = {
        "HOROVOD_RANK": rank, "HOROVOD_SIZE": size, "HOROVOD_LOCAL_RANK": local_rank, "HOROVOD_LOCAL_SIZE": local_size,
        "HOROVOD_CROSS_RANK": rank // local_size, "HOROVOD_CROSS_SIZE": size // local_size,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
    }  # fmt: skip
    return {**_texts(ranks), "HOROVOD_HOSTNAME": host, "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
            "HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"}  # fmt: skip
