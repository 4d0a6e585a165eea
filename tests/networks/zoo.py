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

BF16 = ("vit", "bert", "decoder", "unet", "autoencoder", "vae", "gan", "lstm")
"""Networks that are trained in bf16 too."""
