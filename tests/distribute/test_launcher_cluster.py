"""The cluster that HPUStrategy finds under mpirun or srun without TF_CONFIG."""

from __future__ import annotations

import socket

import pytest

from habana_tf.distribute import launcher_cluster
from tests.distribute.job import free_ports, needs_mpi, run_mpi, run_srun

pytestmark = pytest.mark.usefixtures("without_settings")


def ranks(monkeypatch: pytest.MonkeyPatch, rank: int, size: int, local_size: int, job: str = "job-1") -> None:
    numbers = {"RANK": rank, "SIZE": size, "LOCAL_RANK": rank % local_size, "LOCAL_SIZE": local_size}
    for name, value in numbers.items():
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(value))
    monkeypatch.setenv("PMIX_NAMESPACE", job)


def workers(resolver: object) -> list[str]:
    table: list[str] = resolver.cluster_spec().as_dict()["worker"]
    return table


def test_a_program_alone_has_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launcher_cluster.resolver() is None
    ranks(monkeypatch, 0, 1, 1)
    assert launcher_cluster.resolver() is None


def test_all_ranks_make_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for rank in range(4):
        ranks(monkeypatch, rank, 4, 4)
        resolver = launcher_cluster.resolver()
        assert resolver is not None and (resolver.task_type, resolver.task_id) == ("worker", rank)
        tables.append(workers(resolver))
    assert all(table == tables[0] for table in tables) and len(set(tables[0])) == 4
    assert all(address.startswith("localhost:") for address in tables[0])
    ranks(monkeypatch, 0, 4, 4, job="job-2")
    assert not set(workers(launcher_cluster.resolver())) & set(tables[0])  # another job has other ports


def test_several_hosts_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks(monkeypatch, 3, 4, 2)
    with pytest.raises(launcher_cluster.ClusterError, match=r"2 hosts, but 0 are named.*MULTI_HLS_IPS"):
        launcher_cluster.resolver()
    monkeypatch.setenv("MULTI_HLS_IPS", "10.0.0.1, 10.0.0.2")
    first = free_ports(1)[0] - 3  # of rank 0, where rank 3's has to be free
    monkeypatch.setenv("HABANA_SIM_PORT_BASE", str(first))
    expected = [f"10.0.0.1:{first}", f"10.0.0.1:{first + 1}", f"10.0.0.2:{first + 2}", f"10.0.0.2:{first + 3}"]
    assert workers(launcher_cluster.resolver()) == expected


@pytest.mark.parametrize(
    ("rank", "size", "local_rank", "local_size"),
    [(1, 4, 0, 2), (0, 3, 0, 2), (4, 5, 1, 2)],
    ids=["in turn", "uneven, the first", "uneven, the last"],
)
def test_hosts_that_were_filled_otherwise_are_an_error(
    monkeypatch: pytest.MonkeyPatch, rank: int, size: int, local_rank: int, local_size: int
) -> None:
    numbers = {"RANK": rank, "SIZE": size, "LOCAL_RANK": local_rank, "LOCAL_SIZE": local_size}
    for name, value in numbers.items():
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(value))
    monkeypatch.setenv("MULTI_HLS_IPS", "10.0.0.1,10.0.0.2")
    with pytest.raises(launcher_cluster.ClusterError, match=r"not filled one after the other.*TF_CONFIG"):
        launcher_cluster.resolver()


def test_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"PROCID": "2", "STEP_NUM_TASKS": "4", "LOCALID": "0", "NODEID": "1", "STEP_TASKS_PER_NODE": "2(x2)",
              "STEP_NODELIST": "node[7-8]", "JOB_ID": "77", "STEP_ID": "0"}  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    resolver = launcher_cluster.resolver()
    assert resolver is not None and resolver.task_id == 2
    assert [address.split(":")[0] for address in workers(resolver)] == ["node7", "node7", "node8", "node8"]


def test_a_taken_port_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ranks(monkeypatch, 0, 2, 2)
        monkeypatch.setenv("HABANA_SIM_PORT_BASE", str(port))
        with pytest.raises(launcher_cluster.ClusterError, match=rf"port {port} .* HABANA_SIM_PORT_BASE"):
            launcher_cluster.resolver()


ONE_STEP = """
import tensorflow as tf
from habana_tf.distribute import HPUStrategy

strategy = HPUStrategy()
rank = strategy.cluster_resolver.task_id
with strategy.scope():
    v = tf.Variable(3.0)


@tf.function
def step():
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", v * (rank + 1.0)))


report(rank, [strategy.num_replicas_in_sync, float(step())])
"""


@pytest.mark.rest
@needs_mpi
def test_mpirun_without_tf_config() -> None:
    assert run_mpi(ONE_STEP, 2) == [[2, 9.0], [2, 9.0]]


@pytest.mark.slow
def test_srun_without_tf_config() -> None:
    assert run_srun(ONE_STEP, 2) == [[2, 9.0], [2, 9.0]]
