"""What all commands share: the application, its options, what it prints, and errors as sentences."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from suffice.errors import SamplingError, TrainingError
from suffice.simulation.executors import Where, client_at

app = typer.Typer(
    help="Likelihood-free inference with learned sufficient statistics.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
)

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="A name of `suffice models`, or `path/to/file.py:name`.")
]
Folder = Annotated[Path, typer.Option("--run", help="The folder of the run: settings, seeds and all results.")]
Seed = Annotated[int, typer.Option(help="The seed of everything random.", min=0)]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what is in the folder of a killed or finished run.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Workers = Annotated[
    int | None,
    typer.Option(help="How many simulations run at once on this machine; as many as it has cores if not given.", min=1),
]
Dask = Annotated[str, typer.Option(help="The address of a Dask scheduler, whose workers simulate instead.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]

EXPECTED = (ValueError, OSError, TrainingError, SamplingError)  # what the library raises for bad input, in sentences


class Voice:
    """What a command says: words and tables for people, one JSON object for scripts, or nothing."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.console = Console(highlight=False)
        self.facts: dict[str, Any] = {}

    @property
    def progress(self) -> bool:
        """Whether to show bars."""
        return not (self.quiet or self.as_json)

    def say(self, *what: Any) -> None:
        """Print for people."""
        if self.progress:
            self.console.print(*what)

    def note(self, **facts: Any) -> None:
        """Facts of the JSON object."""
        self.facts |= facts


@contextmanager
def speaking(*, quiet: bool = False, as_json: bool = False) -> Iterator[Voice]:
    """Run a command: warnings become lines, errors of input a sentence and exit code 2."""
    voice = Voice(quiet=quiet, as_json=as_json)
    errors = Console(stderr=True, highlight=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            yield voice
        except EXPECTED as error:
            if as_json:
                print(json.dumps({"error": str(error)}))
            errors.print(f"[bold red]Error:[/bold red] {error}", markup=True, soft_wrap=True)
            raise typer.Exit(2) from None
        finally:
            said = [
                str(warning.message) for warning in caught if str(warning.category.__module__).startswith("suffice")
            ]
            if not quiet and not as_json:
                for words in said:
                    errors.print(f"[yellow]Warning:[/yellow] {words}", soft_wrap=True)
    if as_json:
        json.dump(voice.facts | {"warnings": said}, sys.stdout, indent=1, default=_plain)
        print()


@contextmanager
def simulating(workers: int | None, dask: str) -> Iterator[Where]:
    """Where a command simulates: the `executor` that its options stand for."""
    if not dask:
        yield workers
        return
    if workers is not None:
        raise ValueError("--workers and --dask exclude each other: simulations run on this machine, or on a cluster.")
    try:
        client = client_at(dask)
    except ImportError as error:
        raise ValueError(str(error)) from error
    with client:
        yield client


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


@app.callback(invoke_without_command=True)
def main(show_version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False) -> None:
    """Likelihood-free inference with learned sufficient statistics."""
    if show_version:
        print(version("suffice"))
        raise typer.Exit
