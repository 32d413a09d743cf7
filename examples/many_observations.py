"""One fit, many observations: a posterior for each in one call, one posterior given replicates, and calibration.

`python many_observations.py` writes many_observations.png; `--quick` tries it out in small, with a poor fit.
"""

import argparse
from pathlib import Path

import jax
import numpy as np

import suffice as sf
from suffice.simulation import simulate_at


def main() -> None:
    """Fit once; then posteriors of forty observations, of replicates, and of two hundred simulated data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few simulations, little training")
    parser.add_argument("--picture", type=Path, default=Path("many_observations.png"))
    options = parser.parse_args()
    num, training = (400, sf.Training(epochs=2, batch_size=100)) if options.quick else (10_000, None)
    many, sets = (20, 20) if options.quick else (40, 200)
    keys = jax.random.split(jax.random.key(0), 6)

    model = sf.zoo.gamma()
    fit = sf.fit(keys[0], model, sf.simulate(keys[1], model, num), training=training)
    method = sf.Direct(fit)

    data = sf.simulate(keys[2], model, many)
    posts = sf.sample_each(keys[3], method, data.x, num_draws=250, num_chains=2)
    inside = [np.all((post.interval(0.9)[0] <= theta) & (theta <= post.interval(0.9)[1])) for post, theta in
              zip(posts, data.theta, strict=True)]  # fmt: skip
    print(f"Of {many} pairs of 90% intervals {sum(inside)} hold both parameters.")

    theta = np.repeat(data.theta[:1], 5, axis=0)  # five replicates of one experiment
    replicates = np.asarray(simulate_at(keys[4], model, theta).x)
    post = sf.sample(keys[3], method, replicates, iid=True)
    print(f"given one: sd {posts[0].sd}; given five: sd {post.sd}")

    calibration = sf.diagnostics.calibrate(keys[5], model, method, sets)
    print(calibration.verdict)
    sf.plot.calibration(calibration).savefig(options.picture, dpi=110)
    print(f"Written to {options.picture}.")


if __name__ == "__main__":
    main()
