"""Habana's variables that have no effect here are known by name, told once, and listed apart; ours must exist."""

from __future__ import annotations

import re

import pytest

from habana_tf import settings
from habana_tf.settings import habana as habana_variables
from tests.child import python

# What scripts for Gaudi set, from Habana's documentation and its public models.
OF_SCRIPTS = """
    BUILD_ROOT_LATEST ENABLE_CONSOLE ENABLE_GVD ENABLE_RMW_CROP_AND_RESIZE FORCE_HABANA_IMAGENET_LOADER_FALLBACK
    GC_KERNEL_PATH GRAPH_VISUALIZATION HABANA_DISABLE_QUADTREE HABANA_INITIAL_WORKSPACE_SIZE_MB HABANA_LOGS
    HABANA_NCCL_COMM_API HABANA_PROFILE HABANA_PROFILE_CONFIG_PATH HABANA_PROFILE_RANGE HABANA_PROF_CONFIG
    HABANA_SEGMENT_DUMP_PREFIX HABANA_SYNAPSE_LOGGER HABANA_USE_PREALLOC_BUFFER_FOR_ALLREDUCE
    HABANA_USE_STREAMS_FOR_HCL HABANA_VISIBLE_DEVICES HABANA_VISIBLE_MODULES HBN_TF_GRAPH_DUMP
    HBN_TF_REGISTER_DATASETOPS HCCL_COMM_ID HCCL_OVER_OFI HCCL_OVER_TCP HCCL_SOCKET_IFNAME HCL_CONFIG_PATH
    HCL_CPU_AFFINITY HCL_SLICE_SIZE HLS1_MODULE_CNT HLS1_MODULE_ID HLS1_MODULE_ID_LIST HLS_MODULE_ID HLS_TYPE
    HOROVOD_CYCLE_TIME HOROVOD_FUSION_THRESHOLD HOROVOD_HIERARCHICAL_ALLREDUCE HOROVOD_NUM_NCCL_STREAMS
    HOROVOD_STALL_CHECK_DISABLE LOG_LEVEL_ALL LOG_LEVEL_ALL_HCL LOG_LEVEL_GC LOG_LEVEL_SYN_API MPI_ROOT MULTI_HLS_IPS
    NUM_WORKERS NUM_WORKERS_PER_HLS OMPI_MCA_btl_vader_single_copy_mechanism PYTHON RUN_TPC_FUSER
    TF_ALLOW_CONTROL_EDGES_IN_HABANA_OPS TF_BF16_CONVERSION TF_BF16_DUMP_PATH TF_CLUSTER_VARIABLES
    TF_CPP_MIN_LOG_LEVEL TF_CPP_MIN_VLOG_LEVEL TF_CPU_RUNTIME_FALLBACK TF_DETERMINISTIC_OPS
    TF_DISABLE_EAGER_TO_FUNC_REWRITER TF_DISABLE_MKL TF_DISABLE_SCOPED_ALLOCATOR TF_DUMP_GRAPH_PREFIX
    TF_ENABLE_BF16_CONVERSION TF_ENABLE_DYNAMIC_SHAPES TF_ENABLE_ONEDNN_OPTS TF_ENABLE_WIDE_AND_DEEP_WA
    TF_EXPERIMENTAL_BATCH_VARIABLES TF_HABANA_ALLOW_LEGACY_VARIABLES_ON_CPU TF_HABANA_COLLECTIVE_REDUCE_SYNC
    TF_HCCL_MEMORY_ALLOWANCE_MB TF_HW_PROFILE_RANGE TF_MAX_CONST_SIZE_IN_CLUSTER TF_MODULES_DEBUG_BUILD
    TF_MODULES_RELEASE_BUILD TF_NO_EMULATE_SIGNALING_FROM_ENCAP_OP TF_NUM_INTEROP_THREADS TF_PLACE_ON_CPU
    TF_PRELIMINARY_CLUSTER_SIZE TF_PRELIMINARY_CLUSTER_SIZE_THRESHOLD TF_PROFILE_STEPS TF_RECIPE_CACHE_PATH
    TF_REWRITERS_CONFIG_FILE TF_SYNC_ON_FINISH TF_USE_CLUSTER_OP TF_USE_SIGNALING_FROM_ENCAP_OP TPC_RUNNER
""".split()


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    declared = {name for setting in settings.declared() for name in (setting.name, *setting.aliases)}
    for name in {*declared, *OF_SCRIPTS, *os.environ}:
        if name in declared or name in OF_SCRIPTS or name.startswith("HABANA_"):
            monkeypatch.delenv(name, raising=False)


def test_each_has_an_effect_a_reason_or_another_reader_and_one_of_these_only() -> None:
    declared = {name for setting in settings.declared() for name in (setting.name, *setting.aliases)}
    vain, others = habana_variables.without_effect(), habana_variables.read_by_others()
    for name in OF_SCRIPTS:
        assert (name in declared) + (name in vain) + (name in others) == 1, name
    assert not declared & vain.keys() and not declared & others.keys() and not vain.keys() & others.keys()
    assert all(vain.values()) and all(others.values())
    assert "habana-tf build-kernel" in vain["GC_KERNEL_PATH"], "what is made instead"


def test_what_is_set_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    assert habana_variables.set_in_vain() == ()
    monkeypatch.setenv("HABANA_PROF_CONFIG", "prof.json")
    monkeypatch.setenv("LOG_LEVEL_ALL", "")  # as if unset
    monkeypatch.setenv("HABANA_SOMETHING_NEW", "1")
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "0")
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "0.5")
    monkeypatch.setenv("PT_ENABLE_HABANA_CACHING", "0")
    monkeypatch.setenv("PT_HPU_PLACE_ON_CPU", "add")
    vain = ("HABANA_PROF_CONFIG", "HABANA_SOMETHING_NEW", "PT_ENABLE_HABANA_CACHING")
    assert habana_variables.set_in_vain() == vain
    assert habana_variables.reason("PT_ENABLE_HABANA_CACHING").startswith("queues and passes of Habana's bridge")
    assert habana_variables.reason("HABANA_SOMETHING_NEW") == "unknown to habana_tf"


SLIPS = {
    "TF_RECIPE_CACHE_PAHT": "TF_RECIPE_CACHE_PATH", "TF_BF16_CONVERTION": "TF_BF16_CONVERSION",
    "TF_PLACE_ON_CPUS": "TF_PLACE_ON_CPU", "HABANA_VISIBLE_MODULE": "HABANA_VISIBLE_MODULES",
    "HLS_MODULEID": "HLS_MODULE_ID", "TF_CONFG": "TF_CONFIG",
}  # fmt: skip


def test_a_slip_of_a_name_is_told_with_the_one_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    assert habana_variables.misspelled() == {}
    for name in SLIPS:
        monkeypatch.setenv(name, "1")
    assert habana_variables.misspelled() == SLIPS
    assert habana_variables.set_in_vain() == ()


def test_no_variable_of_another_program_is_a_slip(monkeypatch: pytest.MonkeyPatch) -> None:
    from habana_tf.launcher import carried

    others = carried.known() | set(OF_SCRIPTS) | {"TF_VAR_region", "TF_TOKEN_app", "TF_RECIPES", "HABANA_NEW_THING"}
    for name in others:
        monkeypatch.setenv(name, "1")
    assert habana_variables.misspelled() == {}


def test_which_variables_ask_for_hpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TF_CPP_MIN_LOG_LEVEL", "TF_DUMP_GRAPH_PREFIX", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "NUM_WORKERS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TF_BF16_CONVERSION", "")
    assert habana_variables.asks_for_hpu() is None
    for name in ("TF_BF16_CONVERSION", "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID", "HBN_TF_GRAPH_DUMP", "RUN_TPC_FUSER",
                 "HABANA_SIM_RANK", "HABANA_PROFILE", "TF_CLUSTER_VARIABLES"):  # fmt: skip
        with monkeypatch.context() as one:
            one.setenv(name, "1")
            assert habana_variables.asks_for_hpu() == name


def test_ours_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    habana_variables.check()
    monkeypatch.setenv("HABANA_SIM_CHIP", "gaudi")
    habana_variables.check()
    monkeypatch.setenv("HABANA_SIM_CHIPS", "gaudi")
    monkeypatch.setenv("HABANA_SIM_ZZZ", "")
    with pytest.raises(settings.SettingError) as error:
        habana_variables.check()
    assert "HABANA_SIM_CHIPS does not exist: did you mean HABANA_SIM_CHIP?" in str(error.value)
    assert "HABANA_SIM_ZZZ does not exist (" in str(error.value)


def test_loading_refuses_what_does_not_exist() -> None:
    done = python("import habana_tf; habana_tf.load_habana_module()", imported=True, check=False, HABANA_SIM_CARD="4")
    assert (
        done.returncode
        and "SettingError: HABANA_SIM_CARD does not exist: did you mean HABANA_SIM_CARDS?" in done.stderr
    )


def test_one_quiet_line_says_what_is_set_in_vain() -> None:
    script = """
        import os, sys
        import tensorflow as tf
        import habana_tf
        habana_tf.load_habana_module()
        habana_tf.load_habana_module()
        os.environ["TF_CLUSTER_VARIABLES"] = "1"  # as scripts do: after loading
        for n in (1, 2):
            tf.function(lambda x: x * 2 + 1)(tf.ones([n]))
        """
    slip = {"TF_RECIPE_CACHE_PAHT": "/recipes"}
    vain = {"HABANA_PROF_CONFIG": "a.json", "ENABLE_CONSOLE": "true", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = python(script, imported=True, HABANA_SIM_LOG="info", **vain, **slip)
    lines = [line for line in done.stderr.splitlines() if "no effect" in line]
    assert [re.findall(r"[A-Z]{2}[A-Z_0-9]+", line.split(": no effect")[0]) for line in lines] == [
        ["ENABLE_CONSOLE", "HABANA_PROF_CONFIG"], ["TF_CLUSTER_VARIABLES"]
    ], done.stderr  # fmt: skip
    told = "TF_RECIPE_CACHE_PAHT is set, but nothing reads it: did you mean TF_RECIPE_CACHE_PATH?"
    assert done.stderr.count(told) == 1, done.stderr
    assert "no effect" not in python(script, imported=True, HABANA_SIM_LOG="warning", **vain).stderr
