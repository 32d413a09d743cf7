"""The command `demo`: the main job on an embedded example, from simulations to a report."""

import time
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.table import Table

from suffice import zoo
from suffice.cli.application import Quiet, Seed, app, speaking
from suffice.diagnostics import Calibration, calibrate, mcc, predictive_check
from suffice.fitting import Fit, fit
from suffice.grid import GridPosterior
from suffice.model import Model
from suffice.posterior import Posterior
from suffice.report import Judgement, judge
from suffice.report import report as write_report
from suffice.sampling import Direct, Exchange, sample
from suffice.simulation import Simulations, simulate
from suffice.simulation import check as trial


@app.command()
def demo(
    seed: Seed = 0,
    num: Annotated[int, typer.Option(help="How many simulations to make.", min=1)] = 10_000,
    folder: Annotated[Path, typer.Option(help="Where the report is written.")] = Path("suffice-demo"),
    quiet: Quiet = False,
) -> None:
    """The main job on an embedded example, ten Gamma values: simulate, fit, two posteriors, checks, report.

    For example: `suffice demo`
    """
    with speaking(quiet=quiet) as voice:
        keys = jax.random.split(jax.random.key(seed), 8)
        model = zoo.gamma()
        voice.say("[bold]The model[/bold]: ten values from a Gamma distribution, shape k and scale theta unknown.")
        voice.say(str(trial(model)))

        began = time.perf_counter()
        sims = simulate(keys[0], model, num, progress=voice.progress)
        voice.say(f"\n[bold]Simulated[/bold] {len(sims):,} pairs in {time.perf_counter() - began:.2f} s:")
        voice.say(_simulations_table(sims))

        fitted = fit(keys[1], model, sims, progress=voice.progress)
        history = fitted.history
        voice.say(
            f"\n[bold]Fitted[/bold] a neural exponential family by score matching in {history.seconds:.0f} s: "
            f"{fitted.family.num_statistics} statistics, {history.epochs} epochs, validation loss "
            f"{history.validation_loss[0]:.2f} at the first look and {history.best_loss:.2f} at the best."
        )
        voice.say(_recovery_sentence(model, fitted, simulate(keys[2], model, 1000, progress=False)))

        observation = simulate(keys[3], model, 1, progress=False)
        observed = observation.x[0]
        exact = zoo.exact_posterior(model, observed)
        direct = sample(keys[4], Direct(fitted), observed, progress=voice.progress)
        exchange = sample(keys[5], Exchange(fitted), observed, progress=voice.progress)
        voice.say("\n[bold]One observation[/bold]: its posterior by both samplers, and the exact one to hold against:")
        voice.say(_posterior_table({"Direct": direct, "Exchange": exchange}, exact, observation))

        check = predictive_check(keys[6], model, direct, observed)
        calibration = calibrate(keys[7], model, Direct(fitted), num=100, progress=voice.progress)
        folder.mkdir(parents=True, exist_ok=True)
        path = write_report(
            direct, path=folder / "report.html", fit=fitted, model=model, check=check, calibration=calibration,
            truth=observation.theta[0], reference=exact, title="Ten Gamma values",
        )  # fmt: skip
        voice.say("\n" + _closing(direct, exact, calibration, judge(direct, fitted, check, calibration), path))


def _recovery_sentence(model: Model, fitted: Fit, fresh: Simulations) -> str:
    assert model.sufficient_statistics is not None
    exact = np.asarray(jax.vmap(model.sufficient_statistics)(jnp.asarray(fresh.x)))
    found = mcc(fitted.statistics(fresh.x), exact)
    return (
        f"On {len(fresh):,} fresh simulations they recover the exact sufficient statistics, sum(log x) and sum(x), up "
        f"to a linear map with a mean correlation of {found.weak_out:.4f}. (1 is perfect; nobody told them.)"
    )


def _closing(
    posterior: Posterior, exact: GridPosterior, calibration: Calibration, judgement: Judgement, path: Path
) -> str:
    errors = np.abs(posterior.mean - exact.mean) / exact.sd
    return (
        f"[bold]What was found.[/bold] {judgement.verdict.value}. The posterior mean is within {errors.max():.2f} "
        f"posterior standard deviations of the exact one, from {posterior.flat.shape[0]:,} draws worth "
        f"at least {posterior.convergence.ess_bulk.min():,.0f} independent ones (R-hat at most "
        f"{posterior.convergence.rhat.max():.3f}). {calibration.verdict} Everything is in {path}: open it in a browser."
    )


def _simulations_table(sims: Simulations) -> Table:
    table = Table(*sims.names, "x (the first five values)")
    for theta, x in zip(sims.theta[:5], sims.x[:5], strict=True):
        table.add_row(*(f"{value:.3f}" for value in theta), "  ".join(f"{value:.3f}" for value in x[:5]))
    return table


def _posterior_table(found: dict[str, Posterior], exact: GridPosterior, truth: Simulations) -> Table:
    table = Table(
        "parameter", "truth", "exact mean", "exact sd", *(f"{name} {what}" for name in found for what in ("mean", "sd"))
    )
    for i, name in enumerate(truth.names):
        numbers = [truth.theta[0, i], exact.mean[i], exact.sd[i]]
        numbers += [value for posterior in found.values() for value in (posterior.mean[i], posterior.sd[i])]
        table.add_row(name, *(f"{value:.3f}" for value in numbers))
    return table
