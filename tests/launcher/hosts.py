"""Several machines in one: network namespaces with addresses of their own on one bridge.

Needs the right to make namespaces (root) and iproute2. The names carry the process id, so that two test runs do not
meet; `hosts` removes all it made. Each machine has a name of its own that resolves to its address: Horovod 0.28 looks
its host's name up for some of its connections, whichever interface it was told to use.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_namespaces = pytest.mark.skipif(
    shutil.which("ip") is None
    or subprocess.run(["ip", "netns", "add", f"probe{os.getpid()}"], capture_output=True).returncode != 0
    or subprocess.run(["ip", "netns", "del", f"probe{os.getpid()}"], capture_output=True).returncode != 0,
    reason="network namespaces need root and iproute2",
)


@dataclass(frozen=True)
class Host:
    """A machine: its address, the name of its network interface (the same on all of them and on this one), its
    namespace, and the simulated machine's directory there."""

    address: str
    interface: str
    namespace: str
    state: Path

    def cut(self) -> None:
        """Pulls the cable."""
        ip("link", "set", f"{self.namespace}r", "down")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        words = ["ip", "netns", "exec", self.namespace, *command]
        return subprocess.run(words, capture_output=True, text=True, check=True)


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True)


@contextmanager
def hosts(count: int, folder: Path) -> Iterator[tuple[list[Host], Path]]:
    """Machines that reach each other and this one, and a remote shell to them: yields both."""
    number = os.getpid() % 250
    bridge = f"hb{os.getpid()}"
    network = f"10.213.{number}"
    made = [Host(f"{network}.{k + 1}", bridge, f"h{os.getpid()}n{k}", folder / f"machine{k}") for k in range(count)]
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", f"{network}.254/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for host in made:
            host.state.mkdir(mode=0o700)
            near, far = f"{host.namespace}r", f"{host.namespace}i"
            ip("netns", "add", host.namespace)
            names = Path("/etc/netns", host.namespace)
            names.mkdir(parents=True)
            (names / "hosts").write_text(f"127.0.0.1 localhost\n{host.address} {host.namespace}\n")
            ip("link", "add", near, "type", "veth", "peer", "name", far)
            ip("link", "set", far, "netns", host.namespace)
            ip("link", "set", near, "master", bridge, "up")
            host.run("ip", "link", "set", far, "name", bridge)
            host.run("ip", "addr", "add", f"{host.address}/24", "dev", bridge)
            host.run("ip", "link", "set", bridge, "up")
            host.run("ip", "link", "set", "lo", "up")
        yield made, _remote_shell(made, folder)
    finally:
        for host in made:
            ip("netns", "del", host.namespace, check=False)
            shutil.rmtree(Path("/etc/netns", host.namespace), ignore_errors=True)
            ip("link", "del", f"{host.namespace}r", check=False)
        ip("link", "del", bridge, check=False)


def _remote_shell(made: list[Host], folder: Path) -> Path:
    """A program that runs a line on a machine, called as ssh is: options, host, words of the line."""
    cases = "\n".join(
        f"  {host.address}) namespace={host.namespace}; HABANA_SIM_STATE_DIR={host.state};;" for host in made
    )
    path = folder / "ssh"
    path.write_text(f"""#!/bin/sh
while :; do case $1 in -o|-p|-i) shift 2;; *) break;; esac; done
host=$1
shift
while :; do case $1 in -o|-p|-i) shift 2;; *) break;; esac; done
case $host in
{cases}
  *) echo "no such host: $host" >&2; exit 255;;
esac
export HABANA_SIM_STATE_DIR
exec ip netns exec $namespace unshare --uts sh -c "hostname $namespace && $*"
""")
    path.chmod(0o755)
    return path
