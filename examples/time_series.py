"""An autoregressive series of order 2: statistics that sum over windows, and a posterior beside the exact one.

`python time_series.py` writes time_series.png; `--quick` tries it out in small, with a poor fit.
"""

import argparse
from pathlib import Path

import jax

import suffice as sf


def main() -> None:
    """Simulate, fit, sample, and draw the posterior over the exact one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few simulations, little training")
    parser.add_argument("--picture", type=Path, default=Path("time_series.png"))
    options = parser.parse_args()
    num, training = (400, sf.Training(epochs=2, batch_size=100)) if options.quick else (10_000, None)
    keys = jax.random.split(jax.random.key(0), 4)

    model = sf.zoo.ar2()  # x_t depends on x_{t-1} and x_{t-2}: markov_order=2
    sims = sf.simulate(keys[0], model, num)
    fit = sf.fit(keys[1], model, sims, training=training)
    print(
        f"{type(fit.family.statistics).__name__} of order {model.markov_order}: {fit.family.num_statistics} statistics"
    )

    data = sf.simulate(keys[2], model, 1)
    post = sf.sample(keys[3], sf.Direct(fit), data.x[0])
    exact = sf.zoo.exact_posterior(model, data.x[0])
    print(post.summary())
    print(f"exact mean {exact.mean}, exact standard deviations {exact.sd}")
    figure = sf.plot.pair(post, truth=data.theta[0], reference=exact, labels=("suffice", "exact"))
    figure.savefig(options.picture, dpi=110)
    print(f"Written to {options.picture}.")


if __name__ == "__main__":
    main()
