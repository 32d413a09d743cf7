"""Infer the parameters of a simulator that is a program: `simulator.c`, or `simulator.R` with `--r`.

Run it in this folder: `python external_command.py` needs a C compiler, `--r` needs Rscript and the package jsonlite.
"""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import suffice as sf

HERE = Path(__file__).parent


def command() -> list[str]:
    """The program to start, which is compiled first if it is the one in C."""
    if "--r" in sys.argv:
        return ["Rscript", str(HERE / "simulator.R")]
    program = HERE / "simulator"
    subprocess.run(["cc", "-O2", "-o", program, HERE / "simulator.c", "-lm"], check=True)
    return [str(program)]


def main() -> None:
    """Simulate into a store, fit, and sample a posterior."""
    prior = dist.Uniform(jnp.array([-0.9, 0.5]), jnp.array([0.9, 2.0])).to_event(1)
    model = sf.Model.command(prior, command(), names=["phi", "sigma"], markov_order=1, time_limit=10.0)
    print(sf.check(model))
    sims = sf.simulate(jax.random.key(0), model, 5000, store=HERE / "simulations.zarr")
    fit = sf.fit(jax.random.key(1), model, sims)
    truth = sf.simulate(jax.random.key(2), model, 1)
    print(f"phi and sigma that made the data: {truth.theta[0]}")
    print(sf.sample(jax.random.key(3), sf.Direct(fit), truth.x[0]).summary())


if __name__ == "__main__":
    main()
