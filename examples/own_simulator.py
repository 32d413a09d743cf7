"""A simulator of one's own: a culture that grows to its capacity in a noisy environment.

`python own_simulator.py` fits it and writes own_simulator.png and own_simulator.html; `--quick` tries it out in small.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import suffice as sf

CAPACITY, FIRST = 100.0, 5.0


def simulator(key: jax.Array, theta: jax.Array) -> jax.Array:
    """Thirty daily sizes of one culture."""
    growth, noise = theta

    def day(size: jax.Array, shock: jax.Array) -> tuple[jax.Array, jax.Array]:
        size = size * jnp.exp(growth * (1.0 - size / CAPACITY) + noise * shock)
        return size, size

    return jax.lax.scan(day, jnp.asarray(FIRST), jax.random.normal(key, (30,)))[1]


def main() -> None:
    """Check, simulate, fit, sample, check again, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few simulations, little training")
    parser.add_argument("--picture", type=Path, default=Path("own_simulator.png"))
    options = parser.parse_args()
    num, training = (400, sf.Training(epochs=2, batch_size=100)) if options.quick else (10_000, None)
    keys = jax.random.split(jax.random.key(0), 6)

    prior = dist.Uniform(jnp.array([0.05, 0.05]), jnp.array([0.6, 0.3])).to_event(1)
    model = sf.Model(prior, simulator, support=dist.constraints.positive, names=("growth", "noise"), markov_order=1)
    print(sf.check(model))
    sims = sf.simulate(keys[0], model, num)
    fit = sf.fit(keys[1], model, sims, training=training)

    observed = simulator(keys[2], jnp.array([0.3, 0.15]))
    post = sf.sample(keys[3], sf.Direct(fit), observed)
    print(post.summary())
    check = sf.diagnostics.predictive_check(keys[4], model, post)
    print(check.verdict)
    predictive = post.predictive(keys[5], model, 500)
    path = options.picture.with_suffix(".html")
    sf.report(post, path=path, fit=fit, model=model, check=check, predictive=predictive)
    sf.plot.bands(predictive, observed).savefig(options.picture, dpi=110)
    print(f"Written to {options.picture} and {path}.")


if __name__ == "__main__":
    main()
