"""The models of `models.py` in PyTorch: the same layers, shapes and initial scales, as many trained parameters.

Images have their channels last in memory, which is how PyTorch is fastest on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS = 8000


@dataclass(frozen=True)
class Benchmark:
    """As `models.Benchmark`: shape without channels first, batch, and what the numbers are."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    batch: int
    classes: int = 10
    words: int = 0
    each: bool = False


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.5), nn.Linear(1600, 10),
    )  # fmt: skip


def _convolution(
    inputs: int, outputs: int, side: int, stride: int = 1, groups: int = 1, bias: bool = True
) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, side, stride, side // 2, groups=groups, bias=bias)


class _Bottleneck(nn.Module):
    """ResNet's block of three convolutions; the first has the stride, as in Keras."""

    def __init__(self, inputs: int, width: int, stride: int, project: bool) -> None:
        super().__init__()

        def norm(n: int) -> nn.BatchNorm2d:
            return nn.BatchNorm2d(n, eps=1.001e-5)

        self.main = nn.Sequential(
            _convolution(inputs, width, 1, stride), norm(width), nn.ReLU(),
            _convolution(width, width, 3), norm(width), nn.ReLU(),
            _convolution(width, 4 * width, 1), norm(4 * width),
        )  # fmt: skip
        self.beside = (
            nn.Sequential(_convolution(inputs, 4 * width, 1, stride), norm(4 * width)) if project else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.main(x) + self.beside(x))


class _Pooled(nn.Module):
    """A backbone, the mean over its pixels, a dense layer."""

    def __init__(self, backbone: nn.Module, channels: int) -> None:
        super().__init__()
        self.backbone, self.head = backbone, nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x).mean((2, 3)))


def resnet50() -> nn.Module:
    parts: list[nn.Module] = [
        _convolution(3, 64, 7, 2), nn.BatchNorm2d(64, eps=1.001e-5), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    ]  # fmt: skip
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            parts.append(_Bottleneck(inputs, width, stride if k == 0 else 1, k == 0))
            inputs = 4 * width
    return _Pooled(nn.Sequential(*parts), inputs)


class _Inverted(nn.Module):
    """MobileNetV2's block: wider by 1x1, depthwise, narrower by 1x1."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = inputs * expansion

        def norm(n: int) -> nn.BatchNorm2d:
            return nn.BatchNorm2d(n, eps=1e-3)

        wider = [_convolution(inputs, width, 1, bias=False), norm(width), nn.ReLU6()] if expansion > 1 else []
        self.main = nn.Sequential(
            *wider, _convolution(width, width, 3, stride, groups=width, bias=False), norm(width), nn.ReLU6(),
            _convolution(width, outputs, 1, bias=False), norm(outputs),
        )  # fmt: skip
        self.added = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.main(x) if self.added else self.main(x)


def mobilenetv2() -> nn.Module:
    parts: list[nn.Module] = [_convolution(3, 32, 3, 2, bias=False), nn.BatchNorm2d(32, eps=1e-3), nn.ReLU6()]
    inputs = 32
    blocks = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, outputs, count, stride in blocks:
        for k in range(count):
            parts.append(_Inverted(inputs, outputs, stride if k == 0 else 1, expansion))
            inputs = outputs
    parts += [_convolution(inputs, 1280, 1, bias=False), nn.BatchNorm2d(1280, eps=1e-3), nn.ReLU6()]
    return _Pooled(nn.Sequential(*parts), 1280)


class _Attention(nn.Module):
    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.project, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.project(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class _Block(nn.Module):
    """Attention and a two-layer perceptron, each behind a normalization and with a residual."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.LayerNorm(width, eps=1e-6), _Attention(heads, width), nn.Dropout(0.1))
        self.two = nn.Sequential(
            nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
            nn.Dropout(0.1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.one(x)
        return x + self.two(x)


class _Encoder(nn.Module):
    """Tokens with learned positions, blocks, a normalization."""

    def __init__(self, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.randn(1, length, width) * 0.05)
        self.blocks = nn.Sequential(*(_Block(heads, width) for _ in range(layers)), nn.LayerNorm(width, eps=1e-3))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x + self.positions)


class _Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.encoder, self.head = nn.Conv2d(3, 384, 16, 16), _Encoder(100, 384, 6, 6), nn.Linear(384, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class _Lstm(nn.Module):
    """Two layers; one bias each as in Keras, where PyTorch would train two that are only added."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.cells, self.head = (
            nn.Embedding(WORDS, 128),
            nn.LSTM(128, 128, 2, batch_first=True),
            nn.Linear(128, 10),
        )
        for name, weight in self.cells.named_parameters():
            if name.startswith("bias_hh"):
                weight.requires_grad_(False).zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(self.words(x))[0][:, -1])


MODELS = {
    "mlp": Benchmark(mlp, (784,), 128),
    "lenet": Benchmark(lenet, (1, 28, 28), 64),
    "resnet50": Benchmark(resnet50, (3, 160, 160), 16),
    "mobilenetv2": Benchmark(mobilenetv2, (3, 160, 160), 16),
    "vit": Benchmark(_Vit, (3, 160, 160), 16),
    "bert": Benchmark(
        lambda: nn.Sequential(nn.Embedding(WORDS, 256), _Encoder(128, 256, 4, 4), nn.Linear(256, WORDS)),
        (128,), 16, classes=WORDS, words=WORDS, each=True,
    ),
    "lstm": Benchmark(_Lstm, (64,), 32, words=WORDS),
}  # fmt: skip
