"""Every environment variable of habana_tf, declared once.

What: one module constant per variable, named as the variable itself. `HABANA_SIM_CHIP.get()` reads the
environment at that moment, checks the text and returns a typed value; nothing is read at import and nothing
is remembered.

Why: scripts written for Gaudi set variables before or after `load_habana_module()`, in any order, so a value
must be read where it is used. And a recipe must not be reused under a setting that would have changed it, so
each variable says whether it is part of the recipe key.

Invariants:
- an unset or empty variable means its default; aliases are older names, tried in order after the name itself;
- a value that is not allowed raises `SettingError`, which names the variable and what is allowed;
- `key=True` puts the value into every recipe key; `key=False` is the exclusion list. A variable that only
  decides *which* graph is compiled is excluded, because the cluster itself is in the key. Those that the compiler
  reads all the same are in `resolver.key_text`, with why (today all: a CPU is in the key as the target it comes to).
"""

from __future__ import annotations

from . import environment as kind
from .environment import Setting as Setting
from .environment import SettingError as SettingError
from .environment import shown as shown

# --- the machine that is simulated ---

HABANA_SIM_CHIP: Setting[str] = Setting(
    "HABANA_SIM_CHIP",
    "gaudi2",
    *kind.choice("gaudi", "gaudi2", "gaudi3"),
    meaning="Generation of the simulated cards.",
    key=False,
)
HABANA_SIM_CARDS: Setting[int] = Setting(
    "HABANA_SIM_CARDS",
    8,
    *kind.integer(1, 8),
    meaning="Number of cards in the simulated machine; a Gaudi server has eight.",
    key=False,
)
HABANA_VISIBLE_MODULES: Setting[tuple[int, ...]] = Setting(
    "HABANA_VISIBLE_MODULES",
    (),
    *kind.MODULE_IDS,
    meaning="Module ids of the cards this process may use; unset means all.",
    key=False,
)
HLS_MODULE_ID: Setting[int | None] = Setting(
    "HLS_MODULE_ID",
    None,
    *kind.MODULE_ID,
    meaning="Module id of the card this process uses; unset means by local rank, or the first free visible one.",
    key=False,
    aliases=("HLS1_MODULE_ID",),
)

HABANA_SIM_STATE_DIR: Setting[str | None] = Setting(
    "HABANA_SIM_STATE_DIR",
    None,
    *kind.PATH,
    meaning="Local directory that is the simulated machine: its cards are free or held there; unset means one per user "
    "in XDG_RUNTIME_DIR or the temporary directory.",
    key=False,
)
XDG_RUNTIME_DIR: Setting[str | None] = Setting(
    "XDG_RUNTIME_DIR",
    None,
    *kind.PATH,
    meaning="Where the system keeps this user's run-time files; set by the login, not by you.",
    key=False,
)
XDG_CACHE_HOME: Setting[str | None] = Setting(
    "XDG_CACHE_HOME",
    None,
    *kind.PATH,
    meaning="Where this user's caches are, ~/.cache if unset: habana_tf/ there keeps what was measured of this CPU.",
    key=False,
)

# --- what a launcher says about this process: read, never set ---


def _launched(name: str, meaning: str) -> Setting[int | None]:
    return Setting(name, None, *kind.COUNT, meaning=meaning, key=False)


HABANA_SIM_RANK = _launched("HABANA_SIM_RANK", "habana-tf run: rank of this process.")
HABANA_SIM_SIZE = _launched("HABANA_SIM_SIZE", "habana-tf run: number of processes.")
HABANA_SIM_LOCAL_RANK = _launched("HABANA_SIM_LOCAL_RANK", "habana-tf run: rank of this process on its host.")
HABANA_SIM_LOCAL_SIZE = _launched("HABANA_SIM_LOCAL_SIZE", "habana-tf run: number of processes on this host.")
HABANA_SIM_CHECKPOINT_NOTE: Setting[str | None] = Setting(
    "HABANA_SIM_CHECKPOINT_NOTE",
    None,
    *kind.FILE,
    meaning="habana-tf run: file in which the program may write where its last checkpoint is; when the job fails, its "
    "user is told which line goes on from there.",
    key=False,
)
HOROVOD_RANK = _launched("HOROVOD_RANK", "horovodrun: rank of this process.")
HOROVOD_SIZE = _launched("HOROVOD_SIZE", "horovodrun: number of processes.")
HOROVOD_LOCAL_RANK = _launched("HOROVOD_LOCAL_RANK", "horovodrun: rank of this process on its host.")
HOROVOD_LOCAL_SIZE = _launched("HOROVOD_LOCAL_SIZE", "horovodrun: number of processes on this host.")
HOROVOD_ELASTIC: Setting[bool] = Setting(
    "HOROVOD_ELASTIC",
    False,
    *kind.SWITCH,
    meaning="horovodrun: ranks of this job come and go; one whose card by local rank is held takes another one.",
    key=False,
)
OMPI_COMM_WORLD_RANK = _launched("OMPI_COMM_WORLD_RANK", "mpirun of Open MPI: rank of this process.")
OMPI_COMM_WORLD_SIZE = _launched("OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI: number of processes.")
OMPI_COMM_WORLD_LOCAL_RANK = _launched("OMPI_COMM_WORLD_LOCAL_RANK", "mpirun of Open MPI: rank on this host.")
OMPI_COMM_WORLD_LOCAL_SIZE = _launched("OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun of Open MPI: processes on this host.")
PMI_RANK = _launched("PMI_RANK", "mpirun of MPICH or Intel MPI: rank of this process.")
PMI_SIZE = _launched("PMI_SIZE", "mpirun of MPICH or Intel MPI: number of processes.")
MPI_LOCALRANKID = _launched("MPI_LOCALRANKID", "mpirun of MPICH or Intel MPI: rank on this host.")
MPI_LOCALNRANKS = _launched("MPI_LOCALNRANKS", "mpirun of MPICH or Intel MPI: processes on this host.")
SLURM_STEP_NUM_TASKS = _launched("SLURM_STEP_NUM_TASKS", "srun: number of processes of this job step.")
SLURM_PROCID = _launched("SLURM_PROCID", "srun: rank of this process.")
SLURM_LOCALID = _launched("SLURM_LOCALID", "srun: rank of this process on its host.")
SLURM_NODEID = _launched("SLURM_NODEID", "srun: number of this host in the job step.")
SLURM_STEP_TASKS_PER_NODE: Setting[tuple[int, ...]] = Setting(
    "SLURM_STEP_TASKS_PER_NODE",
    (),
    *kind.PER_NODE,
    meaning="srun: processes on each host of this job step.",
    key=False,
)

SLURM_STEP_NODELIST: Setting[str | None] = Setting(
    "SLURM_STEP_NODELIST",
    None,
    *kind.TEXT,
    meaning="srun: the hosts of this job step.",
    key=False,
)
SLURM_JOB_ID: Setting[str | None] = Setting("SLURM_JOB_ID", None, *kind.TEXT, meaning="srun: the job.", key=False)
SLURM_STEP_ID: Setting[str | None] = Setting(
    "SLURM_STEP_ID", None, *kind.TEXT, meaning="srun: the job step.", key=False
)
PMIX_NAMESPACE: Setting[str | None] = Setting(
    "PMIX_NAMESPACE", None, *kind.TEXT, meaning="mpirun of Open MPI: the name of this job.", key=False
)

# --- several workers ---

MULTI_HLS_IPS: Setting[tuple[str, ...]] = Setting(
    "MULTI_HLS_IPS",
    (),
    *kind.HOSTS,
    meaning="Addresses of the hosts of a job under mpirun, in the order of the ranks; needed for more than one.",
    key=False,
)
HABANA_SIM_PORT_BASE: Setting[int | None] = Setting(
    "HABANA_SIM_PORT_BASE",
    None,
    *kind.PORT,
    meaning="Port of the first worker of HPUStrategy under mpirun or srun without TF_CONFIG, rank r has the r-th after "
    "it; unset means ports by the name of the job.",
    key=False,
)

# --- placement and clustering ---

TF_PLACE_ON_CPU: Setting[tuple[str, ...]] = Setting(
    "TF_PLACE_ON_CPU",
    (),
    *kind.NAMES,
    meaning="Op types kept on the CPU; all_nodes keeps everything there.",
    key=False,
)
TF_CPU_RUNTIME_FALLBACK: Setting[str] = Setting(
    "TF_CPU_RUNTIME_FALLBACK",
    "allow",
    *kind.choice("allow", "forbid"),
    meaning="What happens to a cluster that cannot be compiled: interpreted with one warning, or an error.",
    key=False,
)
TF_MAX_CONST_SIZE_IN_CLUSTER: Setting[int] = Setting(
    "TF_MAX_CONST_SIZE_IN_CLUSTER",
    1 << 16,
    *kind.integer(0),
    meaning="Bytes up to which a constant is part of a cluster and its recipe; a larger one is an argument.",
    key=False,
)
HABANA_SIM_CLUSTER_FUEL: Setting[int] = Setting(
    "HABANA_SIM_CLUSTER_FUEL",
    -1,
    *kind.integer(-1),
    meaning="Number of clusters to make, to bisect a wrong result; -1 is no limit.",
    key=False,
)
HABANA_SIM_CHANGES: Setting[str | None] = Setting(
    "HABANA_SIM_CHANGES",
    None,
    *kind.TEXT,
    meaning="What is changed in TensorFlow and Keras, to find out which change is to blame: on, off, names separated "
    "by commas, or -names for all but these (habana-tf info --changes lists them).",
    key=False,
)
HABANA_SIM_HOROVOD: Setting[bool] = Setting(
    "HABANA_SIM_HOROVOD",
    True,
    *kind.SWITCH,
    meaning="Let `import horovod.tensorflow` load HPU in a program that wants it: one that sets a variable of Habana's "
    "or imports a module of ours.",
    key=False,
)

# --- precision ---

TF_BF16_CONVERSION: Setting[str] = Setting(
    "TF_BF16_CONVERSION",
    "off",
    kind.bf16,
    "0, false, 1, true, full, basic or the path of a JSON configuration",
    meaning="Which ops of fp32 graphs run in bf16: none, the full or the basic list, or a configuration of your own.",
    key=False,
    aliases=("TF_ENABLE_BF16_CONVERSION",),
)
TF_BF16_DUMP_PATH: Setting[str | None] = Setting(
    "TF_BF16_DUMP_PATH",
    None,
    *kind.FILE,
    meaning="File that gets the active bf16 configuration as JSON; unset writes none.",
    key=False,
)
HABANA_SIM_BF16_VERBOSE: Setting[bool] = Setting(
    "HABANA_SIM_BF16_VERBOSE",
    False,
    *kind.SWITCH,
    meaning="Log for every op of a graph that is converted why it is bf16 or fp32.",
    key=False,
)

# --- the graph compiler ---

HABANA_SIM_ISA: Setting[str] = Setting(
    "HABANA_SIM_ISA",
    "auto",
    *kind.choice("auto", "portable", "avx2", "avx512", "amx"),
    meaning="Instructions that compiled kernels may use; auto is the best this host CPU has.",
    key=False,
)
HABANA_SIM_BF16_PRODUCTS: Setting[str] = Setting(
    "HABANA_SIM_BF16_PRODUCTS",
    "auto",
    *kind.choice("auto", "dot", "widen"),
    meaning="Products of bf16: dot multiplies pairs by an instruction of the host CPU, widen makes fp32 of bf16 first; "
    "auto is the faster one, measured once per host.",
    key=False,
)
HABANA_SIM_COMPILE_PROCESSES: Setting[int] = Setting(
    "HABANA_SIM_COMPILE_PROCESSES",
    0,
    *kind.integer(0),
    meaning="Processes that compile a large recipe, this one included; 0 takes one per core this process may use.",
    key=False,
)
TF_ENABLE_DYNAMIC_SHAPES: Setting[bool] = Setting(
    "TF_ENABLE_DYNAMIC_SHAPES",
    True,
    *kind.SWITCH,
    meaning="Once a size of a cluster's inputs is seen to change, compile one recipe for a range of sizes.",
    key=False,
)
HABANA_SIM_THREADS: Setting[int] = Setting(
    "HABANA_SIM_THREADS",
    0,
    *kind.integer(0),
    meaning="Threads that run a launch; 0 takes one per core this process may use.",
    key=False,
)
HABANA_SIM_COMPILE: Setting[str] = Setting(
    "HABANA_SIM_COMPILE",
    "on",
    *kind.choice("on", "forbid"),
    meaning="forbid makes compiling a recipe an error: it shows that a warm cache compiles nothing.",
    key=False,
)
HABANA_SIM_UPDATE_IN_PLACE: Setting[bool] = Setting(
    "HABANA_SIM_UPDATE_IN_PLACE",
    True,
    *kind.SWITCH,
    meaning="0 gives a variable new memory with every update, for measuring what it saves to write over the old value.",
    key=False,
)
HABANA_SIM_CHECK_INDICES: Setting[str] = Setting(
    "HABANA_SIM_CHECK_INDICES",
    "warn",
    *kind.choice("warn", "error", "off"),
    meaning="What a launch does about an index or a label out of range: one warning, TensorFlow's error, or nothing.",
    key=False,
)
HABANA_SIM_CHECK_KERNELS: Setting[bool] = Setting(
    "HABANA_SIM_CHECK_KERNELS",
    False,
    *kind.SWITCH,
    meaning="1 runs kernels in C on copies that end where memory ends: one that reads or writes beyond its tensors is "
    "an error that names it. Slow; read when a launch meets its shapes.",
    key=False,
)
HABANA_SIM_PACKAGED_RECIPES: Setting[bool] = Setting(
    "HABANA_SIM_PACKAGED_RECIPES",
    True,
    *kind.SWITCH,
    meaning="0 compiles the eager ops whose recipes come with the package, too: for timing and tests of compiling.",
    key=False,
)
TF_RECIPE_CACHE_PATH: Setting[str | None] = Setting(
    "TF_RECIPE_CACHE_PATH",
    None,
    *kind.PATH,
    meaning="Directory where compiled recipes are kept for later processes; unset keeps them in memory only.",
    key=False,
)
TF_RECIPE_CACHE_SIZE_MB: Setting[int] = Setting(
    "TF_RECIPE_CACHE_SIZE_MB",
    1024,
    *kind.integer(1),
    meaning="Size of the recipe cache in 2**20 bytes; past it, the recipes not used for longest go.",
    key=False,
)
HABANA_SIM_CACHE_MODE: Setting[str] = Setting(
    "HABANA_SIM_CACHE_MODE",
    "rw",
    *kind.choice("rw", "ro", "refresh", "off"),
    meaning="Recipe cache on disk: rw, ro (nothing in it changes), refresh (recipes are made anew) or off.",
    key=False,
)
HABANA_SIM_CACHE_OWNER: Setting[int | None] = Setting(
    "HABANA_SIM_CACHE_OWNER",
    None,
    *kind.USER,
    meaning="One more user, beside this one and root, whose recipes are believed and run: the owner of a volume.",
    key=False,
)
HABANA_SIM_CACHE_SIGNING_KEY: Setting[str | None] = Setting(
    "HABANA_SIM_CACHE_SIGNING_KEY",
    None,
    *kind.FILE,
    meaning="File with a key of at least 16 bytes: recipes are signed with it and others are not believed.",
    key=False,
)

# --- what it says about its work ---

HABANA_SYNAPSE_LOGGER: Setting[str] = Setting(
    "HABANA_SYNAPSE_LOGGER",
    "off",
    *kind.LOGGER,
    meaning="What synapse_logger_helpers writes a timeline of: all is the whole process, range the steps of its hook.",
    key=False,
)

HABANA_PROFILE: Setting[str] = Setting(
    "HABANA_PROFILE",
    "off",
    *kind.PROFILE,
    meaning="on, or the name of a template of Habana's but profile_api_light: this process writes its timeline to "
    "default_profiling_<pid>.json when it ends.",
    key=False,
)
HABANA_SIM_TRACE_PARTS: Setting[str | None] = Setting(
    "HABANA_SIM_TRACE_PARTS",
    None,
    *kind.PATH,
    meaning="Folder where habana-tf trace has each process leave its timeline; set by the command, not by you.",
    key=False,
)
HABANA_SIM_TRACE_CPU: Setting[bool] = Setting(
    "HABANA_SIM_TRACE_CPU",
    False,
    *kind.SWITCH,
    meaning="Timelines have what TensorFlow runs on the CPU too; set by habana-tf trace --cpu-ops.",
    key=False,
)

HABANA_SIM_LOG: Setting[str] = Setting(
    "HABANA_SIM_LOG",
    "info",
    *kind.choice("debug", "info", "warning", "error", "off"),
    meaning="Least severe message that is logged.",
    key=False,
)
HBN_TF_GRAPH_DUMP: Setting[int] = Setting(
    "HBN_TF_GRAPH_DUMP",
    1,
    *kind.integer(0),
    meaning="Graph dumps: 0 none, 1 the final graph, 2 the graph after every phase.",
    key=False,
)
TF_DUMP_GRAPH_PREFIX: Setting[str | None] = Setting(
    "TF_DUMP_GRAPH_PREFIX",
    None,
    *kind.PATH,
    meaning="Directory for graph dumps; unset writes none.",
    key=False,
)


def declared() -> tuple[Setting[object], ...]:
    """All settings, in the order of this file."""
    return tuple(value for value in globals().values() if isinstance(value, Setting))


def key_parts() -> tuple[tuple[str, str], ...]:
    """(name, value) of every setting in the recipe key, in the order of this file."""
    return tuple((setting.name, shown(setting.get())) for setting in declared() if setting.key)


def excluded() -> tuple[str, ...]:
    """Names of the settings that are not in the recipe key."""
    return tuple(setting.name for setting in declared() if not setting.key)


__all__ = [
    "Setting",
    "SettingError",
    "declared",
    "excluded",
    "key_parts",
    "shown",
    *(setting.name for setting in declared()),
]
