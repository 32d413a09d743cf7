"""The density of a regression's statistics: against scipy, and fitted to pairs of a known law."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import chebyshev
from numpyro.distributions import constraints
from scipy.stats import multivariate_normal

from suffice.charts import Chart
from suffice.family.gaussian import ConditionalGaussian, fit_gaussian

UNBOUNDED = Chart.unscaled(constraints.real, (1,))


@pytest.mark.usefixtures("float64")
def test_the_density_of_replicates_is_scipys() -> None:
    """One parameter, two statistics: m and W by numpy's polynomials, the density by scipy."""
    rng = np.random.default_rng(0)
    means, factors = rng.normal(size=(4, 2)), rng.normal(size=(3, 3))
    whitener, centre = np.array([[0.5, 0.0], [0.3, 2.0]]), np.array([1.0, -2.0])
    parts = (np.array([0.2]), np.array([1.5]), centre, whitener, means, factors)
    middle, reach, mean, linear, first, second = (jnp.asarray(part) for part in parts)
    gaussian = ConditionalGaussian(
        Chart.unscaled(constraints.real, (1,)), middle, reach, mean, linear, first, second, degrees=(3, 2)
    )
    rows = rng.normal(size=(5, 2))

    def reference(theta: float) -> float:
        v = (theta - 0.2) / 1.5
        entries = np.asarray(chebyshev.chebval(v, factors))
        factor = np.array([[np.exp(entries[0]), 0.0], [entries[1], np.exp(entries[2])]])
        total = np.linalg.inv(factor @ whitener)
        at = centre + np.linalg.solve(whitener, chebyshev.chebval(v, means))
        return float(np.sum(multivariate_normal(at, total @ total.T).logpdf(rows)))

    gathered = gaussian.gather(jnp.asarray(rows))
    log_density = eqx.filter_jit(gaussian.log_density)
    found = [float(log_density(gathered, jnp.array([theta]), 5)) for theta in (-1.0, 0.3, 1.6)]
    exact = [reference(theta) for theta in (-1.0, 0.3, 1.6)]
    np.testing.assert_allclose(np.diff(found), np.diff(exact), rtol=1e-9)
    one = gaussian.gather(jnp.asarray(rows[:1]))
    np.testing.assert_allclose(one[2:], 0.0, atol=1e-12)


def test_mean_and_covariance_are_found() -> None:
    """s = θ + θ²/4 + (1 + θ/2) ε/10: what is found is as close as 4,000 pairs allow."""
    rng = np.random.default_rng(1)
    theta = rng.uniform(-1.0, 1.0, (4000, 2))
    noise = 0.1 * (1.0 + theta / 2.0) * rng.normal(size=theta.shape)
    chart = Chart.unscaled(constraints.real, (2,))
    gaussian = fit_gaussian(chart, theta, theta + theta**2 / 4.0 + noise)
    assert gaussian is not None
    assert gaussian.degrees[0] >= 2
    assert gaussian.degrees[1] >= 1
    for point in ([0.0, 0.0], [0.5, -0.5], [-0.8, 0.6]):
        at = np.array(point)
        mean, factor = (np.asarray(part, np.float64) for part in gaussian.moments(jnp.asarray(at, jnp.float32)))
        back = np.linalg.inv(np.asarray(gaussian.whitener, np.float64))
        inverse = back @ np.linalg.inv(factor)
        sd = 0.1 * (1.0 + at / 2.0)
        assert np.all(np.abs(np.asarray(gaussian.centre) + back @ mean - at - at**2 / 4.0) < 0.15 * sd)
        np.testing.assert_allclose(np.sqrt(np.diag(inverse @ inverse.T)), sd, rtol=0.1)


def test_statistics_that_depend_on_each_other_have_a_density() -> None:
    """The coordinates of a point on the simplex add up to 1: one direction is left out."""
    rng = np.random.default_rng(2)
    theta = rng.dirichlet([3.0, 3.0, 3.0], 200)
    statistics = theta + 0.02 * rng.normal(size=theta.shape) @ (np.eye(3) - 1.0 / 3.0)
    gaussian = fit_gaussian(Chart.fit(constraints.simplex, theta), theta, statistics)
    assert gaussian is not None
    assert gaussian.whitener.shape == (2, 3)
    gathered = gaussian.gather(jnp.asarray(statistics[:1], jnp.float32))
    here, there = (gaussian.log_density(gathered, jnp.asarray(theta[i], jnp.float32)) for i in (0, 1))
    assert here > there
    assert fit_gaussian(Chart.fit(constraints.simplex, theta), theta, np.ones((200, 2))) is None


def test_few_pairs_get_low_degrees() -> None:
    theta = np.linspace(-1.0, 1.0, 20)[:, None]
    noise = 0.1 * np.asarray(jax.random.normal(jax.random.key(0), theta.shape))
    gaussian = fit_gaussian(UNBOUNDED, theta, theta + noise)
    assert gaussian is not None
    assert max(gaussian.degrees) <= 4
    assert np.isfinite(float(gaussian.log_density(gaussian.gather(jnp.zeros((1, 1))), jnp.array([0.2]))))
    assert fit_gaussian(UNBOUNDED, theta[:2], theta[:2] + noise[:2]) is None, "no mean that depends on θ"
    assert fit_gaussian(UNBOUNDED, theta[:1], theta[:1]) is None


def test_parameters_may_have_units_of_any_size() -> None:
    """The same pairs with θ₁ in units a million times smaller: the same density of either parameter."""
    rng = np.random.default_rng(3)
    theta = rng.uniform(0.0, 1.0, (500, 2))
    statistics = theta + 0.05 * rng.normal(size=theta.shape)
    chart = Chart.unscaled(constraints.real, (2,))
    units = np.array([1e6, 1.0])
    found = []
    for unit in (np.ones(2), units):
        gaussian = fit_gaussian(chart, theta * unit, statistics * unit)
        assert gaussian is not None
        gathered = gaussian.gather(jnp.asarray(statistics[:1] * unit, jnp.float32))
        points = jnp.asarray(np.array([[0.2, 0.2], [0.2, 0.8], [0.8, 0.2]]) * unit, jnp.float32)
        found.append(np.asarray(jax.vmap(gaussian.log_density, (None, 0))(gathered, points)))
    np.testing.assert_allclose(np.diff(found[1]), np.diff(found[0]), rtol=1e-2)
