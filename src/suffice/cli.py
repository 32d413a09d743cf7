"""The command `suffice`."""

import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from suffice import zoo
from suffice.diagnostics import mcc
from suffice.errors import SamplingWarning
from suffice.fitting import Fit, fit
from suffice.grid import GridPosterior
from suffice.model import Model
from suffice.posterior import Posterior
from suffice.sampling import Direct, sample
from suffice.simulation import Simulations, simulate
from suffice.simulation import check as trial

app = typer.Typer(help="Likelihood-free inference with learned sufficient statistics.", no_args_is_help=True)
console = Console()

MODELS: dict[str, Callable[[], Model]] = {
    "gaussian": zoo.gaussian,
    "gamma": zoo.gamma,
    "beta": zoo.beta,
    "ar2": zoo.ar2,
    "ma2": zoo.ma2,
    "lorenz96-small": lambda: zoo.lorenz96("small"),
    "lorenz96-large": lambda: zoo.lorenz96("large"),
}


@app.callback(invoke_without_command=True)
def main(show_version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False) -> None:  # noqa: FBT002
    """Likelihood-free inference with learned sufficient statistics."""
    if show_version:
        console.print(version("suffice"))
        raise typer.Exit


@app.command()
def models() -> None:
    """List the embedded models: their parameters, and the shape of their data."""
    table = Table("model", "parameters", "shape of x", "likelihood")
    for name, make in MODELS.items():
        model = make()
        known = "known" if model.log_likelihood is not None else "–"
        table.add_row(name, ", ".join(model.names), " × ".join(map(str, model.data_shape)), known)
    console.print(table)


@app.command()
def check(name: Annotated[str, typer.Argument(help="A model's name, as `suffice models` lists them.")]) -> None:
    """Try a model out and say what was seen. For example: suffice check ar2."""
    found = trial(_model(name))
    console.print(str(found), highlight=False)
    raise typer.Exit(0 if found.ok else 1)


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="The seed of everything random.")] = 0,
    num: Annotated[int, typer.Option(help="How many simulations to make.", min=1)] = 10_000,
) -> None:
    """The main job on an embedded example, ten Gamma values: check, simulate, fit, posterior against the exact one."""
    key_sims, key_fit, key_fresh, key_truth, key_draws = jax.random.split(jax.random.key(seed), 5)
    model = zoo.gamma()
    console.print("[bold]The model[/bold]: ten values from a Gamma distribution, shape k and scale theta unknown.")
    console.print(str(trial(model)), highlight=False)

    began = time.perf_counter()
    sims = simulate(key_sims, model, num)
    seconds = time.perf_counter() - began
    console.print(f"\n[bold]Simulated[/bold] {len(sims):,} pairs in {seconds:.2f} s:")
    console.print(_simulations_table(sims))

    fitted = fit(key_fit, model, sims)
    history = fitted.history
    console.print(
        f"\n[bold]Fitted[/bold] a neural exponential family by score matching in {history.seconds:.0f} s: "
        f"{fitted.family.num_statistics} statistics, {history.epochs} epochs, validation loss "
        f"{history.validation_loss[0]:.2f} at the first look and {history.best_loss:.2f} at the best."
    )
    console.print(_recovery_sentence(model, fitted, simulate(key_fresh, model, 1000)))

    observation = simulate(key_truth, model, 1)
    exact = zoo.exact_posterior(model, observation.x[0])
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", SamplingWarning)
        posterior = sample(key_draws, Direct(fitted), observation.x[0])
    console.print("\n[bold]One observation[/bold]: its posterior from the fit, and the exact one to hold it against:")
    console.print(_posterior_table(posterior, exact, observation))
    measures = posterior.convergence
    console.print(
        f"{posterior.flat.shape[0]:,} draws by NUTS, R-hat at most {measures.rhat.max():.3f}, worth at least "
        f"{measures.ess_bulk.min():,.0f} independent ones. The exact posterior is on a grid, to {exact.error:.1e} in "
        "probability; only here, where the likelihood is known, is there one."
    )
    for doubt in doubts:
        console.print(str(doubt.message))


def _recovery_sentence(model: Model, fitted: Fit, fresh: Simulations) -> str:
    assert model.sufficient_statistics is not None
    exact = np.asarray(jax.vmap(model.sufficient_statistics)(jnp.asarray(fresh.x)))
    found = mcc(fitted.statistics(fresh.x), exact)
    return (
        f"On {len(fresh):,} fresh simulations they recover the exact sufficient statistics, sum(log x) and sum(x), up "
        f"to a linear map with a mean correlation of {found.weak_out:.4f}. (1 is perfect; nobody told them.)"
    )


def _model(name: str) -> Model:
    if name not in MODELS:
        console.print(f"There is no model {name!r}. The models are: {', '.join(MODELS)}.")
        raise typer.Exit(2)
    return MODELS[name]()


def _simulations_table(sims: Simulations) -> Table:
    table = Table(*sims.names, "x (the first five values)")
    for theta, x in zip(sims.theta[:5], sims.x[:5], strict=True):
        table.add_row(*(f"{value:.3f}" for value in theta), "  ".join(f"{value:.3f}" for value in x[:5]))
    return table


def _posterior_table(posterior: Posterior, exact: GridPosterior, truth: Simulations) -> Table:
    table = Table("parameter", "truth", "mean", "exact mean", "sd", "exact sd")
    columns = (posterior.names, truth.theta[0], posterior.mean, exact.mean, posterior.sd, exact.sd)
    for name, *values in zip(*columns, strict=True):
        table.add_row(name, *(f"{value:.3f}" for value in values))
    return table
