"""Which other hosts of a job still answer: tells why a rank waited in vain. Gloo, for one, says only that it waited.

An agent asks all other hosts when its rank starts, and again when its rank has failed. A host that answered at first
and no longer does is lost, with its ranks.

It asks by a TCP connection to a port where nobody listens. The refusal is the answer: it comes from the host's kernel,
however busy its programs are, and needs no open port.

Invariants: asking takes at most SECONDS, for any number of hosts. A host that did not answer at the start, for example
behind a firewall that drops such packets, is never reported as lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence

SECONDS = 5.0
"""How long a host may take to answer: Linux sends the first packet of a connection at 0, 1 and 3 seconds."""
_DISCARD = 9
"""RFC 863's port, on which hosts have had nothing to offer for decades."""


class Others:
    """The ranks on other hosts, by host. Asks the hosts in the background when it is made."""

    def __init__(self, ranks: Mapping[str, Sequence[int]]) -> None:
        self._ranks = ranks
        self._addresses: dict[str, str] = {}
        self._asking = threading.Thread(target=self._begin, daemon=True)
        self._asking.start()

    def lost(self) -> list[str]:
        """Sentences that name the ranks whose hosts answer no more; takes at most twice SECONDS."""
        self._asking.join(SECONDS)
        answer = answering(self._addresses.values())
        return [
            f"{_named(self._ranks[host])} on {host} cannot be reached any more from {socket.gethostname()}: the host "
            "answered when the job began and does not now. Look at its power and network"
            for host, address in self._addresses.items()
            if address not in answer
        ]

    def _begin(self) -> None:
        found = {}
        for host in self._ranks:
            with contextlib.suppress(OSError):  # a name that only the remote shell knows
                found[host] = str(socket.getaddrinfo(host, _DISCARD, type=socket.SOCK_STREAM)[0][4][0])
        answer = answering(found.values())
        self._addresses = {host: address for host, address in found.items() if address in answer}


def answering(addresses: Iterable[str]) -> set[str]:
    """Those of some IP addresses from which anything comes back."""

    async def ask(address: str) -> bool:
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(address, _DISCARD), SECONDS)
        except ConnectionRefusedError:
            return True
        except (OSError, asyncio.TimeoutError):
            return False
        writer.close()
        return True

    async def ask_all(distinct: Sequence[str]) -> list[bool]:
        return await asyncio.gather(*(ask(address) for address in distinct))

    distinct = sorted(set(addresses))
    return {address for address, answers in zip(distinct, asyncio.run(ask_all(distinct)), strict=True) if answers}


def _named(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
