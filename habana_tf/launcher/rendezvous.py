"""Where the ranks of a Horovod job find each other: Horovod's own server, in the launcher.

The server is needed until every rank has initialised Horovod; it stays up for the job.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from habana_tf.launcher.plan import JobOptions, PlanError


@contextmanager
def server(job: JobOptions) -> Iterator[tuple[str, int]]:
    """A rendezvous server for a job: yields the address and port at which its ranks reach it.

    Raises PlanError if Horovod is not installed.
    """
    try:
        from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
        from horovod.runner.http.http_server import RendezvousServer
    except ImportError as error:
        raise PlanError(
            f"Horovod cannot be imported ({error}): install it (in the source tree: make horovod), or use "
            "--strategy hpu for a program that uses HPUStrategy"
        ) from error
    hosts = job.hosts or ("localhost",)
    slots = job.count // len(hosts)
    made = RendezvousServer()
    port = made.start()
    try:
        made.init(get_host_assignments(parse_hosts(",".join(f"{host}:{slots}" for host in hosts)), job.count))
        yield address_towards(job.hosts), port
    finally:
        made.stop()


def address_towards(hosts: tuple[str, ...]) -> str:
    """The address of this host as the first of `hosts` sees it; without hosts, the loopback's."""
    if not hosts:
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((hosts[0], 9))
        except OSError as error:
            raise PlanError(f"host {hosts[0]!r} has no address: {error}") from error
        return str(probe.getsockname()[0])
