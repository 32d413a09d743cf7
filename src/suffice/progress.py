"""A progress bar with the remaining time: on a terminal or in a notebook, once a job takes more than a moment."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PATIENCE = 1.0  # seconds before a bar appears


@runtime_checkable
class Advance(Protocol):
    """Count `steps` more, and show `note` beside the bar."""

    def __call__(self, steps: int, note: str = "") -> None:
        """Count."""
        ...


@contextmanager
def bar(total: int, description: str, *, show: bool = True) -> Iterator[Advance]:
    """Yield `advance(steps, note)`, which counts up to `total`.

    The bar writes to standard error, and only if that is a terminal or a notebook.
    """
    console = Console(file=sys.stderr)
    if not (show and (console.is_terminal or console.is_jupyter)):
        yield lambda steps, note="": None
        return
    display = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )
    task = display.add_task(description, total=total, note="")
    began = time.monotonic()

    def advance(steps: int, note: str = "") -> None:
        display.update(task, advance=steps, note=note)
        if not display.live.is_started and time.monotonic() - began > PATIENCE:
            display.start()

    try:
        yield advance
    finally:
        if display.live.is_started:
            display.stop()
