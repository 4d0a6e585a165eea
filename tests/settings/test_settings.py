"""Each setting is declared once, read nowhere else, and in the recipe key or on the exclusion list."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from habana_tf import settings

SITE = Path(settings.__file__).parents[1]
PACKAGES = SITE / "habana_tf", SITE / "habana_frameworks"
KERNELS = SITE / "kernels"

# Frozen on purpose: who adds a variable says here that it does not change what a recipe computes. One that does has
# to come into the key by what it decides (`resolver.keys`).
NAMES = {
    "HABANA_SIM_CHIP",
    "HABANA_SIM_ISA",
    "PT_CACHE_FOLDER_DELETE",
    "HABANA_SIM_CHECK_INDICES",
    "HABANA_SIM_CHECK_KERNELS",
    "HABANA_SIM_CARDS",
    "HABANA_VISIBLE_MODULES",
    "HLS_MODULE_ID",
    "HABANA_SIM_STATE_DIR",
    "HABANA_SIM_STALL_SECONDS",
    "XDG_RUNTIME_DIR",
    "XDG_CACHE_HOME",
    "HABANA_SIM_CHECKPOINT_NOTE",
    "HOROVOD_ELASTIC",
    "HABANA_SIM_RANK",
    "HABANA_SIM_SIZE",
    "HABANA_SIM_LOCAL_RANK",
    "HABANA_SIM_LOCAL_SIZE",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "LOCAL_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PMIX_NAMESPACE",
    "MULTI_HLS_IPS",
    "HABANA_SIM_PORT_BASE",
    "TF_PLACE_ON_CPU",
    "TF_CPU_RUNTIME_FALLBACK",
    "HABANA_SIM_CLUSTER_FUEL",
    "HABANA_SIM_CHANGES",
    "HABANA_SIM_HOROVOD",
    "PT_HPU_LAZY_MODE",
    "PT_HPU_AUTOLOAD",
    "PT_HPU_PLACE_ON_CPU",
    "PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST",
    "PT_HPU_AUTOCAST_FP32_OPS_LIST",
    "PT_HPU_USE_EAGER_FALLBACK",
    "PT_HPU_KEEP_INPUT_MUTATIONS",
    "PT_HPU_MAX_COMPOUND_OP_SIZE",
    "TF_ENABLE_DYNAMIC_SHAPES",
    "TF_MAX_CONST_SIZE_IN_CLUSTER",
    "TF_BF16_CONVERSION",
    "TF_BF16_DUMP_PATH",
    "HABANA_SIM_THREADS",
    "HABANA_SIM_COMPILE",
    "TF_RECIPE_CACHE_PATH",
    "TF_RECIPE_CACHE_SIZE_MB",
    "HABANA_SIM_CACHE_MODE",
    "HABANA_SIM_CACHE_OWNER",
    "HABANA_SIM_CACHE_SIGNING_KEY",
    "HABANA_SIM_LOG",
    "HABANA_PROFILE",
    "HABANA_SIM_TRACE_PARTS",
    "HABANA_SIM_TRACE_CPU",
    "HABANA_SYNAPSE_LOGGER",
    "HBN_TF_GRAPH_DUMP",
    "TF_DUMP_GRAPH_PREFIX",
}
# Variables of other programs, which we read by their rules and therefore do not declare.
FOREIGN = re.compile(
    r"TF_CONFIG$|TF_CPP_|OMPI_|OPAL_|PMI_|HOROVOD_|XLA_|KERAS_|CUDA_|PYTHONPATH$|PATH$|HOME$|TMPDIR$|CI$|TERM$|COLUMNS$|NO_COLOR$"
)


pytestmark = pytest.mark.usefixtures("without_settings")


def test_every_setting_is_known_to_be_in_no_key() -> None:
    assert {setting.name for setting in settings.declared()} == NAMES


def test_constants_are_named_as_their_variables() -> None:
    for setting in settings.declared():
        assert getattr(settings, setting.name) is setting
        assert setting.meaning.endswith(".")


def test_every_variable_read_anywhere_is_declared() -> None:
    known = {name for setting in settings.declared() for name in (setting.name, *setting.aliases)}
    read = re.compile(r"""(?:environ(?:\.get\(|\.pop\(|\[)|getenv\()\s*["'](\w+)["']""")
    python = [path for package in PACKAGES for path in package.rglob("*.py")]
    sources = [*python, *KERNELS.rglob("*.cc"), *KERNELS.rglob("*.h")]
    undeclared = {
        f"{path.name}: {name}"
        for path in sources
        for name in read.findall(path.read_text())
        if name not in known and not FOREIGN.match(name)
    }
    assert not undeclared
