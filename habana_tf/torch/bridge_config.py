"""Settings of Habana's bridge for PyTorch by functions: `get_pt_hpu_lazy_mode()`, `set_pt_compile_only_mode(True)`.

Each is an environment variable with a type and a default, of which the functions' names are made. What is set holds for
this process and those that it starts. `settings.habana` says of each variable that has no effect here why.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from habana_tf.settings import TF_ENABLE_DYNAMIC_SHAPES
from habana_tf.torch.record import current

__all__ = ["env_setting", "get", "set_"]

_ON = frozenset(
    "PT_ENABLE_COMM_GROUP_CACHE PT_ENABLE_HABANA_CACHING PT_ENABLE_HABANA_STREAMASYNC PT_ENABLE_HCL_STREAM "
    "PT_ENABLE_HOST_MEMORY_CACHE PT_ENABLE_MEMORY_DEFRAGMENTATION PT_ENABLE_WORKSPACE_MEMORY_SHRINK "
    "PT_HPU_CLEAR_PERM_INFO PT_HPU_DEV_ENABLE_ARANGE_HOST_TENSOR PT_HPU_DEV_ENABLE_TOPK_USING_CGUID "
    "PT_HPU_DISABLE_HPUGRAPH_REPLAY_HASHCHECK PT_HPU_EAGER_4_STAGE_PIPELINE_ENABLE "
    "PT_HPU_EAGER_COLLECTIVE_PIPELINE_ENABLE PT_HPU_EAGER_ENABLE_GRADIENT_VIEW_LAYOUT_OPT "
    "PT_HPU_EAGER_INDEX_PUT_BOOL_OPTIMIZED PT_HPU_EAGER_PIPELINE_ENABLE PT_HPU_EAGER_SHAPE_AGNOSTIC_GRAPH "
    "PT_HPU_EAGER_VIEW_HANDLING PT_HPU_ENABLE_BROADCAST_BUCKET_HANDLING PT_HPU_ENABLE_D2H_ASYNC_THREAD "
    "PT_HPU_ENABLE_DEBUG_NAMES PT_HPU_ENABLE_DYNAMIC_OUTPUT_PREALLOCATE PT_HPU_ENABLE_DYNAMIC_PASS_FALLBACK "
    "PT_HPU_ENABLE_EAGER_COMPILER PT_HPU_ENABLE_EAGER_JIT_CACHE PT_HPU_ENABLE_EXECUTION_THREAD "
    "PT_HPU_ENABLE_FAST_SHAPE_INFERENCE PT_HPU_ENABLE_GENERIC_STREAM PT_HPU_ENABLE_H2D_COPY_ASYNC_THREAD "
    "PT_HPU_ENABLE_H2D_DYNAMIC_AS_STRIDED PT_HPU_ENABLE_H2D_DYNAMIC_SLICE PT_HPU_ENABLE_HPUGRAPH_THREAD "
    "PT_HPU_ENABLE_LAZY_EAGER_EXECUTION_THREAD PT_HPU_ENABLE_NMS_USING_BNMS_CGUID "
    "PT_HPU_ENABLE_PERMUTE_WITH_STRIDED_VIEW PT_HPU_ENABLE_SLICE_INSERT PT_HPU_ENABLE_STAGE_SUBMISSION "
    "PT_HPU_ENABLE_SYNAPSE_OUTPUT_PERMUTE PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK PT_HPU_ENABLE_WEIGHT_CPU_PERMUTE "
    "PT_HPU_ERROR_HANDLER PT_HPU_FORCE_TANH_FOR_GELU PT_HPU_INFERENCE_STORAGE_OVERRIDE PT_HPU_LAZY_EAGER_OPTIM_CACHE "
    "PT_HPU_OPTIM_DYNAMIC_OUTPUT_SIF PT_HPU_PGM_ENABLE_CACHE PT_HPU_POOL_MEM_ENABLE_TENSOR_INFO "
    "PT_HPU_QUEUE_SYNLAUNCHES PT_HPU_RUN_HYBRID_SIF PT_HPU_SCALAR_H2D_COPY_MULTIPLE PT_HPU_USE_BN_FWD_IN_GN_BWD "
    "PT_HPU_USE_SYN_TENSOR_IDS PT_HPU_USE_UNSORTED_SCATTER_ADD PT_HPU_WRAP_RANDOM_OPS_COMPILE "
    "PT_TOWL_LOG_SEPARATED_FILE PT_USE_MARKSTEP PT_WAIT_FOR_ALL_FUTURES_IN_CLEANUP".split()
)
"""Switches that are on where nobody sets them. Those that are off need no list: so is any other."""

_OTHERS: dict[str, int | str] = {
    "PT_CACHE_FOLDER_SIZE_MB": 1024, "PT_COMPILATION_STATS_PATH": "", "PT_FORCED_TRACING_MASK": 0,
    "PT_HABANA_DMA_COPY_RETRY_DELAY": 10, "PT_HABANA_MAX_DMA_COPY_RETRY_COUNT": 1000,
    "PT_HABANA_MAX_RECIPE_HIT_COUNT": 0, "PT_HABANA_MEM_LOG_FILENAME": "habana_log.livealloc.log",
    "PT_HABANA_MEM_LOG_LEVEL": 0, "PT_HABANA_POOL_SIZE": 24, "PT_HCCL_MEMORY_ALLOWANCE_MB": 0,
    "PT_HPU_ACC_THREAD_VERSION": 0, "PT_HPU_CHECK_NUM_CONSTS": 0, "PT_HPU_DS_TIME_IMPROVE_THRESHOLD_PERCENT": 10,
    "PT_HPU_DYNAMIC_MAX_POLICY_ORDER": "2,4,5,3,1", "PT_HPU_DYNAMIC_MIN_POLICY_ORDER": "4,5,3,1",
    "PT_HPU_EAGER_TENSOR_POOL_SIZE": 1000, "PT_HPU_EVENT_TABLE_SIZE": 10_000_000, "PT_HPU_GRAPH_DUMP": 0,
    "PT_HPU_GRAPH_DUMP_FORMAT": "pbtxt", "PT_HPU_GRAPH_DUMP_MODE": "", "PT_HPU_GRAPH_DUMP_PREFIX": ".graph_dumps",
    "PT_HPU_H2D_COPY_MIN_TENSOR_SIZE": 1048576, "PT_HPU_HOST_MEMORY_THRESHOLD_PERCENT": 0,
    "PT_HPU_INITIAL_WORKSPACE_SIZE": 0, "PT_HPU_LAZY_ACC_PAR_MODE": 1, "PT_HPU_LAZY_ACC_VIEW_OPS_MODE": 0,
    "PT_HPU_LOP_JIT_WARM_UP_STEPS": 5, "PT_HPU_MAX_ACCUM_SIZE": 2**64 - 1,
    "PT_HPU_MAX_COMPOUND_OP_SIZE": 2**63 - 1, "PT_HPU_MAX_COMPOUND_OP_SIZE_SS": 10, "PT_HPU_MAX_PERMUTE_THRESHOLD": 5,
    "PT_HPU_MAX_RECIPE_SUBMISSION_LIMIT": 0, "PT_HPU_PLACE_ON_CPU": "", "PT_HPU_POOL_MEM_ACQUIRE_PERC": 100,
    "PT_HPU_POOL_STRATEGY": 4, "PT_HPU_PRINT_STATS_DUMP_FREQ": 0, "PT_HPU_RECIPE_CACHE_CONFIG": "",
    "PT_HPU_SCALAR_MAP_MAXSIZE": 500, "PT_HPU_STAGE_SUBMISSION_MODE": 2, "PT_HPU_STOCHASTIC_ROUNDING_MODE": 1,
    "PT_HPU_THREAD_POOL_QUEUE_CAPACITY": 200_000, "PT_LOG_FILE_AMOUNT": 5, "PT_RECIPE_CACHE_PATH": "",
    "PT_RECIPE_TRACE_PATH": "", "PT_SBS": 0, "PT_TOWL_LOG_CONFIG": "rank=0", "PT_TOWL_LOG_FILE_AMOUNT": 100,
}  # fmt: skip
"""Numbers and texts with their defaults. Source: gaudi-pytorch-bridge's scripts/env_flags.yaml."""

_TRUE = ("1", "on", "true", "yes", "y", "t")


def get(name: str) -> bool | int | str:
    """The value of a variable now. Raises ValueError for a number that is none."""
    if name == "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES":
        return TF_ENABLE_DYNAMIC_SHAPES.get()
    if name == "PT_HPU_LAZY_MODE":
        return int(current.recorder().lazy)
    text = os.environ.get(name, "").strip()
    default = _OTHERS.get(name, name in _ON)
    if not text:
        return default
    if isinstance(default, bool):
        return text.lower() in _TRUE
    return int(text, 0) if isinstance(default, int) else text


def set_(name: str, value: bool | int | str) -> None:
    """Gives a variable a value in this process."""
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if name == "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES":
        TF_ENABLE_DYNAMIC_SHAPES.set(text)
    os.environ[name] = text


@contextmanager
def env_setting(name: str, value: bool | int | str) -> Iterator[None]:
    """Gives a variable a value within. Raises ValueError for a name that is not one of Habana's bridge."""
    if not name.startswith("PT_"):
        raise ValueError(f"{name} is no setting of Habana's bridge for PyTorch: their names begin with PT_")
    changed = (name, TF_ENABLE_DYNAMIC_SHAPES.name)
    before = {each: os.environ.get(each) for each in changed}
    set_(name, value)
    try:
        yield
    finally:
        for each, text in before.items():
            if text is None:
                os.environ.pop(each, None)
            else:
                os.environ[each] = text


def __getattr__(name: str) -> Callable[..., Any]:
    """`get_` and `set_` of a variable. Raises AttributeError for another name."""
    verb, _, rest = name.partition("_")
    if verb in ("get", "set") and rest.startswith("pt_"):
        return functools.partial(get if verb == "get" else set_, rest.upper())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
