"""Environment variables of Habana's software that have no effect here, and why.

What: scripts written for Gaudi set them, so each is known by name with a reason, `load_habana_module()` says once in
one line which of them are set in vain, and `habana-tf settings` lists them apart. A `HABANA_SIM_*` variable is ours
alone, so one that does not exist is a mistake, and `check()` makes it an error.

Invariant: importing this imports nothing but settings, because it is asked while Horovod is being imported.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable

from habana_tf import settings
from habana_tf.settings import bridge

__all__ = [
    "announce", "asks_for_hpu", "check", "misspelled", "read_by_others", "reason", "set_in_vain", "without_effect",
]  # fmt: skip

_log = logging.getLogger(__name__)

_PROFILER = "the timeline is always whole: HABANA_PROFILE=1, habana-tf trace or TensorFlow's profiler make one"
_LOGS = "SynapseAI's logs; HABANA_SIM_LOG sets what habana_tf says"
_NETWORK = "the network between cards is not simulated: gradients go through Horovod or TensorFlow's collectives"
_DUMPS = "graphs are written where TF_DUMP_GRAPH_PREFIX says; habana-tf recipes report draws recipes"
_ALWAYS = "is always so here"
_QUEUES = "queues and passes of Habana's bridge for PyTorch; there are none like them here"
_MIGRATION = 'torch.cuda does not mean HPU here: write "hpu" for "cuda"'
_ONE_WAY = "chooses between ways in which Habana's bridge works; there is one way here"
_CARD = "memory and streams of a real card; TensorFlow's allocator serves the simulated one"
_TOPOLOGY = "the machine is described by HABANA_SIM_CHIP and HABANA_SIM_CARDS, and the launcher's ranks"

_WITHOUT_EFFECT = (
    (_PROFILER, "HABANA_PROFILE_CONFIG_PATH HABANA_PROFILE_RANGE HABANA_PROF_CONFIG "
                "TF_HW_PROFILE_RANGE TF_PROFILE_STEPS"),
    (_LOGS, "ENABLE_CONSOLE HABANA_LOGS LOG_LEVEL_ALL LOG_LEVEL_ALL_HCL LOG_LEVEL_GC LOG_LEVEL_SYN_API"),
    (_NETWORK, "HABANA_NCCL_COMM_API HABANA_USE_PREALLOC_BUFFER_FOR_ALLREDUCE HABANA_USE_STREAMS_FOR_HCL HCCL_COMM_ID "
               "HCCL_GAUDI_DIRECT HCCL_OVER_OFI HCCL_OVER_TCP HCCL_SOCKET_IFNAME HCL_CPU_AFFINITY HCL_SLICE_SIZE "
               "TF_DISABLE_SCOPED_ALLOCATOR TF_HABANA_COLLECTIVE_REDUCE_SYNC TF_HCCL_MEMORY_ALLOWANCE_MB "
               "TF_NO_EMULATE_SIGNALING_FROM_ENCAP_OP TF_USE_SIGNALING_FROM_ENCAP_OP"),
    (_DUMPS, "ENABLE_GVD GRAPH_VISUALIZATION HABANA_SEGMENT_DUMP_PREFIX HBN_TF_GRAPH_PREFIX TF_RANK_PREFIX"),
    (f"a variable and its updates are part of a cluster: {_ALWAYS}",
     "TF_CLUSTER_VARIABLES TF_EXPERIMENTAL_BATCH_VARIABLES"),
    (f"control edges are part of a cluster: {_ALWAYS}", "TF_ALLOW_CONTROL_EDGES_IN_HABANA_OPS"),
    (f"variables that TensorFlow holds by reference are on the CPU: {_ALWAYS}",
     "TF_HABANA_ALLOW_LEGACY_VARIABLES_ON_CPU"),
    (f"elementwise ops are fused: {_ALWAYS}", "RUN_TPC_FUSER"),
    (f"pictures are read by the fallback: {_ALWAYS}", "FORCE_HABANA_IMAGENET_LOADER_FALLBACK"),
    ("clusters are as large as the graph lets them be", "TF_PRELIMINARY_CLUSTER_SIZE "
                                                        "TF_PRELIMINARY_CLUSTER_SIZE_THRESHOLD"),
    (_ONE_WAY, "ENABLE_RMW_CROP_AND_RESIZE HABANA_DISABLE_QUADTREE TF_DISABLE_EAGER_TO_FUNC_REWRITER "
               "TF_ENABLE_WIDE_AND_DEEP_WA TF_REWRITERS_CONFIG_FILE TF_USE_CLUSTER_OP"),
    (_CARD, "HABANA_INITIAL_WORKSPACE_SIZE_MB TF_SYNC_ON_FINISH"),
    ("TensorFlow keeps input pipelines on the CPU", "HBN_TF_REGISTER_DATASETOPS"),
    ("libraries of TPC kernels are not loaded: `habana-tf build-kernel` makes one of kernels in C, and "
     "habana_tf.load_op_library loads it (docs/custom-ops.md)", "GC_KERNEL_PATH TPC_RUNNER"),
    ("of the container runtime; HABANA_VISIBLE_MODULES chooses cards here", "HABANA_VISIBLE_DEVICES"),
    (_QUEUES, "PT_HPU_DYNAMIC_MAX_POLICY_ORDER PT_HPU_DYNAMIC_MIN_POLICY_ORDER "
              "PT_HPU_EAGER_ENABLE_GRADIENT_VIEW_LAYOUT_OPT PT_HPU_ENABLE_DYNAMIC_PASS_FALLBACK "
              "FUSER_ENABLE_MULTI_THREADED_INVOCATIONS PT_HPU_LAZY_ACC_PAR_MODE PT_HPU_USE_PHILOX_NORMAL"),
    (_MIGRATION, "PT_HPU_CONVERT_FP16_TO_BF16_FOR_MIGRATION PT_HPU_GPU_MIGRATION"),
    (f"parameters that modules share stay shared when they move: {_ALWAYS}",
     "EXPERIMENTAL_WEIGHT_SHARING PT_HPU_WEIGHT_SHARING"),
    (f"integers of 64 bits are computed in 64 bits: {_ALWAYS}", "PT_ENABLE_INT64_SUPPORT"),
    ("a collective ends the program before it, in every mode", "PT_HPU_ENABLE_LAZY_COLLECTIVES"),
    ("an HPU graph keeps no copies of its arguments", "PT_HPUGRAPH_DISABLE_TENSOR_CACHE"),
    ("weights are inputs of programs, never constants", "ENABLE_CONST_MARKING"),
    ("a program that is compiled runs, too: results are true where a card would leave garbage", "PT_COMPILE_ONLY_MODE"),
    ("switches of Habana's compiler for ops that are being tried out", "ENABLE_EXPERIMENTAL_FLAGS"),
    ("how the transformer engine of Habana divides its work", "PT_TE_CUSTOM_OP PT_TE_LIMIT_GRAPH_SIZE"),
    (_TOPOLOGY, "HCL_CONFIG_PATH HLS1_MODULE_CNT HLS1_MODULE_ID_LIST HLS_TYPE"),
    ("the plugin is found in the package", "BUILD_ROOT_LATEST TF_MODULES_DEBUG_BUILD TF_MODULES_RELEASE_BUILD"),
)  # fmt: skip

_READ_BY_OTHERS = (
    ("Horovod", "HOROVOD_CYCLE_TIME HOROVOD_FUSION_THRESHOLD HOROVOD_HIERARCHICAL_ALLREDUCE HOROVOD_NUM_NCCL_STREAMS "
                "HOROVOD_STALL_CHECK_DISABLE"),
    ("TensorFlow", "TF_CONFIG TF_CPP_MIN_LOG_LEVEL TF_CPP_MIN_VLOG_LEVEL TF_DETERMINISTIC_OPS TF_DISABLE_MKL "
                   "TF_ENABLE_ONEDNN_OPTS TF_NUM_INTEROP_THREADS"),
    ("Habana's shell scripts", "HOST_LIST MPI_ROOT NUM_WORKERS NUM_WORKERS_PER_HLS PYTHON WORK_DIR"),
    ("Megatron's scripts for Gaudi", "HL_CKP_ACT HL_DP HL_HOSTSFILE HL_LLAMA_MODEL_SIZE HL_LLAMA_VER HL_NUM_NODES "
                                     "HL_PP HL_SEQ_LEN HL_SEQ_PARALLEL HL_TOKENIZER_MODEL HL_TOKENIZER_TYPE HL_TP "
                                     "HL_USE_CACHE_FP8_WEIGHT_FWD HL_USE_FAST_SOFTMAX HL_USE_LAZY_MODE "
                                     "HL_USE_TRANSFORMER_ENGINE HL_ZERO_STAGE"),
    ("Neural Compressor and optimum-habana", "QUANT_CONFIG RUNTIME_SCALE_PATCHING"),
    ("text-generation-inference", "BATCH_BUCKET_SIZE ENABLE_HPU_GRAPH FLASH_ATTENTION_RECOMPUTE MAX_TOTAL_TOKENS "
                                  "PAD_SEQUENCE_TO_MULTIPLE_OF PREFILL_BATCH_BUCKET_SIZE USE_FLASH_ATTENTION"),
    ("vLLM", "VLLM_ATTENTION_BACKEND VLLM_COMPACT_GDN VLLM_CONTIGUOUS_PA VLLM_DECODE_BLOCK_BUCKET_MAX "
             "VLLM_DECODE_BLOCK_BUCKET_STEP VLLM_ENABLE_STATIC_MOE VLLM_GRAPH_RESERVED_MEM VLLM_PROFILER_ENABLED "
             "VLLM_PROMPT_SEQ_BUCKET_MAX VLLM_SKIP_WARMUP VLLM_TARGET_DEVICE VLLM_TORCH_PROFILER_DIR "
             "VLLM_T_COMPILE_FULLGRAPH VLLM_USE_V1 VLLM_WORKER_MULTIPROC_METHOD"),
    ("Open MPI", "OMPI_MCA_btl_vader_single_copy_mechanism"),
)  # fmt: skip

_PREFIXES = ("HABANA_", "HBN_", "HCCL_", "HCL_", "HLS1_", "HLS_", "PT_HPU_", "TF_HABANA_")
"""Names that only Habana's software has."""
_OURS = "HABANA_SIM_"
_NO_SIGN = ("TF_DUMP_GRAPH_PREFIX", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")
"""Declared, but stock TensorFlow or the system reads them too."""
_SIGNS = ("HABANA_", "HBN_", "HLS", "MULTI_HLS_IPS", "PT_HPU_", "TF_")

_NEAR = 0.9
"""How alike two names are, by difflib, of which one is a slip of the other: two letters of twenty that changed places
are 0.95, and no two variables of ours and of TensorFlow's come as close."""

_said: set[str] = set()
_compared: dict[str, str | None] = {}


def without_effect() -> dict[str, str]:
    """Habana's variables that are known and have no effect here: {name: why}, sorted by name."""
    return _table(_WITHOUT_EFFECT)


def reason(name: str) -> str:
    """Why a variable of Habana's has no effect here."""
    other = _QUEUES if name in bridge.ON or name in bridge.OTHERS else "unknown to habana_tf"
    return without_effect().get(name, other)


def read_by_others() -> dict[str, str]:
    """Variables that scripts for Gaudi set for other programs, which read them here too: {name: program}, by name."""
    return _table(_READ_BY_OTHERS)


def _table(groups: Iterable[tuple[str, str]]) -> dict[str, str]:
    return dict(sorted((name, what) for what, names in groups for name in names.split()))


def set_in_vain() -> tuple[str, ...]:
    """Variables of Habana's that are set now and have no effect: those of the table, and others by their names."""
    known = without_effect()
    declared = _declared()
    names = (
        name
        for name, value in os.environ.items()
        if value.strip()
        and _meant(name) is None
        and name not in declared
        and (name in known or name in bridge.ON or name in bridge.OTHERS or _is_habanas(name))
    )
    return tuple(sorted(names))


def _is_habanas(name: str) -> bool:
    return name.startswith(_PREFIXES) and not name.startswith(_OURS)


def misspelled() -> dict[str, str]:
    """Variables that are set and read by nothing, with the one that was meant: {TF_RECIPE_CACHE_PAHT:
    TF_RECIPE_CACHE_PATH}. Those named HABANA_SIM_ are an error instead (`check`)."""
    return {name: meant for name, value in sorted(os.environ.items()) if value.strip() and (meant := _meant(name))}


def _meant(name: str) -> str | None:
    """The variable that a name is a slip of. Each is compared once: this is asked for every graph."""
    if not name.startswith(_SIGNS) or name.startswith(_OURS):
        return None
    if name not in _compared:
        import difflib

        candidates = {each for each in _declared() if each.startswith(_SIGNS)} | {"TF_CONFIG"}
        known = name in candidates or name in without_effect() or name in read_by_others()
        near = [] if known else difflib.get_close_matches(name, sorted(candidates), n=1, cutoff=_NEAR)
        _compared[name] = near[0] if near else None
    return _compared[name]


def announce() -> None:
    """Logs which variables are misspelled, one line each, and in one line which are set in vain; each is named once."""
    for name, meant in misspelled().items():
        if name not in _said:
            _said.add(name)
            _log.warning("%s is set, but nothing reads it: did you mean %s?", name, meant)
    new = [name for name in set_in_vain() if name not in _said]
    if not new:
        return
    _said.update(new)
    shown = ", ".join(new[:5]) + (f" and {len(new) - 5} more" if len(new) > 5 else "")
    _log.info("%s: no effect here (`habana-tf settings` tells why)", shown)


def check() -> None:
    """Raises SettingError for a variable HABANA_SIM_* that does not exist."""
    declared = _declared()
    wrong = sorted(name for name in os.environ if name.startswith(_OURS) and name not in declared)
    if not wrong:
        return
    import difflib

    ours = [name.removeprefix(_OURS) for name in sorted(declared) if name.startswith(_OURS)]
    texts = []
    for name in wrong:
        near = difflib.get_close_matches(name.removeprefix(_OURS), ours, n=1)
        texts.append(f"{name} does not exist" + (f": did you mean {_OURS}{near[0]}?" if near else ""))
    raise settings.SettingError("; ".join(texts) + " (`habana-tf settings` lists all; unset what is not among them)")


def asks_for_hpu() -> str | None:
    """A variable in the environment that only a program for Gaudi needs, or None."""
    known = without_effect()
    declared = _declared()
    for name, value in sorted(os.environ.items()):
        if not value.strip() or name in _NO_SIGN:
            continue
        if name in known or name.startswith(_PREFIXES) or (name in declared and name.startswith(_SIGNS)):
            return name
    return None


def _declared() -> frozenset[str]:
    return frozenset(name for setting in settings.declared() for name in (setting.name, *setting.aliases))
