"""Settings of a program's execution: placement, precision, compiler, cache, reports."""

from __future__ import annotations

from habana_tf.settings import environment as kind
from habana_tf.settings.environment import Setting

# Of each its default and kind, and the meaning behind or below them.
# fmt: off

# --- placement and clustering ---

TF_PLACE_ON_CPU = Setting((), kind.NAMES, "Op types kept on the CPU; all_nodes keeps everything there.")
TF_CPU_RUNTIME_FALLBACK = Setting("allow", kind.choice("allow", "forbid"),
    "What happens to a cluster that cannot be compiled: interpreted with one warning, or an error.")
TF_MAX_CONST_SIZE_IN_CLUSTER = Setting(1 << 16, kind.integer(0),
    "Bytes up to which a constant is part of a cluster and its recipe; a larger one is an argument.")
HABANA_SIM_CLUSTER_FUEL = Setting(-1, kind.integer(-1),
    "Number of clusters to make, to bisect a wrong result; -1 is no limit.")
HABANA_SIM_CHANGES = Setting((), kind.CHANGES,
    "Changes to TensorFlow, Keras, PyTorch and Lightning that are made, to bisect a problem: all, none, those named, "
    "or all but those named with a minus.")
HABANA_SIM_HOROVOD = Setting(True, kind.SWITCH,
    "Whether `import horovod.tensorflow` loads HPU in a program that sets a variable of Habana's or imports a module "
    "of this package.")

# --- PyTorch ---

PT_HPU_LAZY_MODE = Setting(False, kind.SWITCH,
    "Whether ops of PyTorch wait for mark_step() or a read by the host and become one program; without it each op is "
    "a program by itself.")
PT_HPU_AUTOLOAD = Setting(False, kind.SWITCH,
    "Whether `import torch` loads HPU, for scripts that say torch.device(\"hpu\") before they import Habana's modules.")
PT_HPU_PLACE_ON_CPU = Setting((), kind.NAMES,
    "Ops of PyTorch kept on the CPU: overloads as in the table (add.Tensor), or all overloads of a name (add).")
PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST = Setting(None, kind.FILE,
    "File with the ops, one a line, that torch.autocast runs in bf16 instead of the default ones.")
PT_HPU_AUTOCAST_FP32_OPS_LIST = Setting(None, kind.FILE,
    "File with the ops, one a line, that torch.autocast runs in fp32 instead of the default ones.")
PT_HPU_USE_EAGER_FALLBACK = Setting(True, kind.SWITCH,
    "Whether a graph of torch.compile(backend=\"hpu_backend\") may have ops that no program can have; off makes them "
    "an error.")
PT_HPU_KEEP_INPUT_MUTATIONS = Setting(True, kind.SWITCH,
    "Whether programs of torch.compile write into their arguments; off has a copy follow them.")
PT_HPU_MAX_COMPOUND_OP_SIZE = Setting(20_000, kind.integer(1),
    "Ops that lazy mode records at most before they run as one program.")

# --- precision ---

TF_BF16_CONVERSION = Setting("off", kind.BF16,
    "Which ops of fp32 graphs run in bf16: none, the full or the basic list, or a configuration of your own.",
    aliases=("TF_ENABLE_BF16_CONVERSION",))
TF_BF16_DUMP_PATH = Setting(None, kind.FILE, "File that gets the active bf16 configuration as JSON; unset writes none.")

# --- the graph compiler ---

HABANA_SIM_ISA = Setting("auto", kind.choice("auto", "portable", "avx2", "avx512", "amx", "neon"),
    "Instructions that compiled kernels may use; auto is the best this host CPU has.")
TF_ENABLE_DYNAMIC_SHAPES = Setting(True, kind.SWITCH,
    "Once a size of a cluster's inputs is seen to change, compile one recipe for a range of sizes.",
    aliases=("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES",))
HABANA_SIM_THREADS = Setting(0, kind.integer(0),
    "Threads that run a launch; 0 takes one per core this process may use.")
HABANA_SIM_COMPILE = Setting("on", kind.choice("on", "forbid"),
    "forbid makes compiling a recipe an error: it shows that a warm cache compiles nothing.")
HABANA_SIM_CHECK_INDICES = Setting("warn", kind.choice("warn", "error", "off"),
    "What a launch does about an index or a label out of range: one warning, the framework's error, or nothing. "
    "Weights to draw by and targets that PyTorch's CPU refuses are its error in any case; off leaves them out, too.")
HABANA_SIM_CHECK_KERNELS = Setting(False, kind.SWITCH,
    "1 runs kernels in C on copies that end at protected memory: an access beyond a tensor is an error that names the "
    "kernel. Slow; read when a launch is first resolved for its shapes.")
TF_RECIPE_CACHE_PATH = Setting(None, kind.PATH,
    "Directory where compiled recipes are kept for later processes; unset keeps them in memory only.",
    aliases=("PT_HPU_RECIPE_CACHE_CONFIG", "PT_RECIPE_CACHE_PATH"), part=0)
TF_RECIPE_CACHE_SIZE_MB = Setting(1024, kind.integer(1),
    "Size of the recipe cache in 2**20 bytes; beyond it the least recently used recipes are removed.",
    aliases=("PT_HPU_RECIPE_CACHE_CONFIG", "PT_CACHE_FOLDER_SIZE_MB"), part=2)
PT_CACHE_FOLDER_DELETE = Setting(False, kind.SWITCH,
    "Whether a program of PyTorch begins with an empty recipe cache: the process of local rank 0 removes all recipes.",
    aliases=("PT_HPU_RECIPE_CACHE_CONFIG",), part=1)
HABANA_SIM_CACHE_MODE = Setting("rw", kind.choice("rw", "ro", "refresh", "off"),
    "Recipe cache on disk: rw, ro (never written), refresh (every recipe is compiled again) or off.")
HABANA_SIM_CACHE_OWNER = Setting(None, kind.USER,
    "Uid of one more user, beside this one and root, whose recipes are trusted: the owner of a volume.")
HABANA_SIM_CACHE_SIGNING_KEY = Setting(None, kind.FILE,
    "File with a key of at least 16 bytes: recipes are signed with it, and others are not trusted.")

# --- what it says about its work ---

HABANA_SYNAPSE_LOGGER = Setting("off", kind.LOGGER,
    "What synapse_logger_helpers records in a timeline: all of the process, or the range of steps of its hook.")

HABANA_PROFILE = Setting("off", kind.PROFILE,
    "on, or the name of a template of Habana's other than profile_api_light: this process writes its timeline to "
    "default_profiling_<pid>.json when it ends.")
HABANA_SIM_TRACE_PARTS = Setting(None, kind.PATH,
    "Folder where habana-tf trace has each process leave its timeline; set by the command, not by you.")
HABANA_SIM_TRACE_CPU = Setting(False, kind.SWITCH,
    "Whether timelines include the ops that TensorFlow runs on the CPU; set by habana-tf trace --cpu-ops.")

HABANA_SIM_LOG = Setting("info", kind.choice("debug", "info", "warning", "error", "off"),
    "Least severe message that is logged.")
HBN_TF_GRAPH_DUMP = Setting(1, kind.integer(0),
    "Graph dumps: 0 none, 1 the final graph, 2 the graph after every phase.")
TF_DUMP_GRAPH_PREFIX = Setting(None, kind.PATH, "Directory for graph dumps; unset writes none.")
