"""Dispatch: rows of a run cut into tasks, handed to workers, and gathered as they come.

Tasks grow to about half a second each and shrink towards the end, so that overhead stays small and no worker waits for
another. What is computed for a row depends on the key and the row alone, so tasks and workers change no number.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from suffice.simulation.executors import Workers
from suffice.simulation.simulations import Status

TASK = 0.5  # seconds that a task should take
GROWTH = 2  # times as many simulations as have been seen, at most, in one task
AHEAD = 2  # tasks handed over for each worker


class Made(NamedTuple):
    """Simulations as they come from a worker, one row each; x is nan where there is none.

    `errors` has a text a row, empty for a good simulation; it may be empty as a whole.
    """

    theta: np.ndarray
    x: np.ndarray
    status: np.ndarray
    seconds: np.ndarray
    errors: list[str]


@runtime_checkable
class Maker(Protocol):
    """How the simulations of one model are made: what to submit for some rows, and what the answer means."""

    unit: int  # tasks are of whole multiples of it
    most: int  # rows in a task
    seconds: float  # of a simulation, as far as is known before the first; 0 if nothing is

    def task(self, rows: range, *, local: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A function and its arguments."""
        ...

    def made(self, rows: range, answer: Any) -> Made:
        """The answer, read."""
        ...

    def lost(self, rows: range, reason: str) -> Made:
        """What to say of rows whose workers were lost again and again."""
        ...

    def stop(self) -> None:
        """End what is running in this process."""
        ...


def dispatch(maker: Maker, ranges: Iterable[range], workers: Workers) -> Iterator[tuple[range, Made]]:
    """Have the simulations of all rows in `ranges` made; yield them in pieces, in the order in which they are done."""
    waiting = deque(rows for rows in ranges if len(rows))
    running: dict[Future[Any], range] = {}
    pace = _Pace(maker.seconds)
    try:
        while waiting or running:
            while waiting and len(running) < AHEAD * workers.count:
                rows = _take(waiting, pace.size(maker, sum(map(len, waiting)), workers.count), maker.unit)
                function, arguments = maker.task(rows, local=workers.local)
                running[workers.submit(function, *arguments)] = rows
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                rows = running.pop(future)
                made = _gathered(maker, rows, future, waiting)
                if made is not None:
                    pace.saw(made.seconds)
                    yield rows, made
    finally:
        if running:
            for future in running:
                future.cancel()
            maker.stop()


class _Pace:
    """The mean seconds of a simulation so far, and the size of a task by it."""

    def __init__(self, guess: float) -> None:
        self.total, self.number = 1e6 * guess, 1e6 if guess else 0  # a guess is made from enough of them

    def saw(self, seconds: np.ndarray) -> None:
        self.total, self.number = self.total + float(np.sum(seconds)), self.number + len(seconds)

    def size(self, maker: Maker, left: int, workers: int) -> int:
        if not self.number:
            return maker.unit
        by_time = TASK * self.number / max(self.total, 1e-9)
        by_share = left / (AHEAD * workers)
        sizes = (by_time, by_share, GROWTH * self.number, maker.most)
        return int(max(1, min(sizes) // maker.unit)) * maker.unit


def _take(waiting: deque[range], size: int, unit: int) -> range:
    """The first rows that wait, up to a border of `unit`."""
    rows = waiting.popleft()
    stop = min(rows.stop, (rows.start // unit) * unit + size)
    if stop < rows.stop:
        waiting.appendleft(range(stop, rows.stop))
    return range(rows.start, stop)


def _gathered(maker: Maker, rows: range, future: "Future[Any]", waiting: deque[range]) -> Made | None:
    try:
        return maker.made(rows, future.result())
    except BrokenExecutor as error:
        raise RuntimeError(
            f"The executor broke down ({type(error).__name__}: {error}) and takes no more work. Simulations that were "
            "written to a store are safe: call again with a new executor and the same store."
        ) from error
    except Exception as error:
        if type(error).__name__ != "KilledWorker":  # Dask's: several workers were lost over this task
            raise
        if len(rows) <= maker.unit:
            return maker.lost(rows, f"the workers that ran it were lost: {error}")
        middle = rows.start + max(1, len(rows) // maker.unit // 2) * maker.unit
        waiting.extendleft([range(middle, rows.stop), range(rows.start, middle)])
        return None


def failed_rows(theta: np.ndarray, shape: tuple[int, ...], dtype: Any, reason: str) -> Made:
    """Rows of which nothing came."""
    number = len(theta)
    x = np.full((number, *shape), np.nan, dtype)
    status = np.full(number, Status.CRASHED, np.int8)
    return Made(theta, x, status, np.zeros(number, np.float32), [reason] * number)
