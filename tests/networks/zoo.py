"""Every network of the zoo, by name: a function that builds it."""

from __future__ import annotations

from collections.abc import Callable

from tests.networks import applications, language, vision
from tests.networks.network import Network

NETWORKS: dict[str, Callable[[], Network]] = {
    **applications.NETWORKS,
    **vision.NETWORKS,
    **language.NETWORKS,
}
