"""Ten Gamma values: the posterior from learned statistics beside the exact one.

`python gamma.py` writes gamma.png, the picture of the README; `--quick` tries it out in small, with a poor fit.
"""

import argparse
from pathlib import Path

import jax

import suffice as sf


def main() -> None:
    """Simulate, fit, sample, and draw the posterior over the exact one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few simulations, little training")
    parser.add_argument("--picture", type=Path, default=Path("gamma.png"))
    options = parser.parse_args()
    num, training = (400, sf.Training(epochs=2, batch_size=100)) if options.quick else (10_000, None)
    key_sims, key_fit, key_data, key_draws = jax.random.split(jax.random.key(0), 4)

    model = sf.zoo.gamma()
    sims = sf.simulate(key_sims, model, num)
    fit = sf.fit(key_fit, model, sims, training=training)

    data = sf.simulate(key_data, model, 1)
    post = sf.sample(key_draws, sf.Direct(fit), data.x[0])
    exact = sf.zoo.exact_posterior(model, data.x[0])
    print(post.summary())
    print(f"exact mean {exact.mean}, exact standard deviations {exact.sd}")
    figure = sf.plot.pair(post, truth=data.theta[0], reference=exact, labels=("suffice", "exact"))
    figure.savefig(options.picture, dpi=110)
    print(f"Written to {options.picture}.")


if __name__ == "__main__":
    main()
