"""Six networks written with torch.nn, narrow, each with its loss on a batch: what the front end has to train.

No convolution has a bias before batch normalization: its gradient is nothing but rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CLASSES, WORDS = 10, 60


class Residual(nn.Module):
    """Two convolutions of 3x3 beside what they are added to."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.beside = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.beside = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.first_norm(self.first(x)), inplace=True)
        return F.relu(self.second_norm(self.second(y)) + self.beside(x), inplace=True)


class ResNet18(nn.Module):
    """For small images: a stem of 3x3, four stages of two blocks. Images [batch, 3, size, size] to logits."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True))
        blocks = []
        inputs = width
        for k in range(4):
            for stride in (1 if k == 0 else 2, 1):
                blocks.append(Residual(inputs, width << k, stride))
                inputs = width << k
        self.stages = nn.Sequential(nn.MaxPool2d(3, 2, 1), *blocks)
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(inputs, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.flatten(self.pool(self.stages(self.stem(x))), 1))


class ViT(nn.Module):
    """A vision transformer. Images [batch, 3, size, size] to logits [batch, classes]."""

    def __init__(self, size: int = 16, patch: int = 4, width: int = 32, depth: int = 6) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


class Attention(nn.Module):
    """Of several heads, as BERT and GPT-2 have it: one product for queries, keys and values."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.into(x).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Bert(nn.Module):
    """Token, place and segment embeddings, layers that normalize after adding, and a head for masked words that shares
    the embedding's weights. tokens, segments [batch, length], mask of the true words; logits [batch, length, words]."""

    def __init__(self, width: int = 32, depth: int = 4, length: int = 24) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width, padding_idx=0), nn.Embedding(length, width)
        self.segments, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "attention": Attention(width, 4, causal=False), "after": nn.LayerNorm(width, eps=1e-12),
                "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
                "last": nn.LayerNorm(width, eps=1e-12),
            }) for _ in range(depth)
        )  # fmt: skip
        self.change, self.change_norm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(WORDS))

    def forward(self, tokens: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.words(tokens) + self.places(places) + self.segments(segments))
        for layer in self.layers:
            x = layer["after"](x + layer["attention"](x, mask[:, None, None, :]))
            x = layer["last"](x + layer["down"](F.gelu(layer["up"](x))))
        return F.linear(self.change_norm(F.gelu(self.change(x))), self.words.weight, self.bias)


class Gpt2(nn.Module):
    """A decoder that normalizes first. tokens [batch, length] to logits [batch, length, words]."""

    def __init__(self, width: int = 32, depth: int = 4, length: int = 24) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "before": nn.LayerNorm(width), "attention": Attention(width, 4, causal=True),
                "between": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width),
            }) for _ in range(depth)
        )  # fmt: skip
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = x + layer["attention"](layer["before"](x))
            x = x + layer["down"](F.gelu(layer["up"](layer["between"](x)), approximate="tanh"))
        return self.head(self.norm(x))


class LstmLanguageModel(nn.Module):
    """tokens [batch, length] to logits [batch, length, words], by two layers of LSTM."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.lstm(self.words(tokens))[0])


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True),
    )  # fmt: skip


class UNet(nn.Module):
    """Images [batch, 3, size, size] to logits [batch, classes, size, size]."""

    def __init__(self, width: int = 4, depth: int = 3, classes: int = 3) -> None:
        super().__init__()
        widths = [width << k for k in range(depth)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.pool = nn.MaxPool2d(2)
        steps = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in steps)
        self.up = nn.ModuleList(_twice(2 * b, b) for _, b in steps)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        beside = []
        for k, convolutions in enumerate(self.down):
            x = convolutions(self.pool(x) if k else x)
            beside.append(x)
        for widen, convolutions, other in zip(self.widen, self.up, beside[-2::-1], strict=True):
            x = convolutions(torch.cat([other, widen(x)], 1))
        return self.head(x)


@dataclass(frozen=True)
class Network:
    """model: makes it. batch: one of it, drawn from a generator. loss: of the model on a batch."""

    model: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], tuple[Tensor, ...]]
    loss: Callable[[Any, tuple[Tensor, ...]], Tensor]


def _images(size: int) -> Callable[[torch.Generator], tuple[Tensor, ...]]:
    return lambda g: (torch.randn(8, 3, size, size, generator=g), torch.randint(CLASSES, (8,), generator=g))


def _classified(model: Any, batch: tuple[Tensor, ...]) -> Tensor:
    images, labels = batch
    return F.cross_entropy(model(images), labels)


def _masked_words(g: torch.Generator) -> tuple[Tensor, ...]:
    """Tokens, segments, true words, and the words to be found, -100 where none is asked for."""
    tokens = torch.randint(1, WORDS, (6, 24), generator=g)
    mask = torch.arange(24) < torch.randint(12, 25, (6, 1), generator=g)
    asked = (torch.rand(6, 24, generator=g) < 0.2) & mask
    asked[:, 0] = True
    return tokens * mask, (torch.arange(24) >= 10).long().expand(6, 24).contiguous(), mask, tokens.where(asked, -100)


def _bert_loss(model: Any, batch: tuple[Tensor, ...]) -> Tensor:
    *given, asked = batch
    return F.cross_entropy(model(*given).view(-1, WORDS), asked.view(-1))


def _text(g: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randint(WORDS, (6, 25), generator=g),)


def _next_words(model: Any, batch: tuple[Tensor, ...]) -> Tensor:
    (text,) = batch
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def _segments(g: torch.Generator) -> tuple[Tensor, ...]:
    return torch.randn(4, 3, 16, 16, generator=g), torch.randint(3, (4, 16, 16), generator=g)


NETWORKS = {
    "resnet18": Network(ResNet18, _images(16), _classified),
    "vit": Network(ViT, _images(16), _classified),
    "bert": Network(Bert, _masked_words, _bert_loss),
    "gpt2": Network(Gpt2, _text, _next_words),
    "lstm": Network(LstmLanguageModel, _text, _next_words),
    "unet": Network(UNet, _segments, _classified),
}
