"""The normaliser against log Z(θ) in closed form, and the self-check that finds a wrong one."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import suffice as sf
from suffice.charts import Chart, bounds
from suffice.family import ExponentialFamily
from suffice.family.normaliser import Normaliser, chebyshev_products, fit_normaliser, monomials
from suffice.family.residual import residual

NUM, HELD_OUT = 5_000, 1_000


def exact_family(model: sf.Model) -> ExponentialFamily:
    """The family that has the model's own statistics, of x itself, and its natural parameters."""
    statistics, natural = model.sufficient_statistics, model.natural_parameters
    assert statistics is not None
    assert natural is not None
    chart = Chart.unscaled(model.support, model.data_shape)
    return ExponentialFamily.assemble(
        model, lambda y: statistics(chart.inverse(y)), natural, base=lambda y: jnp.zeros(1)
    )


def fitted(
    key: jax.Array, model: sf.Model, family: ExponentialFamily, num: int = NUM
) -> tuple[Normaliser, np.ndarray, np.ndarray]:
    """The normaliser, and the held-out pairs."""
    key_theta, key_x = jax.random.split(key)
    drawn = model.prior.sample(key_theta, (num + HELD_OUT,))

    @jax.jit
    def simulated(keys: jax.Array, theta: jax.Array) -> jax.Array:
        return jax.vmap(lambda key, theta: family.data_chart.forward(model.simulator(key, theta)))(keys, theta)

    theta, y = np.asarray(drawn), np.asarray(simulated(jax.random.split(key_x, len(drawn)), drawn))
    chart = model.parameter_chart(theta[:num])
    normaliser = fit_normaliser(family, chart, theta[:num], y[:num], theta[num:], y[num:])
    return normaliser, theta[num:], y[num:]


def local_error(
    key: jax.Array, model: sf.Model, normaliser: Normaliser, theta: np.ndarray, sd: np.ndarray
) -> np.ndarray:
    """|error of A(θ') − A(θ)| at θ' drawn about each θ with standard deviation `sd`, inside the prior's support.

    log Z is taken from the likelihood: at a fixed x, η(θ)·f(x) − log p(x|θ) up to a constant.
    """
    log_likelihood, statistics = model.log_likelihood, model.sufficient_statistics
    assert log_likelihood is not None
    assert statistics is not None
    low, high = bounds(model.prior.support, theta.shape[1:])
    near = theta + sd * np.asarray(jax.random.normal(key, theta.shape))
    inside = np.all((near > low) & (near < high), axis=1)
    x = model.simulator(key, jnp.asarray(theta[0]))

    def difference(theta: jax.Array) -> jax.Array:
        return normaliser.log_density(statistics(x), theta) - log_likelihood(x, theta)

    values = jax.jit(jax.vmap(difference))
    return np.abs(np.asarray(values(jnp.asarray(near[inside])) - values(jnp.asarray(theta[inside]))))


@pytest.mark.parametrize(
    ("name", "sd", "bound"), [("gamma", (0.4, 0.4), 0.05), ("beta", (0.4, 0.4), 0.05), ("gaussian", (1.5, 1.0), 0.08)]
)
def test_it_is_log_z_over_the_width_of_a_posterior(
    name: str, sd: tuple[float, ...], bound: float, key: jax.Array
) -> None:
    model = getattr(sf.zoo, name)()
    normaliser, theta, _ = fitted(key, model, exact_family(model))
    errors = local_error(key, model, normaliser, theta, np.array(sd))
    assert np.median(errors) < bound
    assert np.quantile(errors, 0.95) < 5 * bound


def linear_gaussian(p: int) -> sf.Model:
    """x ~ N(Bθ, I) of length 2p, θ ~ N(0, I): f = x, η = Bθ, log Z = |Bθ|²/2 for a standard Gaussian base."""
    matrix = jax.random.normal(jax.random.key(3), (2 * p, p)) / jnp.sqrt(p)

    def log_likelihood(x: jax.Array, theta: jax.Array) -> jax.Array:
        return x @ (matrix @ theta) - 0.5 * jnp.sum((matrix @ theta) ** 2)

    return sf.Model(
        dist.Normal(jnp.zeros(p), 1.0).to_event(1),
        lambda key, theta: matrix @ theta + jax.random.normal(key, (2 * p,)),
        log_likelihood=log_likelihood,
        sufficient_statistics=lambda x: x,
        natural_parameters=lambda theta: matrix @ theta,
    )


@pytest.mark.parametrize("p", [1, 4])
def test_it_is_log_z_of_a_linear_gaussian_model_with_an_unbounded_prior(p: int, key: jax.Array) -> None:
    model = linear_gaussian(p)
    normaliser, theta, _ = fitted(key, model, exact_family(model), num=3_000)
    assert np.median(local_error(key, model, normaliser, theta, np.full(p, 0.4))) < 0.06


def test_it_takes_few_rows_and_many_parameters(key: jax.Array) -> None:
    model = linear_gaussian(10)
    normaliser, theta, _ = fitted(key, model, exact_family(model), num=1_000)
    assert normaliser.degrees[0] >= 1
    assert np.isfinite(jax.vmap(normaliser)(jnp.asarray(theta))).all()


@pytest.fixture(scope="module")
def beta() -> tuple[ExponentialFamily, Normaliser, np.ndarray, np.ndarray]:
    model = sf.zoo.beta()
    family = exact_family(model)
    return family, *fitted(jax.random.key(5), model, family)


Beta = tuple[ExponentialFamily, Normaliser, np.ndarray, np.ndarray]


def test_replicates_add_up(beta: Beta) -> None:
    family, normaliser, _, y = beta
    theta = jnp.array([1.3, 2.2])
    f = jax.vmap(family.statistics_of)(jnp.asarray(y[:4]))
    one_by_one = jax.vmap(lambda row: normaliser.log_density(row, theta))(f).sum()
    np.testing.assert_allclose(normaliser.log_density(f.sum(0), theta, 4), one_by_one, rtol=1e-4)
    expected = family.natural(theta) @ f[0] - normaliser(theta)
    np.testing.assert_allclose(normaliser.log_density(f[0], theta), expected, rtol=1e-4)


def test_a_large_constant_in_the_statistics_changes_nothing_but_a_linear_term(beta: Beta) -> None:
    family, normaliser, theta, y = beta
    shifted = eqx.tree_at(lambda n: n.centre, normaliser, normaliser.centre + 1e4)
    f = family.statistics_of(jnp.asarray(y[0]))
    points = jnp.asarray(theta[:50])
    values = eqx.filter_jit(lambda n, f: jax.vmap(lambda t: n.log_density(f, t))(points))
    plain, moved = values(normaliser, f), values(shifted, f + 1e4)
    np.testing.assert_allclose(moved, plain, atol=0.02)


def test_the_residual_is_silent_on_a_right_normaliser_and_finds_a_tilted_one(beta: Beta) -> None:
    family, normaliser, theta, y = beta
    right = residual(normaliser, family, theta, y)
    assert right.mean.shape == right.standard_error.shape == right.shift.shape == (2, 10, 2)
    assert right.largest < 4
    assert right.excess < 2
    tilt = normaliser.polynomial.at[0].add(2.0)
    wrong = residual(eqx.tree_at(lambda n: n.polynomial, normaliser, tilt), family, theta, y)
    assert wrong.largest > 6
    assert wrong.excess > 5
    np.testing.assert_allclose(wrong.shift[..., 1], right.shift[..., 1], atol=1e-4)


def test_it_is_smooth_where_training_pairs_end_and_straight_beyond() -> None:
    def slope(v: float) -> np.ndarray:
        return np.asarray(jax.jacfwd(lambda v: chebyshev_products(v, 6))(jnp.array([v])))[:, 0]

    for end in (-1.0, 1.0):
        np.testing.assert_allclose(slope(1.001 * end), slope(0.99999 * end), atol=0.02)
        np.testing.assert_array_equal(slope(2 * end), slope(5 * end))


def test_monomials_are_all_there_and_nested() -> None:
    exponents = monomials(3, 4)
    assert len(exponents) == 35 == len({tuple(row) for row in exponents})
    np.testing.assert_array_equal(monomials(3, 2), exponents[:10])


def test_polynomials_are_the_same_in_either_precision() -> None:
    single = np.asarray(jax.jit(lambda v: chebyshev_products(v, 3))(jnp.array([0.3, -0.4])))
    with jax.enable_x64(True):
        double = np.asarray(jax.jit(lambda v: chebyshev_products(v, 3))(jnp.array([0.3, -0.4])))
    assert double.dtype == np.float64
    np.testing.assert_allclose(single, double, rtol=1e-6)


def test_it_is_deterministic_and_needs_no_more_than_arrays_to_be_written(beta: Beta) -> None:
    family, normaliser, _, _ = beta
    again = fitted(jax.random.key(5), sf.zoo.beta(), family)[0]
    np.testing.assert_array_equal(again.multipliers, normaliser.multipliers)
    assert all(part.dtype == jnp.float32 for part in (again.polynomial, again.middle, again.reach, again.centre))
