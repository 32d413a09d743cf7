"""Charts: round trips and log-determinants against automatic differentiation in float64, and their error messages."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpyro.distributions import constraints

from suffice.charts import Chart, Support, bounds, describe, per_coordinate
from suffice.errors import SupportError

SUPPORTS: dict[str, Support] = {
    "real": constraints.real,
    "positive": constraints.positive,
    "above": constraints.greater_than(-2.5),
    "below": constraints.less_than(4.0),
    "interval": constraints.interval(-3.0, 7.0),
    "unit": constraints.unit_interval,
    "open": constraints.open_interval(0.0, 2.0),
    "mixed": per_coordinate([constraints.real, constraints.positive, constraints.interval(1.0, 2.0)]),
}
# Standardised coordinates: far enough out for x to be within 1e-13 of its bounds.
coordinates = st.lists(st.floats(-15.0, 15.0), min_size=3, max_size=3)
affine = st.tuples(st.floats(-2.0, 2.0), st.floats(0.1, 2.0))


def scaled(support: Support, shift: float, scale: float) -> Chart:
    return Chart(support, jnp.full(3, shift), jnp.full(3, scale))


@pytest.mark.parametrize("support", SUPPORTS.values(), ids=SUPPORTS.keys())
@given(y=coordinates, affine=affine)
@settings(max_examples=40, deadline=None)
def test_round_trip(support: Support, y: list[float], affine: tuple[float, float]) -> None:
    with jax.enable_x64(True):
        chart = scaled(support, *affine)
        x = chart.inverse(jnp.array(y))
        again = chart.forward(x)
        # x next to a bound a is known to eps·max(|a|, |x|) only, so y is known to that over |dx/dy|.
        slope = np.abs(np.diag(np.asarray(jax.jacfwd(chart.inverse)(jnp.array(y)))))
        tolerance = 1e-13 + 2e-15 * np.maximum(8.0, np.abs(np.asarray(x))) / slope
        assert np.all(np.abs(np.asarray(again) - y) <= tolerance + 1e-13 * np.abs(y))
        back = chart.inverse(again)
        np.testing.assert_allclose(np.asarray(back), np.asarray(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("support", SUPPORTS.values(), ids=SUPPORTS.keys())
@given(y=coordinates, affine=affine)
@settings(max_examples=40, deadline=None)
def test_log_determinant_is_that_of_the_jacobian(support: Support, y: list[float], affine: tuple[float, float]) -> None:
    with jax.enable_x64(True):
        chart = scaled(support, *affine)
        jacobian = np.asarray(jax.jacfwd(chart.inverse)(jnp.array(y)))
        _, expected = np.linalg.slogdet(jacobian)
        # Automatic differentiation of 1 − σ(y) is off by eps/(1 − σ(y)) next to an upper bound; the chart is not.
        tolerance = 1e-11 + 1e-14 * np.sum(1.0 / np.abs(np.diag(jacobian)))
        assert abs(float(chart.log_det(jnp.array(y))) - expected) < tolerance


@pytest.mark.parametrize("prior", [dist.Dirichlet(jnp.ones(3)), dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2))])
def test_parameter_supports_that_are_no_product(prior: dist.Distribution, key: jax.Array, float64: None) -> None:
    theta = prior.sample(key, (50,))
    chart = Chart.fit(prior.support, theta, what="theta")
    y = jax.vmap(chart.forward)(theta)
    np.testing.assert_allclose(np.asarray(jax.vmap(chart.inverse)(y)), np.asarray(theta), atol=1e-6)
    np.testing.assert_allclose(np.asarray(y).mean(0), 0.0, atol=1e-6)


def test_density_of_the_chart_integrates_to_one(float64: None) -> None:
    """∫ p(x(y)) |dx/dy| dy = 1: the sign of the log-determinant is the one samplers need."""
    chart = Chart(constraints.positive, jnp.array([0.4]), jnp.array([0.7]))
    grid = np.linspace(-30.0, 20.0, 20_001)

    def log_density(y: jax.Array) -> jax.Array:
        return jnp.sum(dist.Gamma(2.0, 1.5).log_prob(chart.inverse(y))) + chart.log_det(y)

    values = np.exp(np.asarray(jax.vmap(log_density)(jnp.asarray(grid[:, None]))))
    assert np.trapezoid(values, grid) == pytest.approx(1.0, abs=1e-9)


def test_fit_standardises(key: jax.Array) -> None:
    x = np.exp(3.0 + 0.5 * np.asarray(jax.random.normal(key, (5000, 4))) * np.arange(1, 5))
    y = np.asarray(jax.vmap(Chart.fit(constraints.positive, x).forward)(x))
    np.testing.assert_allclose(y.mean(0), 0.0, atol=1e-4)
    np.testing.assert_allclose(y.std(0), 1.0, atol=1e-4)


def test_pooled_axes_share_one_scale(key: jax.Array) -> None:
    x = np.asarray(jax.random.normal(key, (400, 6, 2))) * np.array([1.0, 10.0]) + np.array([0.0, 5.0])
    chart = Chart.fit(constraints.real, x, pooled=(0,))
    assert chart.scale.shape == (6, 2)
    assert np.all(np.asarray(chart.scale) == np.asarray(chart.scale)[:1])
    np.testing.assert_allclose(np.asarray(chart.scale)[0], [1.0, 10.0], rtol=0.05)


@pytest.mark.parametrize(
    ("support", "value", "words"),
    [
        (constraints.positive, 0.0, "greater than 0"),
        (constraints.positive, -1.0, "greater than 0"),
        (constraints.less_than(2.0), 2.0, "less than 2"),
        (constraints.interval(0.0, 3.0), 3.0, "between 0 and 3"),
        (constraints.unit_interval, 1.5, "between 0 and 1"),
        (constraints.real, np.nan, "any real number"),
        (constraints.real, np.inf, "any real number"),
    ],
)
def test_a_value_on_or_outside_its_bound_is_named(support: Support, value: float, words: str) -> None:
    x = np.full((5, 4), 0.5)
    x[3, 2] = value
    with pytest.raises(SupportError, match=rf"Row 3, coordinate 2 of x is {value}.*{words}.*1 of 5 rows"):
        Chart.unscaled(support, (4,)).require_inside(x)


def test_coordinates_of_a_multivariate_series_are_named_by_both_indices() -> None:
    x = np.ones((2, 3, 2))
    x[1, 2, 1] = -4.0
    support = per_coordinate([constraints.real, constraints.positive])
    with pytest.raises(SupportError, match=r"Row 1, coordinate \(2, 1\) of x is -4.0"):
        Chart.fit(support, x)


def test_a_constant_coordinate_is_refused(key: jax.Array) -> None:
    x = np.array(jax.random.normal(key, (50, 3)))
    x[:, 1] = 4.0
    with pytest.raises(SupportError, match=r"x is constant at coordinate 1 in all 50 rows.*Leave"):
        Chart.fit(constraints.real, x)


def test_bounds_and_words() -> None:
    lower, upper = bounds(SUPPORTS["mixed"], (3,))
    assert lower.tolist() == [-np.inf, 0.0, 1.0]
    assert upper.tolist() == [np.inf, np.inf, 2.0]
    assert describe(SUPPORTS["mixed"]) == (
        "one support a coordinate (any real number, greater than 0, between 1 and 2)"
    )


def test_charts_pass_through_compiled_programs(key: jax.Array) -> None:
    chart = Chart.fit(SUPPORTS["mixed"], np.array([[0.1, 2.0, 1.5], [0.3, 1.0, 1.2]]))
    y = jax.random.normal(key, (3,))
    compiled = jax.jit(lambda chart, y: chart.forward(chart.inverse(y)))(chart, y)
    np.testing.assert_allclose(np.asarray(compiled), np.asarray(y), rtol=1e-4, atol=1e-5)


def test_scalings() -> None:
    x = np.random.default_rng(0).uniform(1.0, 5.0, (50, 3)) * np.array([1.0, 2.0, 4.0])
    ranged = Chart.unscaled(constraints.positive, (3,), "range").standardised_on(x, pooled=(0,))
    y = np.asarray(jax.vmap(ranged.forward)(x))
    np.testing.assert_allclose(y.min(0), 0.0, atol=1e-6)
    np.testing.assert_allclose(y.max(0), 1.0, atol=1e-6)
    plain = Chart.unscaled(constraints.positive, (3,), "none").standardised_on(x)
    np.testing.assert_allclose(jax.vmap(plain.forward)(x), np.log(x), rtol=1e-6)
    assert (ranged.scaling, plain.scaling) == ("range", "none")
