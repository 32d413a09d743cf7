"""Where simulations run: threads with child processes of their own, any `concurrent.futures.Executor`, or Dask."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from suffice.model import worker

Where = Any  # None, a number of workers, the address of a Dask scheduler, a Dask client, or an Executor


@dataclass(frozen=True)
class Workers:
    """Something to submit to, how many things it does at once, and whether it does them in this process."""

    executor: Executor
    count: int
    local: bool

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Have it done."""
        return self.executor.submit(function, *arguments)


@contextmanager
def workers_of(where: Where) -> Iterator[Workers]:
    """The workers that an `executor` argument stands for. What was given is left open; what was made here is closed."""
    if where is None or (isinstance(where, int) and not isinstance(where, bool) and where > 0):
        count = where or available_cores()
        with ThreadPoolExecutor(count, thread_name_prefix="suffice") as pool:
            yield Workers(pool, count, local=True)
    elif isinstance(where, str):
        with client_at(where) as client:
            yield _of_client(client)
    elif isinstance(where, Executor):
        yield Workers(where, _count(where), local=isinstance(where, ThreadPoolExecutor))
    elif hasattr(where, "get_executor") and hasattr(where, "nthreads"):
        yield _of_client(where)
    else:
        raise TypeError(
            f"executor is {where!r}, but must be None (all cores), a number of local processes, a "
            "concurrent.futures.Executor, a dask.distributed.Client or the address of a Dask scheduler."
        )


def available_cores() -> int:
    """How many cores this process may use: what a job scheduler granted, not what the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Shipped:
    """`worker.run_chunk`, which arrives as source in processes that may know nothing of suffice."""

    def __init__(self) -> None:
        source = Path(worker.__file__).read_text()
        namespace: dict[str, Any] = {"__name__": "suffice_shipped_worker"}
        exec(compile(source, "suffice/model/worker.py", "exec"), namespace)
        namespace["SOURCE"] = source
        self.payload = cloudpickle.dumps(namespace["run_chunk"])

    def __reduce__(self) -> tuple[Any, ...]:
        return cloudpickle.loads, (self.payload,)

    def __call__(self, *arguments: Any) -> Any:
        """The same, where nothing was sent anywhere."""
        return worker.run_chunk(*arguments)


def _of_client(client: Any) -> Workers:
    return Workers(client.get_executor(pure=False), max(1, sum(client.nthreads().values())), local=False)


def client_at(address: str) -> Any:
    """A Dask client of the scheduler at this address, to be closed by the caller."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("A Dask scheduler needs dask.distributed: pip install 'suffice[dask]'.") from error
    try:
        return Client(address)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"There is no Dask scheduler at {address!r} ({error}). Give the address that `dask scheduler` printed."
        ) from error


def _count(executor: Executor) -> int:
    count = getattr(executor, "_max_workers", None)
    return count if isinstance(count, int) and count > 0 else available_cores()
