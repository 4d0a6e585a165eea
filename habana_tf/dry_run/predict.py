"""`predict()`: how fast a function or a model would be on a Gaudi, before anything runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, overload

from habana_tf import settings
from habana_tf.card.model.host import UNKNOWN, Host
from habana_tf.card.model.parameters import FITTED, LATEST, check_release
from habana_tf.card.model.step_time import step_time
from habana_tf.card.prediction.foreseen import Foreseen, PredictionError
from habana_tf.card.prediction.prediction import Prediction, Transfer
from habana_tf.dry_run.ranks import RanksPrediction, predict_ranks
from habana_tf.hardware.boxes import box as box_named
from habana_tf.hardware.chips import chip as chip_named
from habana_tf.resolver.garbage_collection import held
from habana_tf.tensorflow.dry_run.input_rate import fed_by
from habana_tf.tensorflow.dry_run.resident import argument_names, resident_names
from habana_tf.tensorflow.dry_run.traced import as_specs, batch_of, examples_of, traced, unpacked
from habana_tf.tensorflow.graph import bf16_config

PRODUCTS = frozenset("Einsum BatchMatMulV3 Conv3D Conv3DBackpropInputV2 Conv3DBackpropFilterV2 Erf".split())
"""What is in bf16 for `precision="bf16"` besides Habana's full list: products that the list does not know because
Habana's own models have none of them, and what Keras makes its GELU of."""


@overload
def predict(
    fn_or_model: Any, *inputs: Any, chip: str | None = None, cards: int = 1, precision: str = "bf16",
    optimizer: Any = None, host: Host | None = None, dataset: Any = None, box: str | None = None,
    release: str = LATEST, accumulate: int = 1, resident: Any = None, loss: Any = None, world: None = None,
) -> Prediction: ...  # fmt: skip


@overload
def predict(
    fn_or_model: Any, *, world: int, rank: int | Sequence[int] = 0, chip: str | None = None, box: str | None = None,
    release: str = LATEST,
) -> RanksPrediction: ...  # fmt: skip


def predict(
    fn_or_model: Any, *inputs: Any, chip: str | None = None, cards: int = 1, precision: str = "bf16",
    optimizer: Any = None, host: Host | None = None, dataset: Any = None, box: str | None = None,
    release: str = LATEST, accumulate: int = 1, resident: Any = None, loss: Any = None, world: int | None = None,
    rank: int | Sequence[int] = 0,
) -> Prediction | RanksPrediction:  # fmt: skip
    """The time and memory of one step on real cards. Nothing is executed but the zeros that Keras makes an optimizer's
    and metrics' variables from, and nothing large stays allocated.

    With `world`, fn_or_model is a program of PyTorch that takes nothing, and is run, computing nothing, as this rank of
    a job of so many cards, or as several: see `dry_run.ranks.predict_ranks`.

    For PyTorch: fn_or_model is a torch.nn.Module, on any device, `meta` included; inputs: what it is called with, then
    the targets of `loss`, if that takes any; one dict of tensors by name is allowed. Without `loss` and `optimizer` a
    forward pass is predicted, else a training step. loss: a function of the outputs and the targets; without one the
    output's own `loss`, or one of ours as below. optimizer: one of torch.optim, an object (whose class and settings are
    taken), a class, a function of the parameters, or a name. precision "bf16" is autocast's. See docs/torch.md.

    fn_or_model: a function, which is predicted as it is, or a Keras model, whose training step is: forward, loss,
    gradients, the optimizer's update, and with several cards the sum of gradients. inputs: the function's arguments, or
    x and y as for `fit`, for one card: arrays, tensors, `tf.TensorSpec`s, shapes (of fp32), or one `tf.data.Dataset`,
    whose first element is read where it does not know its sizes. Numbers, texts and None are constants of a function.
    All sizes must be known, the batch too.

    chip: "gaudi", "gaudi2" or "gaudi3", by default what HABANA_SIM_CHIP says. cards: 1, or several.
    precision: "bf16", with products and the ops next to them in bf16 (or the ops that TF_BF16_CONVERSION names, where
    it is set), or "fp32". A model with a policy of mixed precision is what its policy says in both.
    optimizer: Keras' name of one, or an object, instead of the compiled one; "momentum" is SGD with it. A model that is
    not compiled, or gets no y, trains on a loss of ours: cross entropy where an output's last axis has several
    entries, else the mean of squares; without an optimizer by momentum. What an optimizer computes stays in fp32.
    box: the machine that the cards are in, by name (`habana_tf.hardware.boxes`): HLS-1, HLS-1H or DL1 for Gaudi,
    HLS-Gaudi2, HLB-325 for Gaudi3. release: of Habana's software, "1.0" to "1.14" and later; early ones had slower
    kernels. accumulate: micro-batches of a step, each of the inputs' batch, whose gradients are summed first.
    host: what the hosts' input pipeline and Python take (`habana_tf.Host`); without it no step waits for them, and the
    prediction says how many examples per second it must be given. dataset: batches as `fit` takes them, whose speed is
    measured on this machine, for three seconds, and taken for that of a whole host, or for that of one process if
    host has `loaders`.
    resident: arguments that are on the card already; all others cross PCIe in each step. A name ("params", or
    "batch/ids" in a nest), a number, several of these, or True for all; `pcie` of the result has the names.

    Loads HPU (`load_habana_module`) if that was not done: TensorFlow says then what runs on it. The model's weights
    may be anywhere, and are not touched.

    A size that depends on values (how many ids differ) counts as the most that it can be, and `assumed` of the result
    says so. Where an input's value is such a size (a length), give it as an array: its values count.

    Raises PredictionError for inputs that leave a size open, and ValueError for an unknown chip, precision, argument or
    number of cards.
    """
    known = chip_named(chip)
    if world is not None:
        if inputs or cards != 1:
            raise ValueError("predict(program, world=...): the program takes nothing, and world says how many cards")
        ranks = [rank] if isinstance(rank, int) else rank
        return predict_ranks(fn_or_model, world, ranks, known.name, box, release)
    if cards < 1:
        raise ValueError(f"cards={cards} is not allowed: use at least one card")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(fn_or_model, torch.nn.Module):
        from habana_tf.torch.dry_run import module

        if dataset is not None:
            raise ValueError("dataset= is of tf.data: of a module's, give host=habana_tf.Host(input_rate=...)")
        if not inputs:
            raise ValueError("predict(module, x): give the inputs, as tensors (of any device) or shapes")
        batch, found = module.foreseen(module.Asked(fn_or_model, inputs, loss, optimizer), precision)
        why, fed = module.precision_why(precision), host or UNKNOWN
        return costed(found, batch, known.name, cards, precision, why, fed, box, release, accumulate, resident)
    if loss is not None:
        raise ValueError("loss= is of a torch.nn.Module: a Keras model has the one that it is compiled with")
    specs = as_specs(inputs)
    batch, found = foreseen(fn_or_model, specs, precision, optimizer, examples_of(inputs))
    why, fed = precision_why(fn_or_model, precision), fed_by(host, dataset, specs)
    return costed(found, batch, known.name, cards, precision, why, fed, box, release, accumulate, resident)


def precision_why(fn_or_model: Any, precision: str) -> str:
    """Why a prediction is in a precision, beside what the program itself computes in."""
    policy = getattr(getattr(fn_or_model, "dtype_policy", None), "name", "float32")
    setting = settings.TF_BF16_CONVERSION.get()
    if policy.startswith("mixed_"):
        return f"the model's policy {policy} decides, whatever precision is asked for"
    if precision == "fp32":
        return "asked for" + ("" if setting == "off" else f"; a run converts to bf16 (TF_BF16_CONVERSION={setting})")
    if setting != "off":
        return f"the ops that TF_BF16_CONVERSION={setting} names"
    return "products and the ops next to them, as on a Gaudi; the program itself computes in fp32 (precision='fp32')"


def foreseen(
    fn_or_model: Any, specs: tuple[Any, ...], precision: str, optimizer: Any, examples: Sequence[Any | None] = (),
) -> tuple[int, Foreseen]:  # fmt: skip
    """What a step would launch, and its batch: all that does not depend on the chip or the cards."""
    import tensorflow as tf

    from habana_tf import loader
    from habana_tf.tensorflow.dry_run.foreseen import foresee

    if not tf.executing_eagerly():
        raise PredictionError("predict() traces functions by itself: call it outside tf.function and graph mode")
    if not specs:
        raise PredictionError("predict(model, x, y): give the inputs, as arrays, tf.TensorSpecs or shapes")
    loader.load_habana_module()
    name = _name(optimizer if optimizer is not None else getattr(fn_or_model, "optimizer", None))
    with _precision(precision, name), held:  # tracing makes objects by the hundred thousand, hardly any of them garbage
        batch, specs = batch_of(specs), unpacked(specs)
        found = foresee(traced(fn_or_model, specs, optimizer), examples)
    names = argument_names(fn_or_model, specs)
    shown = dict(zip(found.arguments, names, strict=False))
    found.arguments, found.fed = names, {shown.get(name, name): n for name, n in found.fed.items()}
    return batch, found


def costed(
    found: Foreseen, batch: int, chip: str, cards: int, precision: str, why: str = "", host: Host = UNKNOWN,
    box: str | None = None, release: str = LATEST, accumulate: int = 1, resident: Any = None,
) -> Prediction:  # fmt: skip
    """The prediction for the launches and host ops of a step; arguments as for `predict`.

    Raises ValueError for a box of another chip, a release that is none, or no micro-batch."""
    if accumulate < 1:
        raise ValueError(f"accumulate={accumulate} is not allowed: a step has at least one micro-batch")
    known, parameters = chip_named(chip), FITTED.at(check_release(release))
    transfers, stays = moved(found, resident), resident_names(resident, found.arguments)
    copied = sum(t.nbytes for t in transfers)
    step = step_time(known, found.launches, cards, copied, box_named(known, box), parameters, accumulate)
    return Prediction(
        batch, precision, step, tuple(found.launches), tuple(found.host), why, host, release, accumulate, transfers,
        tuple(name for name in found.arguments if name in stays), _assumed(found),
    )  # fmt: skip


def moved(found: Foreseen, resident: Any) -> tuple[Transfer, ...]:
    """What crosses PCIe in a step, with these arguments on the card already."""
    stays = resident_names(resident, found.arguments)
    fed = [Transfer(name, "card", n) for name, n in found.fed.items() if name not in stays]
    return (*fed, *found.transfers)


def _assumed(found: Foreseen) -> tuple[str, ...]:
    bounds = [
        f"random numbers of {b.name!r} fix a size: {list(b.shape)}, one draw"
        if b.drawn
        else f"the size of {b.op} {b.name!r} depends on values: {list(b.shape)}, the most it can be"
        for b in dict.fromkeys(found.bounds)
    ]
    return (*bounds, *(f"the loop of {name!r} is run by the host: one iteration is counted" for name in found.loops))


def _precision(precision: str, optimizer: str) -> AbstractContextManager[None]:
    if precision == "fp32":
        return bf16_config.using(None)
    if precision != "bf16":
        raise ValueError(f"precision={precision!r}: it is 'bf16' or 'fp32'")
    if settings.TF_BF16_CONVERSION.get() != "off":
        return nullcontext()
    full = bf16_config.built_in("full")
    keep = bf16_config.Rule(re.compile(rf"(.*/)?{re.escape(optimizer)}/(?!gradients/).*"), "")
    return bf16_config.using(replace(full, source="predict", allow=full.allow | PRODUCTS, keep=(*full.keep, keep)))


def _name(optimizer: Any) -> str:
    """The scope that the ops of a Keras optimizer are in; of something else a name that no op has."""
    return getattr(optimizer, "_name", None) or getattr(optimizer, "name", None) or "no optimizer"
