"""Infer the parameters of a simulator that is a program: `simulator.c`, or `simulator.R` with `--r`.

`python external_command.py` needs a C compiler; with `--r` it needs Rscript and the package jsonlite instead, and makes
fewer simulations, as R takes a moment to start. Simulations go to a store in the current folder: kill it and start it
again, and it goes on. It ends in external_command.png; `--quick` tries it out in small.
"""

import argparse
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import suffice as sf

HERE = Path(__file__).parent


def command(*, in_r: bool) -> list[str]:
    """The program to start, which is compiled first if it is the one in C."""
    if in_r:
        return ["Rscript", str(HERE / "simulator.R")]
    program = Path("simulator").resolve()
    subprocess.run(["cc", "-O2", "-o", program, HERE / "simulator.c", "-lm"], check=True)
    return [str(program)]


def main() -> None:
    """Simulate into a store, fit, sample a posterior, and predict from it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--r", action="store_true", help="the simulator in R")
    parser.add_argument("--quick", action="store_true", help="few simulations, little training")
    parser.add_argument("--picture", type=Path, default=Path("external_command.png"))
    options = parser.parse_args()
    num, training = (
        (200, sf.Training(epochs=2, batch_size=50)) if options.quick else (1000 if options.r else 5000, None)
    )

    prior = dist.Uniform(jnp.array([-0.9, 0.5]), jnp.array([0.9, 2.0])).to_event(1)
    argv = command(in_r=options.r)
    model = sf.Model.command(prior, argv, names=["phi", "sigma"], markov_order=1, time_limit=30.0)
    print(sf.check(model))
    store = "simulations-r.zarr" if options.r else "simulations.zarr"
    sims = sf.simulate(jax.random.key(0), model, num, store=store)
    fit = sf.fit(jax.random.key(1), model, sims, training=training)
    truth = sf.simulate(jax.random.key(2), model, 1)
    post = sf.sample(jax.random.key(3), sf.Direct(fit), truth.x[0])
    print(f"phi and sigma that made the data: {truth.theta[0]}")
    print(post.summary())
    predictive = post.predictive(jax.random.key(4), model, 100)
    sf.plot.bands(predictive, truth.x[0]).savefig(options.picture, dpi=110)
    print(f"Written to {options.picture}.")


if __name__ == "__main__":
    main()
