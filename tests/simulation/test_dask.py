"""A real Dask cluster of separate processes on this machine: the same numbers, also when a worker is lost."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from tests.simulation import simulators
from tests.simulation.outside import PRIOR, jax_normal, outside

import suffice as sf
from suffice.simulation import simulate_at, sinks

distributed = pytest.importorskip("distributed")


class Cluster(NamedTuple):
    """Its address, and the process of each worker."""

    address: str
    workers: list["subprocess.Popen[bytes]"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parent, Path(__file__).parents[2]))),
        "PYTHONWARNINGS": "ignore",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # as in tests: the same bits need the same compiler settings
    }
    common: dict[str, Any] = {"cwd": folder, "env": environment, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    scheduler: Any = subprocess.Popen(
        [*dask, "scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1", "--scheduler-file", str(file)],
        **common,
    )
    options = ["--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    workers: list[Any] = [subprocess.Popen([*dask, "worker", *options], **common) for _ in range(2)]
    try:
        with distributed.Client(scheduler_file=str(file), timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            address = client.scheduler.address
        yield Cluster(address, workers)
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


def test_an_address(cluster: Cluster, key: jax.Array) -> None:
    theta = np.tile([[0.5, 1.0]], (40, 1))
    pairs = simulate_at(key, outside(), theta, executor=cluster.address)
    np.testing.assert_array_equal(pairs.x, simulate_at(key, outside(), theta).x)


def test_every_way_to_fail_leaves_the_workers_alone(cluster: Cluster, key: jax.Array) -> None:
    theta = np.array([[(tenth + 0.5) / 10, 1.0] for tenth in range(10)])
    model = outside(simulators.troubled, time_limit=0.5)
    with distributed.Client(cluster.address) as client:
        pairs = simulate_at(key, model, theta, executor=client)
        assert len(client.nthreads()) == 2
    np.testing.assert_array_equal(pairs.status, simulate_at(key, model, theta).status)


def test_a_worker_lost_in_the_middle(
    cluster: Cluster, key: jax.Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, put, seen = outside(simulators.slow), sinks.InStore.put, []

    def put_and_kill(self: Any, rows: range, made: Any) -> None:
        put(self, rows, made)
        seen.append(rows)
        if len(seen) == 3:
            cluster.workers[0].send_signal(signal.SIGKILL)
            cluster.workers[0].wait()

    monkeypatch.setattr(sinks.InStore, "put", put_and_kill)
    with distributed.Client(cluster.address) as client:
        sims = sf.simulate(key, model, 400, store=tmp_path / "sims", executor=client)
        assert len(client.nthreads()) == 1
    monkeypatch.undo()
    assert len(seen) > 3
    local = sf.simulate(key, model, 400)
    assert sims.num_good == 400
    np.testing.assert_array_equal(sims.theta, local.theta)
    np.testing.assert_array_equal(sims.x, local.x)
    np.testing.assert_array_equal(sf.load(tmp_path / "sims").x, local.x)


def test_simulations_that_take_their_workers_with_them(key: jax.Array) -> None:
    """Dask gives up a task over which several workers were lost: it is halved until the guilty row is alone."""
    from concurrent.futures import Executor, Future

    class KilledWorker(Exception):  # noqa: N818
        """As Dask's."""

    class Deadly(Executor):
        _max_workers = 1

        def submit(self, function: Any, /, *arguments: Any, **named: Any) -> "Future[Any]":
            future: Future[Any] = Future()
            theta = arguments[1]
            if ((theta[:, 0] > 0.5) & (theta[:, 0] < 0.51)).any():
                future.set_exception(KilledWorker("lost"))
            else:
                future.set_result(function(*arguments))
            return future

    with pytest.warns(sf.SimulationWarning, match="crashed"):
        sims = sf.simulate(key, outside(), 300, executor=Deadly())
    guilty = (sims.theta[:, 0] > 0.5) & (sims.theta[:, 0] < 0.51)
    assert guilty.any()
    np.testing.assert_array_equal(sims.status == sf.Status.CRASHED, guilty)
    np.testing.assert_array_equal(sims.good.x, sf.simulate(key, outside(), 300).x[~guilty])


def test_jax_models_run_on_workers_too(cluster: Cluster, key: jax.Array) -> None:
    model = sf.Model(PRIOR, jax_normal)
    sims = sf.simulate(key, model, 300, executor=cluster.address)
    np.testing.assert_array_equal(sims.x, sf.simulate(key, model, 300).x)


def test_nobody_there(key: jax.Array) -> None:
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}),
        pytest.raises(ConnectionError, match=r"no Dask scheduler at 'tcp://127\.0\.0\.1:1'"),
    ):
        simulate_at(key, outside(), np.ones((1, 2)), executor="tcp://127.0.0.1:1")
