"""Linear layers in 8 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional as F

from habana_tf.torch.hpu_ops.float8 import amax
from habana_tf.torch.record import current
from habana_tf.torch.transformer_engine import fp8, parallel
from habana_tf.torch.transformer_engine.module import Run, Scaled
from habana_tf.torch.transformer_engine.products import Cast, Layer, Products, cast

__all__ = ["GroupedLinear", "Linear"]


class _Matrices(Scaled):
    """Linear layers that share a module: weights [outputs, inputs] and biases under names of the subclasses.

    tp_size ranks of tp_group have a part each, of the outputs with parallel_mode "column", of the inputs with "row";
    with sequence_parallel tensors between layers are split by rows. return_bias: whether the bias is returned beside
    the result, not added. minimize_memory: whether weights are cast again for gradients, not kept in 8 bits.
    """

    def __init__(
        self, count: int, in_features: int, out_features: int, *, sequence_parallel: bool, tp_group: Any, tp_size: int,
        get_rng_state_tracker: Any, rng_tracker_name: str | None, init_method: Any, bias: bool, return_bias: bool,
        params_dtype: torch.dtype | None, parallel_mode: str | None, allocated: bool, device: Any,
        minimize_memory: bool,
    ) -> None:  # fmt: skip
        super().__init__(2 * count, count)
        if parallel_mode not in (None, "row", "column"):
            raise ValueError(f"te.Linear: parallel_mode is row, column or None, not {parallel_mode!r}")
        for features, mode, what in ((out_features, "column", "out_features"), (in_features, "row", "in_features")):
            if parallel_mode == mode and features % tp_size:
                raise ValueError(f"te.Linear: {what} {features} is not a multiple of tp_size {tp_size}")
        self.in_features = in_features // tp_size if parallel_mode == "row" else in_features
        self.out_features = out_features // tp_size if parallel_mode == "column" else out_features
        self.tp = parallel.Split(tp_group, tp_size, parallel_mode, sequence_parallel)
        self.use_bias, self.return_bias, self.minimize_memory = bias, return_bias, minimize_memory
        self._kept: tuple[list[Any], list[Cast]] | None = None
        self._names = [("weight", "bias")] if count == 1 else [(f"weight{k}", f"bias{k}") for k in range(count)]
        kind = params_dtype or torch.get_default_dtype()
        tracker = get_rng_state_tracker() if get_rng_state_tracker is not None else None
        for weight, offset in self._names:
            empty = torch.empty(self.out_features, self.in_features, dtype=kind, device=device) if allocated else None
            zeros = torch.zeros(self.out_features, dtype=kind, device=device) if bias and allocated else None
            if empty is not None:
                with parallel.random_numbers(tracker, rng_tracker_name):
                    _initialize(empty, zeros, init_method)
            self.register_parameter(weight, None if empty is None else torch.nn.Parameter(empty))
            self.register_parameter(offset, None if zeros is None else torch.nn.Parameter(zeros))
            for parameter in (getattr(self, weight), getattr(self, offset)):
                if parameter is not None:
                    self.tp.mark(parameter)

    def set_tensor_parallel_group(self, tp_group: Any) -> None:
        """The ranks that have a part each."""
        self.tp.group = tp_group

    def _computed(
        self, x: torch.Tensor, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor | None],
        splits: Sequence[int] | None, first: bool | None,
    ) -> Any:  # fmt: skip
        """The layers' result; with return_bias, the bias too."""
        x = self.tp.before(x)
        added = [None] * len(weights) if self.return_bias or self.tp.summed else biases
        if fp8.is_fp8_enabled():
            made = self._in_8_bits(x, weights, added, splits, first)
        elif splits is None:
            made = F.linear(x, weights[0], added[0])
        else:
            parts = zip(x.split(list(splits)), weights, added, strict=True)
            made = torch.cat([F.linear(part, w, b) for part, w, b in parts])
        made = self.tp.after(made)
        if self.tp.summed and not self.return_bias and biases[0] is not None:
            made = made + biases[0].to(made.dtype)
        if not self.return_bias:
            return made
        given = [b for b in biases if b is not None]
        return made, (given[0] if splits is None and given else given or made.new_empty(0))

    @current.together()
    def _in_8_bits(
        self, x: torch.Tensor, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor | None],
        splits: Sequence[int] | None, first: bool | None,
    ) -> torch.Tensor:  # fmt: skip
        kind = x.device.type
        if not x.is_floating_point() or x.itemsize == 1:
            raise RuntimeError(f"te.Linear takes floating-point numbers of 16 bits and more, not {x.dtype}")
        if x.device != weights[0].device:
            raise RuntimeError(f"te.Linear: the input is on {x.device}, and the weight on {weights[0].device}")
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).to(dtype)
        run = self.begin(x.device)
        kept = torch.is_grad_enabled() and (x.requires_grad or any(w.requires_grad for w in weights))
        layer = Layer(run, splits, dtype, self.minimize_memory, fp8.get_fp8_group())
        with torch.no_grad():
            inputs = [cast(part, run, 2 * k, kept) for k, part in enumerate(layer.parts(rows))]
            quantized = self._quantized(run, weights, kept, first)
            amaxes = [each.amax for pair in zip(inputs, quantized, strict=True) for each in pair]
            run.measure(run.forward, amaxes, layer.group)
        made: torch.Tensor = Products.apply(layer, rows, inputs, quantized, *weights, *biases)
        return made.reshape(*x.shape[:-1], self.out_features)

    def _quantized(self, run: Run, weights: Sequence[torch.Tensor], kept: bool, first: bool | None) -> list[Cast]:
        """The weights in 8 bits: those of the first micro-batch for those that follow it, first being False, unless
        something has written them since. They are measured with the run that is, which may be one that follows. A graph
        that is captured casts them itself, because its replays could not ask."""
        recorder = current.recorder()
        if recorder.watched is not None or any(w.device.type != "hpu" for w in weights):
            first = None
        of = [] if first is None else [run.kinds, *map(recorder.memory.contents, weights)]
        if first is False and self._kept is not None and self._kept[0] == of:
            made = self._kept[1]
            if run.measured:
                made = [replace(each, amax=amax(w)) for each, w in zip(made, weights, strict=True)]
            return made
        kept = (kept or first is not None) and not self.minimize_memory
        made = [cast(w, run, 2 * k + 1, kept) for k, w in enumerate(weights)]
        if first is not None:
            self._kept = of, made
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Of copies, which cast their weights themselves."""
        return {**self.__dict__, "_kept": None}

    def extra_repr(self) -> str:
        """As of torch.nn.Linear."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.use_bias}"


def _initialize(weight: torch.Tensor, bias: torch.Tensor | None, method: Callable[..., Any] | None) -> None:
    """As torch.nn.Linear has it, or the weight by a function and a bias of 0."""
    if method is not None:
        method(weight)
        return
    torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None and weight.shape[1]:
        torch.nn.init.uniform_(bias, -1 / math.sqrt(weight.shape[1]), 1 / math.sqrt(weight.shape[1]))


class Linear(_Matrices):
    """x @ weight.T + bias: torch.nn.Linear, which computes in 8 bits under `fp8_autocast`."""

    def __init__(
        self, in_features: int, out_features: int, sequence_parallel: bool = False,
        fuse_wgrad_accumulation: bool = False, tp_group: Any = None, tp_size: int = 1,
        get_rng_state_tracker: Callable[[], Any] | None = None, rng_tracker_name: str | None = None,
        init_method: Callable[[torch.Tensor], Any] | None = None, bias: bool = True, return_bias: bool = False,
        params_dtype: torch.dtype | None = None, parallel_mode: str | None = None,
        skip_weight_param_allocation: bool = False, device: Any = "hpu", minimize_memory: bool = False,
        use_fp8_smooth_swiglu: bool = False,
    ) -> None:  # fmt: skip
        """skip_weight_param_allocation: whether there are no parameters: they are given to calls, or set as attributes.
        The rest: see `_Matrices`. Raises NotImplementedError for fuse_wgrad_accumulation and use_fp8_smooth_swiglu, and
        ValueError for parts that do not come out even."""
        if fuse_wgrad_accumulation or use_fp8_smooth_swiglu:
            raise NotImplementedError("te.Linear has no fuse_wgrad_accumulation and use_fp8_smooth_swiglu here")
        super().__init__(
            1, in_features, out_features, sequence_parallel=sequence_parallel, tp_group=tp_group, tp_size=tp_size,
            get_rng_state_tracker=get_rng_state_tracker, rng_tracker_name=rng_tracker_name, init_method=init_method,
            bias=bias, return_bias=return_bias, params_dtype=params_dtype, parallel_mode=parallel_mode,
            allocated=not skip_weight_param_allocation, device=device, minimize_memory=minimize_memory,
        )  # fmt: skip

    def forward(
        self, inp: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None,
        is_first_microbatch: bool | None = None,
    ) -> Any:  # fmt: skip
        """The result; with return_bias, the bias too. weight, bias: in place of the parameters. is_first_microbatch:
        True keeps the weight in 8 bits, False takes the one that was kept, None casts it for this call."""
        weight = self.weight if weight is None else weight
        bias = self.bias if bias is None else bias
        if weight is None:
            raise RuntimeError("te.Linear: with skip_weight_param_allocation a call brings the weight")
        return self._computed(inp, [weight], [bias], None, is_first_microbatch)


class GroupedLinear(_Matrices):
    """num_gemms linear layers, each for its rows of the input."""

    def __init__(
        self, num_gemms: int, in_features: int, out_features: int, sequence_parallel: bool = False,
        fuse_wgrad_accumulation: bool = False, tp_group: Any = None, tp_size: int = 1,
        get_rng_state_tracker: Callable[[], Any] | None = None, rng_tracker_name: str | None = None,
        init_method: Callable[[torch.Tensor], Any] | None = None, bias: bool = True, return_bias: bool = False,
        params_dtype: torch.dtype | None = None, parallel_mode: str | None = None, device: Any = "hpu",
        minimize_memory: bool = False,
    ) -> None:  # fmt: skip
        """See `Linear`. Parameters are weight0, bias0, weight1 and so on. Raises NotImplementedError for
        fuse_wgrad_accumulation and where ranks would have to exchange rows: parallel_mode is None or tp_size 1."""
        if fuse_wgrad_accumulation or parallel_mode is not None and tp_size > 1:
            raise NotImplementedError(
                "te.GroupedLinear has no fuse_wgrad_accumulation here, and exchanges nothing between ranks"
            )
        super().__init__(
            num_gemms, in_features, out_features, sequence_parallel=False, tp_group=tp_group, tp_size=1,
            get_rng_state_tracker=get_rng_state_tracker, rng_tracker_name=rng_tracker_name, init_method=init_method,
            bias=bias, return_bias=return_bias, params_dtype=params_dtype, parallel_mode=None, allocated=True,
            device=device, minimize_memory=minimize_memory,
        )  # fmt: skip
        self.num_gemms = num_gemms
        self._names = [(f"weight{k}", f"bias{k}") for k in range(num_gemms)]

    def forward(self, inp: torch.Tensor, m_splits: Sequence[int], is_first_microbatch: bool | None = None) -> Any:
        """The stacked results; with return_bias, the list of biases too. m_splits: how many rows each layer takes."""
        if len(m_splits) != self.num_gemms:
            raise ValueError(f"te.GroupedLinear: m_splits has {len(m_splits)} numbers for {self.num_gemms} layers")
        weights, biases = ([getattr(self, pair[k]) for pair in self._names] for k in range(2))
        return self._computed(inp, weights, biases, m_splits, is_first_microbatch)
