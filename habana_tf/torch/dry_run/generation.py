"""Forward passes of a causal language model of `transformers`, as one of its cards has them, recorded and never run: of
a prompt, and of one token after those that the cache of keys and values has."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from habana_tf.torch.dry_run.experts import CardExperts, is_experts
from habana_tf.torch.dry_run.rank import Rank, RankRecorder, UnrunLaunch
from habana_tf.torch.dry_run.recorder import Unrun, recorded
from habana_tf.torch.dry_run.shared_layers import FLOAT8, in_float8, share

TYPES = {"bf16": torch.bfloat16, "fp8": torch.bfloat16, "fp32": torch.float32}
"""Of what is not in 8 bits."""
FUSED = "habana_fused_sdpa"
WEIGHT, CACHE = "weight", "cache"


@dataclass(frozen=True)
class Forward:
    """One call of the model. tokens: of each sequence; before: how many the cache has of it already; room: rows of a
    cache that does not grow, 0 for one that does."""

    batch: int
    tokens: int
    before: int
    room: int


@dataclass(frozen=True)
class Setting:
    """How a model is run. precision: of linear layers, see TYPES; kv_precision: of keys and values, "" for the model's;
    attention: "fused", or an implementation of transformers."""

    config: Any
    tp: int = 1
    precision: str = "bf16"
    kv_precision: str = ""
    attention: str = "fused"


class Model:
    """A model on one of its cards. layers: how many it has of its decoder's, None for all. It is called for each
    forward pass, with one card on the device, too. asked: what cards would exchange, see `shared_layers.CardLinear`."""

    def __init__(self, setting: Setting, layers: int | None = None) -> None:
        from transformers import AutoModelForCausalLM

        use_habanas_attention()
        self.setting, self.config = setting, shortened(setting.config, layers)
        name = FUSED if setting.attention == "fused" else setting.attention
        try:
            with torch.device("meta"):
                made = AutoModelForCausalLM.from_config(
                    self.config, dtype=TYPES[setting.precision], attn_implementation=name
                )
        except (KeyError, ValueError) as why:  # as transformers refuses an implementation
            raise ValueError(f"{type(self.config).__name__} with attention={setting.attention!r}: {why}") from why
        self.asked: list[tuple[str, int]] = []
        for path, module in list(made.named_modules()):
            if is_experts(module):
                owner, _, name = path.rpartition(".")
                experts = CardExperts(module, setting.tp, setting.precision == "fp8", self.asked)
                setattr(made.get_submodule(owner), name, experts)
        share(made, setting.tp, setting.precision == "fp8", self.asked)
        made.eval().to_empty(device="hpu")
        if setting.precision != "fp8":
            made.tie_weights()
        self.module = made

    def weights(self) -> list[torch.Tensor]:
        """Parameters and buffers."""
        return [*self.module.parameters(), *self.module.buffers()]

    def cache(self, batch: int, before: int, room: int) -> Any:
        """A cache with room for so many rows, or one that grows, with so many rows."""
        kind = _caches()[room > 0, self.setting.kv_precision == "fp8"]
        heads, size = self._heads()
        dtype = TYPES[self.setting.precision]
        if room:
            made = kind(config=self.config, max_cache_len=room)
            kept = FLOAT8 if self.setting.kv_precision == "fp8" else dtype
            made.early_initialization(batch, heads, size, kept, torch.device("hpu"))
            return made
        made = kind(config=self.config)
        if before:
            for number in range(self.config.num_hidden_layers):
                rows = [torch.empty(batch, heads, before, size, dtype=dtype, device="hpu") for _ in range(2)]
                made.update(*rows, number)
        return made

    def _heads(self) -> tuple[int, int]:
        """Heads of keys and values on this card, and their size."""
        config = self.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return heads // self.setting.tp, size

    def __call__(self, ids: torch.Tensor, positions: torch.Tensor, cache: Any) -> torch.Tensor:
        """The next token of each sequence. ids: [batch, tokens]; positions: [1, tokens]."""
        mask = None
        lengths = {layer.get_max_length() for layer in cache.layers}
        if ids.shape[1] == 1 and len(lengths) == 1 and lengths != {-1}:
            (room,) = lengths
            mask = torch.arange(room, device=ids.device) <= positions[:, -1:]
            if not hasattr(self.module.base_model, "build_alibi_tensor"):  # which is of a mask [batch, rows]
                mask = mask[None, None]
            mask = mask.expand(ids.shape[0], *mask.shape[1:])
        with torch.no_grad():
            found = self.module(
                input_ids=ids, attention_mask=mask, cache=cache, position_ids=positions, use_cache=True,
                logits_to_keep=1,
            )  # fmt: skip
            made: torch.Tensor = found.logits[:, -1].argmax(-1)
        return made


@dataclass(frozen=True)
class Recorded:
    """A forward pass of one card. programs: that it would launch; asked: what cards exchange in them, by kind and
    bytes; cached: bytes of its keys and values."""

    programs: list[Unrun]
    asked: list[tuple[str, int]]
    cached: int


def record(setting: Setting, layers: int | None, passes: Sequence[Forward]) -> tuple[dict[Forward, Recorded], int]:
    """Each forward pass, and bytes of the weights."""
    rank = Rank(0, 1)
    with recorded(lambda: RankRecorder(rank)) as recorder:
        return _recorded(rank, recorder, setting, layers, passes)


def _recorded(
    rank: Rank, recorder: RankRecorder, setting: Setting, layers: int | None, passes: Sequence[Forward]
) -> tuple[dict[Forward, Recorded], int]:
    model = Model(setting, layers)
    for t in model.weights():
        recorder.call(t, WEIGHT)
    found = {}
    for each in passes:
        cache = model.cache(each.batch, each.before, each.room)
        ids, positions = (torch.empty(n, each.tokens, dtype=torch.int64, device="hpu") for n in (each.batch, 1))
        recorder.flush()
        held = _kept(cache) if each.room else []  # what grows is there twice for a moment
        for t in held:
            recorder.call(t, CACHE)
        model.asked.clear()
        rank.events.clear()
        token = model(ids, positions, cache)
        recorder.flush()
        programs = [event.program for event in rank.events if isinstance(event, UnrunLaunch)]
        found[each] = Recorded(programs, list(model.asked), nbytes(_kept(cache)))
        for t in held:
            recorder.call(t, "")  # its address may be another tensor's later
        del token, cache, held
    return found, nbytes(model.weights())


def nbytes(tensors: Iterable[torch.Tensor]) -> int:
    """Of all of them."""
    return sum(t.nbytes for t in tensors)


def _kept(cache: Any) -> list[torch.Tensor]:
    return [t for layer in cache.layers for t in (layer.keys, layer.values) if t is not None]


def shortened(config: Any, layers: int | None) -> Any:
    """A copy of a configuration with so many layers of the decoder; all of them for None."""
    made = copy.deepcopy(config)
    if layers is not None:
        text = made.get_text_config()
        text.num_hidden_layers = layers
        if getattr(text, "layer_types", None):
            text.layer_types = text.layer_types[:layers]
    return made


def kinds_of_layers(config: Any) -> list[tuple[Any, ...]]:
    """What each layer of the decoder is: equal entries are equal layers."""
    from transformers import AutoModelForCausalLM

    count = config.get_text_config().num_hidden_layers
    kinds = getattr(config.get_text_config(), "layer_types", None) or [""] * count
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    (layers,) = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == count][:1] or [[]]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no list of its {count} layers")
    return [
        (kind, *((name, tuple(p.shape)) for name, p in layer.named_parameters()))
        for kind, layer in zip(kinds, layers, strict=True)
    ]


class _Float8:
    """Keys and values in 8 bits."""

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """As of any cache."""
        return super().update(in_float8(key_states), in_float8(value_states), *args, **kwargs)  # type: ignore[misc]


@functools.cache
def _caches() -> dict[tuple[bool, bool], Any]:
    """The classes of caches: by whether they are static, and in 8 bits."""
    from transformers import DynamicCache, StaticCache

    plain = {True: StaticCache, False: DynamicCache}
    narrow = {static: type(f"Float8{kind.__name__}", (_Float8, kind), {}) for static, kind in plain.items()}
    return {(static, eighths): (narrow if eighths else plain)[static] for static in plain for eighths in (True, False)}


@functools.cache
def use_habanas_attention() -> None:
    """Tells transformers of the attention here."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(FUSED, attend)
    AttentionMaskInterface.register(FUSED, _mask)


def _mask(*args: Any, q_length: int, q_offset: Any = 0, **kwargs: Any) -> torch.Tensor | None:
    """As with scaled dot products. A prompt begins at 0, which a static cache would have the card say."""
    from transformers.masking_utils import sdpa_mask

    made: torch.Tensor | None = sdpa_mask(*args, q_length=q_length, q_offset=0 if q_length > 1 else q_offset, **kwargs)
    return made


def attend(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor | None,
    scaling: float | None = None, softcap: float | None = None, **_: Any,
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """Attention by Habana's kernel: FusedSDPA, or products of 8 bits where keys and values have them. A prompt attends
    to itself, whatever room the cache has behind it."""
    if softcap is not None:
        raise ValueError("Habana's attention has no softcap: use attention='eager'")
    from habana_tf.torch.hpex.attention import FusedSDPA

    batch, heads, rows, size = query.shape
    if causal := rows > 1 and attention_mask is None:
        key, value = key[:, :, :rows], value[:, :, :rows]
    if key.dtype is FLOAT8:
        if causal:
            attention_mask = torch.ones(rows, rows, dtype=torch.bool, device=query.device).tril()
        made = _in_8_bits(query, key, value, attention_mask, scaling or size**-0.5)
    else:  # a single row of each head is beside those that share its keys and values
        side = query.reshape(batch, key.shape[1], -1, size) if rows == 1 else query
        made = FusedSDPA.apply(side, key, value, attention_mask, 0.0, causal, scaling, "fast", True)
    return made.reshape(batch, heads, rows, value.shape[-1]).transpose(1, 2).contiguous(), None


def _in_8_bits(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float
) -> torch.Tensor:
    batch, heads, rows, size = query.shape
    groups, length = key.shape[1], key.shape[2]
    side = in_float8(query).reshape(batch, groups, heads // groups * rows, size)
    scores = torch.ops.hpu.fp8_gemm_v2(side, False, key, True, None, query.dtype, None, None, None, False) * scale
    scores = scores.reshape(batch, heads, rows, length)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = in_float8(torch.ops.aten._safe_softmax(scores, -1)).reshape(batch, groups, heads // groups * rows, length)
    made: torch.Tensor = torch.ops.hpu.fp8_gemm_v2(
        weights, False, value, False, None, query.dtype, None, None, None, False
    )
    return made.reshape(batch, heads, rows, size)
