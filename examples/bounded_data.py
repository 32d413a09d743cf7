"""Data between 0 and 1: soil moisture that is filled by rain and drains, fitted in the chart of its support.

`python bounded_data.py` writes bounded_data.png; `--quick` tries it out in small, with a poor fit.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import suffice as sf


def simulator(key: jax.Array, theta: jax.Array) -> jax.Array:
    """Forty days of moisture: a random share of what is free is filled, then a random share of all drains."""
    rain, drainage = theta
    key_rain, key_drain = jax.random.split(key)
    filled = jax.random.beta(key_rain, 4.0 * rain, 4.0 * (1.0 - rain), (40,))
    drained = jax.random.beta(key_drain, 20.0 * drainage, 20.0 * (1.0 - drainage), (40,))

    def day(moisture: jax.Array, shares: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        moisture = (moisture + shares[0] * (1.0 - moisture)) * (1.0 - shares[1])
        return moisture, moisture

    return jax.lax.scan(day, jnp.asarray(0.5), (filled, drained))[1]


def main() -> None:
    """Declare the support, fit, sample, and draw what the posterior predicts: it stays between 0 and 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few simulations, little training")
    parser.add_argument("--picture", type=Path, default=Path("bounded_data.png"))
    options = parser.parse_args()
    num, training = (400, sf.Training(epochs=2, batch_size=100)) if options.quick else (10_000, None)
    keys = jax.random.split(jax.random.key(0), 5)

    prior = dist.Uniform(jnp.array([0.1, 0.1]), jnp.array([0.5, 0.5])).to_event(1)
    support = dist.constraints.unit_interval
    model = sf.Model(prior, simulator, support=support, names=("rain", "drainage"), markov_order=1)
    print(sf.check(model))
    sims = sf.simulate(keys[0], model, num)
    fit = sf.fit(keys[1], model, sims, training=training)

    data = sf.simulate(keys[2], model, 1)
    post = sf.sample(keys[3], sf.Direct(fit), data.x[0])
    print(f"simulated at {data.theta[0]}")
    print(post.summary())
    sf.plot.bands(post.predictive(keys[4], model, 500), data.x[0]).savefig(options.picture, dpi=110)
    print(f"Written to {options.picture}.")


if __name__ == "__main__":
    main()
