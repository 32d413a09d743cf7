"""How close `Direct` posteriors of Lorenz96 large, 4,800 coordinates and four parameters, are to the exact ones.

    python benchmarks/accuracy_lorenz.py [--simulations 8000] [--exact 20] [--ranks 200]

A regression on `Innovations`. Prints seconds of the fit, the error of E[θ|x], a posterior of 4 × 1000 draws with its
doubts; the mean and standard deviation of `--exact` posteriors against the exact ones; and ranks of `--ranks` prior
draws among 99 draws of their posteriors. Fits are kept in `.cache/accuracy_lorenz` and used again.

The exact posterior: a Runge–Kutta step depends on b₀ and e only through c = b₀ + e, so two successive states and b₁
give c, by fixed-point iteration; e = c − b₀ is an AR(1) series, and its density times |dc/dx| is the likelihood. c and
the log-determinant are quadratic polynomials of b₁ through three values around the true one. A random walk of 40,000
steps from the true parameters, its proposal shaped by its first quarter, which is thrown away.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.stats import chisquare

import suffice as sf
from suffice.family import Regression
from suffice.family.statistics import Innovations
from suffice.zoo import lorenz

CACHE = Path(".cache") / "accuracy_lorenz"
MODEL = sf.zoo.lorenz96("large")
LOW, HIGH = np.array([1.4, 0.0, 1.5, 0.0]), np.array([2.2, 1.0, 2.5, 1.0])
STEPS = 40_000
AROUND = 0.1  # the distance of the other two values of b₁


def cached_fit(simulations: int) -> tuple[sf.Fit, str]:
    """The regression, and how long it took if it was made now."""
    path, words = CACHE / f"{simulations}.npz", "fit from the cache"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        sims = sf.simulate(jax.random.key(0), MODEL, simulations)
        simulated = time.perf_counter()
        network = Innovations(jax.random.key(3), MODEL.data_shape, 4, order=1, neighbours=(2, 1))
        training = sf.Training(epochs=200, batch_size=200, learning_rate=1e-2, validation_fraction=0.2)
        family = Regression.assemble(MODEL, network)
        fit = sf.fit(jax.random.key(1), MODEL, sims, sf.PosteriorMean(), family=family, training=training)
        words = f"simulations {simulated - start:.0f} s, fit {time.perf_counter() - simulated:.0f} s"
        fit.save(path)
    return sf.load(path), words


def next_state(y: Float[Array, " k"], c: Float[Array, " k"], b1: Array) -> Float[Array, " k"]:
    """One step under the constant forcing c = b₀ + e."""

    def drift(y: Array) -> Array:
        advection = jnp.roll(y, 1) * (jnp.roll(y, 2) - jnp.roll(y, -1))
        return -advection - y + lorenz.FORCING - b1 * y - c

    h = lorenz.TIME_STEP
    k1 = drift(y)
    k2 = drift(y + 0.5 * h * k1)
    k3 = drift(y + 0.5 * h * k2)
    k4 = drift(y + h * k3)
    return y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def forcing(x: Float[Array, "t k"], b1: Array) -> tuple[Float[Array, "t k"], Float[Array, ""]]:
    """c of every step, and Σ log |dc/dx|."""
    before = jnp.concatenate([jnp.asarray(lorenz.INITIAL_STATE, x.dtype)[None], x[:-1]])

    def solve(y: Array, after: Array) -> tuple[Array, Array]:
        def improve(_: int, c: Array) -> Array:
            return c + (next_state(y, c, b1) - after) / lorenz.TIME_STEP

        c = jax.lax.fori_loop(0, 30, improve, jnp.zeros_like(y))
        return c, -jnp.linalg.slogdet(jax.jacfwd(next_state, 1)(y, c, b1))[1]

    c, log_dets = jax.lax.map(lambda pair: solve(*pair), (before, x))
    return c, jnp.sum(log_dets)


def exact_posterior(key: Array, x: Float[Array, "t k"], truth: Float[Array, "4"]) -> Float[Array, "draws 4"]:
    """Draws of the posterior of one x."""
    low, high = jnp.asarray(LOW), jnp.asarray(HIGH)
    nodes = truth[1] + AROUND * jnp.array([-1.0, 0.0, 1.0])
    c, log_dets = jax.lax.map(lambda b1: forcing(x, b1), nodes)

    def log_density(theta: Array) -> Array:
        b0, b1, sigma, phi = theta
        d = (b1 - truth[1]) / AROUND
        weights = jnp.array([0.5 * d * (d - 1.0), 1.0 - d * d, 0.5 * d * (d + 1.0)])
        e = jnp.tensordot(weights, c, 1) - b0
        previous = jnp.concatenate([jnp.zeros_like(e[:1]), e[:-1]])
        sd = sigma * jnp.sqrt(1.0 - phi**2)
        value = -0.5 * jnp.sum(((e - phi * previous) / sd) ** 2) - e.size * jnp.log(sd) + weights @ log_dets
        return jnp.where(jnp.all((theta > low) & (theta < high)), value, -jnp.inf)

    def step(carried: tuple[Array, Array], inputs: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        theta, value = carried
        noise, uniform = inputs
        proposal = theta + noise
        new = log_density(proposal)
        accepted = jnp.log(uniform) < new - value
        theta, value = jnp.where(accepted, proposal, theta), jnp.where(accepted, new, value)
        return (theta, value), theta

    def walk(key: Array, state: tuple[Array, Array], factor: Array, number: int) -> tuple[tuple[Array, Array], Array]:
        first, second = jax.random.split(key)
        noise = jax.random.normal(first, (number, 4), x.dtype) @ factor.T
        return jax.lax.scan(step, state, (noise, jax.random.uniform(second, (number,), x.dtype)))

    state, factor = (truth, log_density(truth)), jnp.diag(jnp.array([0.03, 0.01, 0.015, 0.008]))
    for part, number in enumerate((STEPS // 8, STEPS // 8, STEPS - STEPS // 4)):
        state, draws = walk(jax.random.fold_in(key, part), state, factor, number)
        covariance = jnp.cov(draws[len(draws) // 4 :], rowvar=False) + 1e-12 * jnp.eye(4)
        factor = 1.19 * jnp.linalg.cholesky(covariance)
    return draws


def against_exact(fit: sf.Fit, num: int) -> None:
    """Print errors of means and ratios of standard deviations."""
    sims = sf.simulate(jax.random.key(41), MODEL, num)
    found = sf.sample_each(jax.random.key(1), sf.Direct(fit), sims.x, num_draws=1000, num_chains=2)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(2), num)
        x, theta = jnp.asarray(sims.x, jnp.float64), jnp.asarray(sims.theta, jnp.float64)
        exact = np.asarray(jax.jit(lambda rows: jax.lax.map(lambda row: exact_posterior(*row), rows))((keys, x, theta)))
    mean, sd = exact.mean(1), exact.std(1)
    halves = [exact[:, half].mean(1) for half in (slice(0, exact.shape[1] // 2), slice(exact.shape[1] // 2, None))]
    means, sds = np.stack([post.mean for post in found]), np.stack([post.sd for post in found])

    def show(words: str, values: np.ndarray) -> None:
        print(f"{words:58}", np.round(values, 4))

    print(f"against {num} exact posteriors, for {', '.join(MODEL.names)}:")
    show("median exact standard deviation", np.median(sd, axis=0))
    show("error of its halves' means, in exact sd, rms", np.sqrt(np.mean(((halves[0] - halves[1]) / sd) ** 2, axis=0)))
    show("error of the mean, in exact sd, rms", np.sqrt(np.mean(((means - mean) / sd) ** 2, axis=0)))
    show("error of the mean, in exact sd, median", np.median(np.abs(means - mean) / sd, axis=0))
    show("ratio of standard deviations, median", np.median(sds / sd, axis=0))
    show("quartiles of that", np.quantile(sds / sd, 0.25, axis=0))
    show("", np.quantile(sds / sd, 0.75, axis=0))
    show("root mean square of true θ less exact mean", np.sqrt(np.mean((sims.theta - mean) ** 2, axis=0)))
    show("the same of the mean found", np.sqrt(np.mean((sims.theta - means) ** 2, axis=0)))


def calibration(fit: sf.Fit, num: int) -> None:
    """Print the uniformity of ranks, and how well chains of all observations mixed."""
    sims = sf.simulate(jax.random.key(9000), MODEL, num)
    start = time.perf_counter()
    found = sf.sample_each(jax.random.key(1), sf.Direct(fit), sims.x, num_draws=495, num_chains=2)
    seconds = time.perf_counter() - start
    ranks = np.array([np.sum(post.flat[::10] < theta, axis=0) for post, theta in zip(found, sims.theta, strict=True)])
    rhat = np.array([post.convergence.rhat.max() for post in found])
    print(
        f"{num} posteriors of 2 × 495 draws in {seconds:.0f} s; R-hat median {np.median(rhat):.4f}, "
        f"{rhat.max():.4f} at most"
    )
    for name, column in zip(MODEL.names, ranks.T, strict=True):
        counts = np.histogram(column, bins=10, range=(0, 100))[0]
        inside = np.mean((column >= 5) & (column < 95))
        print(f"{name:8} ranks {counts}, p = {chisquare(counts).pvalue:.3f}; within the central 90 %: {inside:.3f}")


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=8000)
    parser.add_argument("--exact", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=200)
    given = parser.parse_args()
    fit, words = cached_fit(given.simulations)
    print(
        words,
        f"(of it training {fit.history.seconds:.0f} s), degrees {fit.normaliser.degrees if fit.normaliser else None}",
    )
    fresh = sf.simulate(jax.random.key(9), MODEL, 500)
    print("root mean squared error of E[θ|x]:", np.sqrt(np.mean((fit.statistics(fresh.x) - fresh.theta) ** 2, axis=0)))
    observed = sf.simulate(jax.random.key(777), MODEL, 2)
    for row, truth in zip(observed.x, observed.theta, strict=True):
        start = time.perf_counter()
        post = sf.sample(jax.random.key(2), sf.Direct(fit), row)
        print(f"posterior of 4 × 1000 draws: {time.perf_counter() - start:.1f} s; truth {truth}")
        print(post.summary().round(4).to_string(), post.info["doubts"], flush=True)
    calibration(fit, given.ranks)
    against_exact(fit, given.exact)


if __name__ == "__main__":
    main()
