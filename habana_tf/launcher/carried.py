"""Which environment variables ranks on other hosts get from the launcher's environment: those in a list of names.

The list has this package's settings and Habana's, what TensorFlow, PyTorch, Horovod, MPI and OpenMP read and numbers,
placement or speed depend on, and the paths of programs and libraries. `--export` adds a name.

Why a list: other programs' variables begin with TF_ too, secrets among them (TF_TOKEN_app, TF_VAR_password), and a
value must not leave its host unless it is asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from habana_tf import settings
from habana_tf.settings import habana as habana_variables

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a shell takes for the name of a variable."""

_STAYS = frozenset({
    "HABANA_SIM_STATE_DIR",  # the simulated machine of this host; another host is another machine
    "HABANA_SIM_CHECKPOINT_NOTE",  # of a rank, on its host
    "TF_CONFIG",  # of a job; each rank gets its own
})  # fmt: skip

_TENSORFLOW = """
TF2_BEHAVIOR TF_CPP_MAX_VLOG_LEVEL TF_CPP_MIN_LOG_LEVEL TF_CPP_MIN_VLOG_LEVEL TF_CPP_VMODULE
TF_CPU_ALLOCATOR_USE_BFC TF_CUDNN_DETERMINISTIC TF_DATA_EXPERIMENT_OPT_IN TF_DATA_EXPERIMENT_OPT_OUT
TF_DETERMINISTIC_OPS TF_DISABLE_MKL TF_DISABLE_MLIR_BRIDGE TF_DUMP_GRAPH_GROUPS TF_DUMP_GRAPH_NAME_FILTER
TF_DUMP_GRAPH_PREFIX TF_DUMP_GRAPH_WRAPPED TF_ENABLE_AUTO_MIXED_PRECISION TF_ENABLE_EAGER_CLIENT_STREAMING_ENQUEUE
TF_ENABLE_LAYOUT_OPT TF_ENABLE_MLIR_BRIDGE TF_ENABLE_ONEDNN_OPTS TF_FORCE_GPU_ALLOW_GROWTH TF_FORCE_UNIFIED_MEMORY
TF_FUNCTION_JIT_COMPILE_DEFAULT TF_GPU_ALLOCATOR TF_GPU_THREAD_COUNT TF_GPU_THREAD_MODE
TF_GRPC_DEFAULT_OPTIONS TF_GRPC_REUSE_CHANNEL TF_JIT_PROFILING TF_KERAS TF_LAYOUT_OPTIMIZER
TF_MATMUL_AUTOTUNE_ENABLE TF_NUM_INTEROP_THREADS TF_NUM_INTRAOP_THREADS TF_ONEDNN_ASSUME_FROZEN_WEIGHTS
TF_ONEDNN_USE_SYSTEM_ALLOCATOR TF_PROFILER_DISABLE_CUPTI_CUDA_GRAPH_TRACING TF_SET_ONEDNN_FPMATH_MODE TF_TRACE_FILTERED
TF_USE_LEGACY_KERAS TF_XLA_FLAGS XLA_FLAGS KERAS_BACKEND
"""
_HOROVOD = """
HOROVOD_ADASUM_MPI_CHUNK_SIZE HOROVOD_AUTOTUNE HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES
HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE HOROVOD_AUTOTUNE_LOG HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE
HOROVOD_AUTOTUNE_WARMUP_SAMPLES HOROVOD_BATCH_D2D_MEMCOPIES HOROVOD_CACHE_CAPACITY HOROVOD_CCL_BGT_AFFINITY
HOROVOD_CYCLE_TIME HOROVOD_DISABLE_GROUP_FUSION HOROVOD_DYNAMIC_PROCESS_SETS HOROVOD_ELASTIC_TIMEOUT
HOROVOD_ENABLE_ASYNC_COMPLETION HOROVOD_ENABLE_XLA_OPS HOROVOD_FUSION_THRESHOLD HOROVOD_GLOO_IFACE
HOROVOD_GLOO_TIMEOUT_SECONDS HOROVOD_GRADIENT_CLIPPING HOROVOD_HIERARCHICAL_ALLGATHER HOROVOD_HIERARCHICAL_ALLREDUCE
HOROVOD_LOG_HIDE_TIME HOROVOD_LOG_LEVEL HOROVOD_MPI_THREADS_DISABLE HOROVOD_NUM_NCCL_STREAMS
HOROVOD_STALL_CHECK_DISABLE HOROVOD_STALL_CHECK_TIME_SECONDS HOROVOD_STALL_SHUTDOWN_TIME_SECONDS HOROVOD_START_TIMEOUT
HOROVOD_THREAD_AFFINITY HOROVOD_TIMELINE HOROVOD_TIMELINE_MARK_CYCLES
"""
_TORCH = """
GLOO_SOCKET_IFNAME TORCH_CPP_LOG_LEVEL TORCH_DISTRIBUTED_DEBUG TORCH_LOGS TORCH_SHOW_CPP_STACKTRACES
TORCHDYNAMO_DISABLE TORCHDYNAMO_VERBOSE
"""
_THREADS = """
BLIS_NUM_THREADS GOMP_CPU_AFFINITY GOMP_SPINCOUNT KMP_AFFINITY KMP_BLOCKTIME KMP_HW_SUBSET KMP_SETTINGS
MKL_CBWR MKL_DYNAMIC MKL_NUM_THREADS NUMEXPR_NUM_THREADS OMP_DYNAMIC OMP_MAX_ACTIVE_LEVELS OMP_NESTED OMP_NUM_THREADS
OMP_PLACES OMP_PROC_BIND OMP_SCHEDULE OMP_STACKSIZE OMP_THREAD_LIMIT OMP_WAIT_POLICY OPENBLAS_NUM_THREADS
MALLOC_ARENA_MAX MALLOC_MMAP_THRESHOLD_ MALLOC_TRIM_THRESHOLD_
"""
_NETWORK = "GRPC_POLL_STRATEGY GRPC_TRACE GRPC_VERBOSITY OMPI_MCA_btl_tcp_if_include OMPI_MCA_oob_tcp_if_include"
_PLACES = """
LD_LIBRARY_PATH PATH PYTHONDONTWRITEBYTECODE PYTHONFAULTHANDLER PYTHONHASHSEED PYTHONNOUSERSITE
PYTHONOPTIMIZE PYTHONPATH PYTHONPYCACHEPREFIX PYTHONUNBUFFERED PYTHONUTF8 PYTHONWARNINGS KERAS_HOME XDG_CACHE_HOME
"""
_LISTED = frozenset(" ".join((_TENSORFLOW, _HOROVOD, _TORCH, _THREADS, _NETWORK, _PLACES)).split())
_OURS = ("HABANA_", "TF_", "PT_", "HLS", "HBN_", "HCL_", "HCCL_", "MULTI_HLS_IPS")
"""Beginnings of settings: those with other names say where mpirun or srun has put a process, or are the system's."""
_LOOKS_KNOWN = ("HABANA_", "TF_", "PT_HPU_", "HLS_", "HBN_", "HOROVOD_", "OMP_", "KMP_", "MKL_")
"""Beginnings of names that may matter to TensorFlow: one that is not in the list is named to the user."""


def known() -> frozenset[str]:
    declared = {name for each in settings.declared() for name in (each.name, *each.aliases)}
    ours = {name for name in (*declared, *habana_variables.without_effect()) if name.startswith(_OURS)}
    return (_LISTED | ours) - _STAYS


def carried(export: Sequence[str] = ()) -> dict[str, str]:
    """The variables that are set here and go to other hosts, by name. export: names of more, which are set here."""
    names = known() | set(export)
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


def left_here(export: Sequence[str] = ()) -> list[str]:
    """Names that begin like TensorFlow's or ours and are set here, but not sent: they may be other programs'."""
    names = known() | _STAYS | set(export)
    return sorted(name for name in os.environ if name.startswith(_LOOKS_KNOWN) and name not in names)
