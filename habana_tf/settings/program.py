"""Settings of a program's execution: placement, precision, compiler, cache, reports."""

from __future__ import annotations

from habana_tf.settings import environment as kind
from habana_tf.settings.environment import Setting

# --- placement and clustering ---

TF_PLACE_ON_CPU: Setting[tuple[str, ...]] = Setting(
    (), *kind.NAMES, meaning="Op types kept on the CPU; all_nodes keeps everything there."
)
TF_CPU_RUNTIME_FALLBACK: Setting[str] = Setting(
    "allow",
    *kind.choice("allow", "forbid"),
    meaning="What happens to a cluster that cannot be compiled: interpreted with one warning, or an error.",
)
TF_MAX_CONST_SIZE_IN_CLUSTER: Setting[int] = Setting(
    1 << 16,
    *kind.integer(0),
    meaning="Bytes up to which a constant is part of a cluster and its recipe; a larger one is an argument.",
)
HABANA_SIM_CLUSTER_FUEL: Setting[int] = Setting(
    -1, *kind.integer(-1), meaning="Number of clusters to make, to bisect a wrong result; -1 is no limit."
)
HABANA_SIM_CHANGES: Setting[str | None] = Setting(
    None,
    *kind.TEXT,
    meaning="Changes to TensorFlow and Keras that are made, to bisect a problem: on, off, names separated by commas, "
    "or -names for all but these (habana-tf info --changes lists them).",
)
HABANA_SIM_HOROVOD: Setting[bool] = Setting(
    True,
    *kind.SWITCH,
    meaning="Whether `import horovod.tensorflow` loads HPU in a program that sets a variable of Habana's or imports "
    "a module of this package.",
)

# --- precision ---

TF_BF16_CONVERSION: Setting[str] = Setting(
    "off",
    kind.bf16,
    "0, false, 1, true, full, basic or the path of a JSON configuration",
    meaning="Which ops of fp32 graphs run in bf16: none, the full or the basic list, or a configuration of your own.",
    aliases=("TF_ENABLE_BF16_CONVERSION",),
)
TF_BF16_DUMP_PATH: Setting[str | None] = Setting(
    None, *kind.FILE, meaning="File that gets the active bf16 configuration as JSON; unset writes none."
)
HABANA_SIM_BF16_VERBOSE: Setting[bool] = Setting(
    False, *kind.SWITCH, meaning="Log for each op of a converted graph why it is bf16 or fp32."
)

# --- the graph compiler ---

HABANA_SIM_ISA: Setting[str] = Setting(
    "auto",
    *kind.choice("auto", "portable", "avx2", "avx512", "amx"),
    meaning="Instructions that compiled kernels may use; auto is the best this host CPU has.",
)
HABANA_SIM_BF16_PRODUCTS: Setting[str] = Setting(
    "auto",
    *kind.choice("auto", "dot", "widen"),
    meaning="Products of bf16: dot uses the host CPU's instruction for pairs, widen computes in fp32; auto is the "
    "faster one, measured once per host.",
)
HABANA_SIM_COMPILE_PROCESSES: Setting[int] = Setting(
    0,
    *kind.integer(0),
    meaning="Processes that compile a large recipe, this one included; 0 takes one per core this process may use.",
)
TF_ENABLE_DYNAMIC_SHAPES: Setting[bool] = Setting(
    True,
    *kind.SWITCH,
    meaning="Once a size of a cluster's inputs is seen to change, compile one recipe for a range of sizes.",
)
HABANA_SIM_THREADS: Setting[int] = Setting(
    0, *kind.integer(0), meaning="Threads that run a launch; 0 takes one per core this process may use."
)
HABANA_SIM_COMPILE: Setting[str] = Setting(
    "on",
    *kind.choice("on", "forbid"),
    meaning="forbid makes compiling a recipe an error: it shows that a warm cache compiles nothing.",
)
HABANA_SIM_UPDATE_IN_PLACE: Setting[bool] = Setting(
    True,
    *kind.SWITCH,
    meaning="0 gives a variable new memory with every update, to measure what updates in place save.",
)
HABANA_SIM_CHECK_INDICES: Setting[str] = Setting(
    "warn",
    *kind.choice("warn", "error", "off"),
    meaning="What a launch does about an index or a label out of range: one warning, TensorFlow's error, or nothing.",
)
HABANA_SIM_CHECK_KERNELS: Setting[bool] = Setting(
    False,
    *kind.SWITCH,
    meaning="1 runs kernels in C on copies that end at protected memory: an access beyond a tensor is an error that "
    "names the kernel. Slow; read when a launch is first resolved for its shapes.",
)
HABANA_SIM_PACKAGED_RECIPES: Setting[bool] = Setting(
    True,
    *kind.SWITCH,
    meaning="0 also compiles the eager ops whose recipes come with the package, to time and test compiling.",
)
TF_RECIPE_CACHE_PATH: Setting[str | None] = Setting(
    None,
    *kind.PATH,
    meaning="Directory where compiled recipes are kept for later processes; unset keeps them in memory only.",
)
TF_RECIPE_CACHE_SIZE_MB: Setting[int] = Setting(
    1024,
    *kind.integer(1),
    meaning="Size of the recipe cache in 2**20 bytes; beyond it the least recently used recipes are removed.",
)
HABANA_SIM_CACHE_MODE: Setting[str] = Setting(
    "rw",
    *kind.choice("rw", "ro", "refresh", "off"),
    meaning="Recipe cache on disk: rw, ro (never written), refresh (every recipe is compiled again) or off.",
)
HABANA_SIM_CACHE_OWNER: Setting[int | None] = Setting(
    None,
    *kind.USER,
    meaning="Uid of one more user, beside this one and root, whose recipes are trusted: the owner of a volume.",
)
HABANA_SIM_CACHE_SIGNING_KEY: Setting[str | None] = Setting(
    None,
    *kind.FILE,
    meaning="File with a key of at least 16 bytes: recipes are signed with it, and others are not trusted.",
)

# --- what it says about its work ---

HABANA_SYNAPSE_LOGGER: Setting[str] = Setting(
    "off",
    *kind.LOGGER,
    meaning="What synapse_logger_helpers records in a timeline: all of the process, or the range of steps of its hook.",
)

HABANA_PROFILE: Setting[str] = Setting(
    "off",
    *kind.PROFILE,
    meaning="on, or the name of a template of Habana's other than profile_api_light: this process writes its "
    "timeline to default_profiling_<pid>.json when it ends.",
)
HABANA_SIM_TRACE_PARTS: Setting[str | None] = Setting(
    None,
    *kind.PATH,
    meaning="Folder where habana-tf trace has each process leave its timeline; set by the command, not by you.",
)
HABANA_SIM_TRACE_CPU: Setting[bool] = Setting(
    False,
    *kind.SWITCH,
    meaning="Whether timelines include the ops that TensorFlow runs on the CPU; set by habana-tf trace --cpu-ops.",
)

HABANA_SIM_LOG: Setting[str] = Setting(
    "info", *kind.choice("debug", "info", "warning", "error", "off"), meaning="Least severe message that is logged."
)
HBN_TF_GRAPH_DUMP: Setting[int] = Setting(
    1, *kind.integer(0), meaning="Graph dumps: 0 none, 1 the final graph, 2 the graph after every phase."
)
TF_DUMP_GRAPH_PREFIX: Setting[str | None] = Setting(
    None, *kind.PATH, meaning="Directory for graph dumps; unset writes none."
)

kind.name(globals())
