"""Objectives: their values against dense definitions, and that slices, charts and corrections agree as theory says."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import constraints

import suffice as sf
from suffice.charts import Chart
from suffice.family import ExponentialFamily
from suffice.family.statistics import Mlp
from suffice.matching import Dense, PosteriorMean, ScoreMatching, SlicedScoreMatching
from suffice.matching.corrected import corrected_loss
from suffice.matching.objectives import Batch
from suffice.matching.weighting import conditional_precision, conditional_variance, dependent

WRONG: Any = "best"


def small_family(model: sf.Model, key: jax.Array, *, own_base: bool) -> ExponentialFamily:
    keys = jax.random.split(key, 3)
    p, shape = model.num_parameters, model.data_shape
    statistics = Mlp(keys[0], shape, 3 if own_base else 4, (8, 8))
    natural = Mlp(keys[1], (p,), 3, (6,))
    base = Mlp(keys[2], shape, 1, (7,)) if own_base else None
    return ExponentialFamily.assemble(model, statistics, natural, base)


@pytest.fixture(params=[True, False], ids=["own base", "shared base"])
def family_and_batch(request: pytest.FixtureRequest, float64: None) -> tuple[ExponentialFamily, Batch]:
    model = sf.zoo.gamma()
    sims = sf.simulate(jax.random.key(3), model, 40)
    x, theta = sims.x.astype(np.float64), sims.theta.astype(np.float64)
    family = small_family(model, jax.random.key(4), own_base=request.param).with_charts(model, theta, x)
    family = family.frozen_on(jnp.asarray(theta))
    y = jax.vmap(family.data_chart.forward)(jnp.asarray(x))
    return family, Batch(y, jnp.asarray(theta), jnp.linspace(0.5, 1.5, 40))


def dense_loss(family: ExponentialFamily, y: jax.Array, theta: jax.Array) -> jax.Array:
    """½ ‖∇ log p‖² + Σ ∂² log p, by the definition and autodiff alone."""
    gradient = jax.grad(family.log_density)(y, theta)
    return 0.5 * jnp.sum(gradient**2) + jnp.trace(jax.hessian(family.log_density)(y, theta))


def test_exact_score_matching(family_and_batch: tuple[ExponentialFamily, Batch], key: jax.Array) -> None:
    family, batch = family_and_batch
    expected = batch.weight * jax.vmap(lambda y, theta: dense_loss(family, y, theta))(batch.y, batch.theta)
    for objective in (ScoreMatching(), ScoreMatching(engine=Dense())):
        losses = objective.losses(key, family, batch)
        np.testing.assert_allclose(np.asarray(losses), np.asarray(expected), rtol=1e-10, atol=1e-13)


def test_the_gradient_in_the_weights_is_that_of_the_dense_definition(
    family_and_batch: tuple[ExponentialFamily, Batch], key: jax.Array
) -> None:
    family, batch = family_and_batch
    parameters, fixed = eqx.partition(family, family.trainable())

    def ours(parameters: Any) -> jax.Array:
        return jnp.mean(ScoreMatching().losses(key, eqx.combine(parameters, fixed), batch))

    def dense(parameters: Any) -> jax.Array:
        family = eqx.combine(parameters, fixed)
        return jnp.mean(batch.weight * jax.vmap(lambda y, theta: dense_loss(family, y, theta))(batch.y, batch.theta))

    found, expected = jax.grad(ours)(parameters), jax.grad(dense)(parameters)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-8, atol=1e-10)


def test_curvature_penalty(family_and_batch: tuple[ExponentialFamily, Batch], key: jax.Array) -> None:
    family, batch = family_and_batch
    plain = ScoreMatching().losses(key, family, batch)
    punished = ScoreMatching(curvature_penalty=0.3).losses(key, family, batch)
    traces = jax.vmap(lambda y, theta: jnp.trace(jax.hessian(family.log_density)(y, theta)))(batch.y, batch.theta)
    np.testing.assert_allclose(np.asarray(punished - plain), np.asarray(batch.weight * 0.3 * traces**2 / 10), rtol=1e-8)


@pytest.mark.parametrize("noise", ["rademacher", "gaussian", "sphere"])
@pytest.mark.parametrize("variance_reduction", [True, False])
def test_slices_are_unbiased(
    noise: Literal["rademacher", "gaussian", "sphere"],
    variance_reduction: bool,
    family_and_batch: tuple[ExponentialFamily, Batch],
    key: jax.Array,
) -> None:
    """The mean over many slices is exact score matching, within its standard error; each noise, with and without VR."""
    family, batch = family_and_batch
    one = Batch(*(part[:1] for part in batch))
    exact = float(ScoreMatching().losses(key, family, one)[0])
    objective = SlicedScoreMatching(noise=noise, variance_reduction=variance_reduction)
    draw = jax.jit(jax.vmap(lambda key: objective.losses(key, family, one)[0]))
    values = np.asarray(draw(jax.random.split(key, 4000)))
    assert abs(values.mean() - exact) < 4.5 * values.std() / np.sqrt(len(values)) + 1e-9
    several = SlicedScoreMatching(noise=noise, variance_reduction=variance_reduction, slices=64)
    averaged = np.asarray(jax.vmap(lambda key: several.losses(key, family, one)[0])(jax.random.split(key, 60)))
    assert averaged.std() < 0.25 * values.std() + 1e-9


@pytest.mark.parametrize(
    "support",
    [constraints.positive, constraints.interval(-1.0, 2.0), constraints.less_than(1.0), constraints.real],
    ids=["positive", "interval", "below", "real"],
)
def test_corrected_score_matching_is_transformed_score_matching(support: constraints.Constraint, float64: None) -> None:
    """Appendix C: the two differ by a function of x alone, whatever the weights and θ."""
    chart = Chart.unscaled(support, (4,))
    x = jax.vmap(chart.inverse)(jax.random.normal(jax.random.key(0), (6, 4)))

    def network(seed: int) -> Mlp:
        return Mlp(jax.random.key(seed), (4,), 1, (9, 9))

    def transformed(x: jax.Array, seed: int) -> jax.Array:
        gradient, laplacian = Dense()(network(seed), chart.forward(x), jnp.ones(1))
        return 0.5 * jnp.sum(gradient**2) + laplacian

    def corrected(x: jax.Array, seed: int) -> jax.Array:
        def log_density(x: jax.Array) -> jax.Array:
            y = chart.forward(x)
            return network(seed)(y)[0] - chart.log_det(y)

        return corrected_loss(log_density, chart, x)

    differences = [np.array([float(transformed(row, seed) - corrected(row, seed)) for row in x]) for seed in (1, 2, 3)]
    np.testing.assert_allclose(differences[1], differences[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(differences[2], differences[0], rtol=1e-9, atol=1e-9)
    if support is not constraints.real:
        assert np.max(np.abs(differences[0])) > 1e-3


def test_the_weights_follow_the_conditional_precision() -> None:
    """Pairs of correlation ρ = θ₁ and scale θ₂: tr Cov⁻¹/2 = 1/(θ₂² (1 − ρ²)), while each has variance θ₂²."""
    generator = np.random.default_rng(0)
    theta = np.stack([generator.uniform(0.5, 0.95, 6000), generator.uniform(1.0, 3.0, 6000)], axis=1)
    common, own = generator.normal(size=(6000, 1)), generator.normal(size=(6000, 2))
    root = np.sqrt(theta[:, :1])
    y = theta[:, 1:] * (root * common + np.sqrt(1 - theta[:, :1]) * own)
    expected = (theta[:, 1] ** 2 * (1 - theta[:, 0] ** 2)) ** 1.5
    logarithms = np.log(conditional_precision(y, theta)), np.log(expected / np.median(expected))
    assert np.sqrt(np.mean((logarithms[0] - logarithms[1]) ** 2)) < 0.15
    assert dependent(y, theta)
    assert not dependent(theta[:, 1:] * own, theta)
    automatic = ScoreMatching().weights(y, theta)
    np.testing.assert_array_equal(automatic, ScoreMatching(weighting="precision").weights(y, theta))
    independent = theta[:, 1:] * own
    automatic = ScoreMatching().weights(independent, theta)
    np.testing.assert_array_equal(automatic, ScoreMatching(weighting="variance").weights(independent, theta))


def test_the_weights_follow_the_conditional_variance() -> None:
    sims = sf.simulate(jax.random.key(0), sf.zoo.gaussian(), 4000)
    chart = sf.zoo.gaussian().data_chart(sims.x)
    y = np.asarray(jax.vmap(chart.forward)(sims.x))
    weights = conditional_variance(y, sims.theta)
    ratio = weights / sims.theta[:, 1] ** 2
    assert np.std(np.log(ratio)) < 0.15
    given = ScoreMatching(weighting=lambda theta: theta[:, 1]).weights(y, sims.theta)
    np.testing.assert_allclose(given, sims.theta[:, 1] / sims.theta[:, 1].mean(), rtol=1e-5)
    assert np.all(ScoreMatching(weighting="none").weights(y, sims.theta) == 1.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ScoreMatching(weighting=WRONG), "'precision', 'none' or a function"),
        (lambda: ScoreMatching(curvature_penalty=-1.0), "must be 0 or more"),
        (lambda: SlicedScoreMatching(noise=WRONG), "'rademacher', 'gaussian' or 'sphere'"),
        (lambda: SlicedScoreMatching(slices=0), "at least one direction"),
        (
            lambda: ScoreMatching(weighting=lambda theta: -theta[:, 0]).weights(np.ones((5, 2)), np.ones((5, 2))),
            "one positive, finite number for each of the 5 rows",
        ),
    ],
)
def test_wrong_settings_are_sentences(make: Any, words: str, unchecked_types: None) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_objectives_know_what_they_fit(key: jax.Array) -> None:
    model = sf.zoo.gamma()
    family = ExponentialFamily.default(key, model)
    batch = Batch(jnp.zeros((2, 10)), jnp.ones((2, 2)), jnp.ones(2))
    with pytest.raises(TypeError, match="PosteriorMean fits a Regression"):
        PosteriorMean().losses(key, family, batch)
