"""The JobSet: its fields are those that JobSet and Kubernetes document, and its names and numbers fit each other."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from habana_tf import settings
from habana_tf.settings.environment import SettingError

yaml = pytest.importorskip("yaml", reason="PyYAML is in the extra `test`")
jsonschema = pytest.importorskip("jsonschema", reason="it is in the extra `test`")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kubernetes" / "jobset.yaml"
SCHEMA = json.loads((Path(__file__).parent / "jobset_schema.json").read_text())
"""The fields that such a manifest may have, from the API references of JobSet v1alpha2, batch/v1 Job and core/v1 Pod.
A field that is not in it is refused: one that is misspelled, and one that has to be looked up first."""


@pytest.fixture
def manifest() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    return loaded


def errors(manifest: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(manifest)]


def job(manifest: dict[str, Any]) -> dict[str, Any]:
    """The specification of its only Job."""
    (replicated,) = manifest["spec"]["replicatedJobs"]
    spec: dict[str, Any] = replicated["template"]["spec"]
    return spec


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    (only,) = job(manifest)["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def test_it_is_a_jobset(manifest: dict[str, Any]) -> None:
    assert errors(manifest) == []


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda m: m.pop("apiVersion"), "'apiVersion' is a required property"),
        (lambda m: job(m).update(paralelism=2), "'paralelism' was unexpected"),
        (lambda m: job(m).update(parallelism="2"), "'2' is not of type 'integer'"),
        (lambda m: container(m)["env"][2].update(value=1), "1 is not of type 'string'"),
        (lambda m: container(m).pop("name"), "'name' is a required property"),
        (lambda m: container(m)["resources"]["limits"].update(memory="8 GB"), "'8 GB' is not valid"),
        (lambda m: m["metadata"].update(name="Train_1"), "'Train_1' does not match"),
        (lambda m: job(m)["template"]["spec"].update(restartPolicy="Always"), "'Always' is not one of"),
    ],
)
def test_the_schema_refuses_what_is_not(
    manifest: dict[str, Any], damage: Callable[[dict[str, Any]], object], words: str
) -> None:
    damaged = copy.deepcopy(manifest)
    damage(damaged)
    assert any(words in error for error in errors(damaged)), errors(damaged)


def variables(manifest: dict[str, Any], index: int) -> dict[str, str]:
    """The container's environment in the pod `index`: $(NAME) is a variable that was declared before it."""
    values: dict[str, str] = {}
    for entry in container(manifest)["env"]:
        if "valueFrom" in entry:
            path = entry["valueFrom"]["fieldRef"]["fieldPath"]
            assert path == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
            values[entry["name"]] = str(index)
        else:
            values[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda m: values.get(m[1], m[0]), entry["value"])
    return values


def test_tf_config_names_the_pods_as_jobset_does(manifest: dict[str, Any]) -> None:
    """<jobset>-<job>-<job index>-<pod index>.<subdomain>, the subdomain being the JobSet's name."""
    name, (replicated,) = manifest["metadata"]["name"], manifest["spec"]["replicatedJobs"]
    count = job(manifest)["parallelism"]
    port = container(manifest)["ports"][0]["containerPort"]
    pods = [f"{name}-{replicated['name']}-0-{index}.{name}:{port}" for index in range(count)]
    assert replicated["replicas"] == 1 and job(manifest)["completions"] == count
    assert job(manifest)["completionMode"] == "Indexed" and manifest["spec"]["network"]["enableDNSHostnames"] is True
    for index in range(count):
        config = json.loads(variables(manifest, index)["TF_CONFIG"])
        assert config == {"cluster": {"worker": pods}, "task": {"type": "worker", "index": index}}


def test_its_settings_exist_and_have_values_that_are_allowed(
    manifest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = {setting.name: setting for setting in settings.declared()}
    own = {name: value for name, value in variables(manifest, 0).items() if name.startswith(("HABANA_", "TF_"))}
    assert own.keys() - {"TF_CONFIG"} <= declared.keys() and "HABANA_SIM_CARDS" in own
    for name in own.keys() & declared.keys():
        monkeypatch.setenv(name, own[name])
        try:
            declared[name].get()
        except SettingError as error:
            raise AssertionError(str(error)) from error


def test_recipes_are_below_the_volume(manifest: dict[str, Any]) -> None:
    """The volume's own folder is writable for its group, and the cache refuses it."""
    spec = job(manifest)["template"]["spec"]
    (mount,), (volume,) = container(manifest)["volumeMounts"], spec["volumes"]
    assert mount["name"] == volume["name"] and "fsGroup" in spec["securityContext"]
    path = Path(variables(manifest, 0)["TF_RECIPE_CACHE_PATH"])
    assert Path(mount["mountPath"]) in path.parents
