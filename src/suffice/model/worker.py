"""What runs simulations that are no JAX code: a child process that can crash, hang or be killed at no other's cost.

This file needs nothing but Python and numpy. It is read in three places: in the caller's process, where `run_chunk`
feeds a child and watches over it; in worker processes on other machines, to which it is sent as source, so that they
import neither suffice nor JAX; and in the child itself, where it runs as a script and calls the simulator.
"""

import atexit
import contextlib
import faulthandler
import hashlib
import json
import os
import pickle
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

# What became of one simulation: the values of `suffice.Status`.
GOOD, NOT_FINITE, WRONG_SHAPE, FAILED, CRASHED, TIMED_OUT = 0, 1, 3, 4, 5, 6
AGAIN = (FAILED, CRASHED, TIMED_OUT)  # what a retry may mend

SOURCE = ""  # this file, where it was read from something else than a file
CHILD = "_suffice_child"  # marks the process of a child, among its modules
IDLE = 60.0  # seconds after which a child without work ends
ENDED_IDLE = 77  # its exit code then
START = 600.0  # seconds within which a child must have loaded the simulator
LONGEST = 2000  # characters of an error text that are kept
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Job(NamedTuple):
    """All that a child must know of a simulator.

    `function` is a cloudpickled `function(theta, rng)`, empty for a command; `argv` the command, empty for a function;
    `shape` None accepts any shape of x. `run` tells one run from another, so that it can be stopped.
    """

    function: bytes
    argv: tuple[str, ...]
    names: tuple[str, ...]
    shape: tuple[int, ...] | None
    dtype: str
    time_limit: float | None
    retries: int
    run: str = ""

    def digest(self) -> str:
        """The same for jobs that the same child can do."""
        return hashlib.sha256(repr((self.function, self.argv, self.names)).encode()).hexdigest()


class Outcome(NamedTuple):
    """One simulation: its status, x where there is one, its seconds, and the reason of a failure."""

    status: int
    x: Any
    seconds: float
    error: str


def run_chunk(job: tuple[Any, ...], theta: Any, seeds: Any) -> list[tuple[Any, ...]]:
    """The simulations of some rows of θ, one after the other, in a child process of this one.

    Takes the fields of a `Job` and gives those of an `Outcome` a row: plain tuples travel to places where these classes
    are not known.
    """
    rows = {i: (np.asarray(theta[i]).tolist(), int(seeds[i])) for i in range(len(seeds))}
    outcomes: dict[int, Outcome] = {}
    with _Keeper(Job(*job)) as keeper:
        waiting = list(rows)
        for _ in range(keeper.job.retries + 1):
            outcomes |= _run_once(keeper, {i: rows[i] for i in waiting})
            waiting = [i for i in waiting if outcomes[i].status in AGAIN]
            if not waiting:
                break
    return [tuple(outcomes[i]) for i in range(len(seeds))]


def stop(run: str) -> None:
    """End all simulations of a run that children of this process are making."""
    _shelf("stopped")[run] = True
    for sandbox in list(_shelf("busy").get(run, [])):
        sandbox.kill()


def _run_once(keeper: "_Keeper", rows: dict[int, Any]) -> dict[int, Outcome]:
    """One attempt at each row; a child that is lost costs one row, and another goes on with the rest."""
    outcomes: dict[int, Outcome] = {}
    while len(outcomes) < len(rows):
        rest = [i for i in rows if i not in outcomes]
        sandbox = keeper.sandbox()
        sandbox.write([rows[i] for i in rest])
        for i in rest:
            outcome = sandbox.receive(keeper.job.time_limit)
            if outcome is not None:
                outcomes[i] = outcome
            if outcome is None or outcome.status in (CRASHED, TIMED_OUT):
                keeper.drop()
                break
    return outcomes


class _Keeper:
    """Holds one child for the time of a chunk: an idle one, or a new one, and a new one again after it is lost."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.held: Sandbox | None = None

    def __enter__(self) -> "_Keeper":
        return self

    def sandbox(self) -> "Sandbox":
        if self.job.run in _shelf("stopped"):
            raise InterruptedError("The run was stopped.")
        if self.held is None:
            idle = _shelf("idle").setdefault(self.job.digest(), [])
            while idle and self.held is None:
                with contextlib.suppress(IndexError):  # another thread may have taken the last
                    self.held = idle.pop().revived()
            self.held = self.held or Sandbox(self.job)
            _shelf("busy").setdefault(self.job.run, []).append(self.held)
        return self.held

    def drop(self) -> None:
        if self.held is not None:
            _shelf("busy")[self.job.run].remove(self.held)
            self.held.close()
            self.held = None

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self.drop()
        elif self.held is not None:
            _shelf("busy")[self.job.run].remove(self.held)
            _shelf("idle")[self.job.digest()].append(self.held)


def _shelf(name: str) -> dict[Any, Any]:
    """What this process keeps between chunks, however often this source was read: children, by what they can do."""
    if "_suffice_children" not in sys.modules:
        sys.modules["_suffice_children"] = types.ModuleType("_suffice_children")
        atexit.register(_close_idle)
    return sys.modules["_suffice_children"].__dict__.setdefault(name, {})


def _close_idle() -> None:
    for idle in _shelf("idle").values():
        while idle:
            idle.pop().close()


class Sandbox:
    """A child process that has loaded one simulator."""

    def __init__(self, job: Job) -> None:
        if inside_child():
            raise RuntimeError(
                "a simulation was asked for while the file of the simulator was being imported. Put what simulates "
                "under `if __name__ == '__main__':`, or in another file."
            )
        self.digest = job.digest()
        self.errors = tempfile.TemporaryFile(mode="a+b")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-c", _source()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=os.environ | {name: os.environ.get(name, "1") for name in THREADS},
            start_new_session=True,
        )
        self.replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.unused = False
        threading.Thread(target=self._listen, daemon=True).start()
        self.write((sys.path, tuple(job)))
        loaded = self._next(START)
        if loaded != "":
            said = loaded if isinstance(loaded, str) else f"it ended without a word.{self._said()}"
            self.close()
            raise ImportError(f"The simulator could not be loaded in a process of its own: {said}")

    def revived(self) -> "Sandbox | None":
        """The child for another chunk; None if it has ended."""
        if self.process.poll() is not None:
            self.close()
            return None
        self.unused = True
        return self

    def receive(self, limit: float | None) -> Outcome | None:
        """What became of the next simulation; None if the child had ended for want of work before it got any."""
        began = time.monotonic()
        reply = self._next(limit)
        seconds = time.monotonic() - began
        if isinstance(reply, tuple):
            self.unused = False
            return Outcome(*reply)
        if reply is TimeoutError:
            return Outcome(TIMED_OUT, None, seconds, f"took longer than its time limit of {limit:g} s.{self._said()}")
        code = self.process.wait()
        if code == ENDED_IDLE and self.unused:
            return None
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Outcome(CRASHED, None, seconds, f"its process ended with {how}.{self._said()}")

    def kill(self) -> None:
        """End the child and whatever it has started."""
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()

    def close(self) -> None:
        """End the child and let go of its files."""
        self.kill()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()
        self.errors.close()

    def write(self, message: Any) -> None:
        """Send the child something."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # a child that has ended is found out by what it does not answer
            pickle.dump(message, self.process.stdin)
            self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            while True:
                try:
                    self.replies.put(pickle.load(stream))
                except Exception:
                    self.replies.put(None)
                    return

    def _next(self, limit: float | None) -> Any:
        try:
            return self.replies.get(timeout=limit)
        except queue.Empty:
            return TimeoutError

    def _said(self) -> str:
        """The end of what the child wrote to standard error."""
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, size - LONGEST))
        text = self.errors.read().decode(errors="replace").split("\nExtension modules: ")[0].strip()
        return f" Standard error: {text}" if text else ""


def inside_child() -> bool:
    """Whether this is a child that simulates: importing the file of its simulator there must start no other."""
    return CHILD in sys.modules


def _source() -> str:
    return SOURCE or Path(__file__).read_text()


def _child() -> None:
    """The life of a child: load the simulator, then simulate what comes, until nothing does."""
    replies, orders = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)  # what the simulator prints must not get between the replies
    faulthandler.enable()
    path, fields = pickle.load(orders)
    sys.path[:] = path
    sys.modules[CHILD] = types.ModuleType(CHILD)
    job = Job(*fields)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(orders, inbox), daemon=True).start()

    def reply(message: Any) -> None:
        pickle.dump(message, replies)
        replies.flush()

    try:
        simulator = _Command(job) if job.argv else _Function(job)
    except BaseException as error:
        reply(_described(error))
        return
    reply("")
    while True:
        try:
            rows = inbox.get(timeout=IDLE)
        except queue.Empty:
            os._exit(ENDED_IDLE)
        for theta, seed in rows:
            with contextlib.suppress(OSError):
                os.ftruncate(2, 0)
            reply(tuple(_simulate(job, simulator, theta, seed)))


def _read_orders(orders: Any, inbox: Any) -> None:
    """Pass orders on; when the owner is gone, go too, in the middle of a simulation if need be."""
    while True:
        try:
            inbox.put(pickle.load(orders))
        except BaseException:
            if hasattr(os, "killpg"):
                os.killpg(0, signal.SIGKILL)
            os._exit(0)


def _simulate(job: Job, simulator: Any, theta: list[float], seed: int) -> Outcome:
    began = time.perf_counter()
    try:
        value = simulator(dict(zip(job.names, theta, strict=True)), seed)
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.asarray(value, dtype=job.dtype)
    except BaseException as error:
        return Outcome(FAILED, None, time.perf_counter() - began, _described(error))
    seconds = time.perf_counter() - began
    if job.shape is not None and x.shape != tuple(job.shape):
        return Outcome(WRONG_SHAPE, None, seconds, f"x has shape {x.shape}, but must have shape {tuple(job.shape)}.")
    if not np.isfinite(x).all():
        return Outcome(NOT_FINITE, x, seconds, "x is not finite.")
    return Outcome(GOOD, x, seconds, "")


class _Function:
    """Calls `function(theta, rng)`. Python's and numpy's own generators are seeded too, for code that uses them."""

    def __init__(self, job: Job) -> None:
        import cloudpickle

        self.function = cloudpickle.loads(job.function)

    def __call__(self, theta: dict[str, float], seed: int) -> Any:
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002
        return self.function(theta, np.random.default_rng(seed))


class _Command:
    """Runs a command: `{"theta": {…}, "seed": …}` on standard input, `{"x": […]}` or `[…]` on standard output."""

    def __init__(self, job: Job) -> None:
        self.argv = list(job.argv)

    def __call__(self, theta: dict[str, float], seed: int) -> Any:
        order = json.dumps({"theta": theta, "seed": seed >> 33})  # 31 bits: every language can hold them
        done = subprocess.run(self.argv, input=order, capture_output=True, text=True, check=False)
        said = done.stderr.strip()[-LONGEST:]
        said = f" Standard error: {said}" if said else ""
        if done.returncode:
            how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
            raise CommandError(f"the command ended with {how}.{said}")
        try:
            answer = json.loads(done.stdout)
            return answer["x"] if isinstance(answer, dict) else answer
        except (ValueError, KeyError, TypeError) as error:
            raise CommandError(
                f'the command answered {done.stdout[:200]!r}, but must answer {{"x": [...]}} ({error}).{said}'
            ) from None


class CommandError(RuntimeError):
    """A command that did not do what was asked."""


def _described(error: BaseException) -> str:
    """The error with the place it comes from."""
    if isinstance(error, CommandError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    return f"{type(error).__name__}: {error}{place}"[:LONGEST]


if __name__ == "__main__":
    _child()
