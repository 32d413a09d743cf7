"""The lasso against scikit-learn's at the same penalties, and against ratios of densities that are known."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import suffice as sf
from suffice.surrogates.lasso import Lasso, Path, cross_validated_lasso, fit_lasso

FOLDS = 5


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Correlated features, some of no use, standardised; labels; folds."""
    generator = np.random.default_rng(3)
    features = generator.normal(size=(600, 4)) @ (np.eye(4) + 0.6 * generator.normal(size=(4, 4)))
    chance = 1 / (1 + np.exp(-(0.4 + features @ [1.2, -0.5, 0.0, 0.0])))
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    return features, (generator.uniform(size=600) < chance).astype(float), np.arange(600) % FOLDS


def oracle(features: np.ndarray, labels: np.ndarray, penalty: float, tol: float = 1e-7) -> LogisticRegression:
    strength = 1 / (penalty * len(labels))
    model = LogisticRegression(l1_ratio=1.0, solver="saga", C=strength, tol=tol, max_iter=50_000)
    return model.fit(features, labels)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("penalty", [0.1, 0.02, 0.001])
def test_equals_scikit_learn_at_one_penalty(data: tuple[np.ndarray, ...], penalty: float) -> None:
    features, labels, _ = data
    expected = oracle(features, labels, penalty)
    shifted = 5.0 + 10.0 * features  # units must not matter
    found = fit_lasso(jnp.asarray(shifted), jnp.asarray(labels), jnp.ones(600, bool), jnp.asarray(penalty))
    np.testing.assert_allclose(10.0 * found.coefficients, expected.coef_[0], atol=1e-4)
    np.testing.assert_allclose(found.intercept + 5.0 * found.coefficients.sum(), expected.intercept_[0], atol=1e-4)
    np.testing.assert_array_equal(found.coefficients == 0.0, expected.coef_[0] == 0.0)


@pytest.mark.usefixtures("float64")
def test_rows_that_do_not_count_change_nothing(data: tuple[np.ndarray, ...]) -> None:
    features, labels, _ = data
    good = np.arange(600) % 3 != 0
    spoiled = np.where(good[:, None], features, 1e3)
    found = fit_lasso(jnp.asarray(spoiled), jnp.asarray(labels), jnp.asarray(good), jnp.asarray(0.02))
    expected = fit_lasso(jnp.asarray(features[good]), jnp.asarray(labels[good]), jnp.ones(400, bool), jnp.asarray(0.02))
    np.testing.assert_allclose(found.coefficients, expected.coefficients, rtol=1e-8)
    np.testing.assert_allclose(found.intercept, expected.intercept, rtol=1e-8)


@pytest.mark.usefixtures("float64")
def test_cross_validation_is_the_one_written_as_a_loop(data: tuple[np.ndarray, ...]) -> None:
    features, labels, folds = data
    settings: dict[str, Any] = {"num_folds": FOLDS, "num_penalties": 12}
    arrays = (jnp.asarray(features), jnp.asarray(labels), jnp.ones(600, bool))
    found, path = cross_validated_lasso(*arrays, **settings)
    gradient = np.abs(features.T @ (labels - labels.mean())) / 600
    np.testing.assert_allclose(path.penalties, gradient.max() * 1e-3 ** np.linspace(0, 1, 12), rtol=1e-6)
    losses = np.zeros((12, FOLDS))
    for i, penalty in enumerate(np.asarray(path.penalties)):
        for fold in range(FOLDS):
            held = folds == fold
            fitted = oracle(features[~held], labels[~held], penalty)
            losses[i, fold] = log_loss(labels[held], fitted.predict_proba(features[held])[:, 1])
    np.testing.assert_allclose(path.losses, losses.mean(axis=1), atol=1e-3)
    np.testing.assert_allclose(path.errors, losses.std(axis=1, ddof=1) / FOLDS**0.5, atol=1e-3)
    best = int(np.argmin(path.losses))
    assert 0 < best < 11
    assert float(found.penalty) == float(path.penalties[best])
    np.testing.assert_allclose(found.coefficients, oracle(features, labels, float(found.penalty)).coef_[0], atol=1e-4)
    careful, _ = cross_validated_lasso(*arrays, **settings, rule="one-standard-error")
    within = path.losses <= path.losses[best] + path.errors[best]
    assert float(careful.penalty) == float(path.penalties[np.argmax(within)]) > float(found.penalty)


@pytest.mark.usefixtures("float64")
def test_the_penalty_is_about_right_with_few_rows_and_features_that_hang_together() -> None:
    """A statistic and its square, folds of unequal size, rows that do not count: beside exact cross-validation."""
    settings: dict[str, Any] = {"num_folds": FOLDS, "num_penalties": 10}
    lost = []
    for seed in range(2):
        generator = np.random.default_rng(seed)
        rows = np.concatenate([generator.gamma(3.0, 0.8, 53), generator.gamma(2.0, 1.5, 54)])
        features = np.stack([rows, rows**2], axis=1)
        features = (features - features.mean(axis=0)) / features.std(axis=0)
        labels, good, folds = np.arange(107) < 53, np.arange(107) % 17 != 5, np.arange(107) % FOLDS
        _, path = cross_validated_lasso(
            jnp.asarray(features), jnp.asarray(labels, float), jnp.asarray(good), **settings
        )
        standard = (features - features[good].mean(axis=0)) / features[good].std(axis=0)
        losses = np.zeros((10, FOLDS))
        for i, penalty in enumerate(np.asarray(path.penalties)):
            for fold in range(FOLDS):
                used, held = good & (folds != fold), good & (folds == fold)
                fitted = oracle(standard[used], labels[used], penalty)
                losses[i, fold] = log_loss(labels[held], fitted.predict_proba(standard[held])[:, 1])
        exact = losses.mean(axis=1)
        lost.append(exact[[np.argmin(path.losses), -1]] - exact.min())
    chosen, weakest = np.max(lost, axis=0)
    assert chosen < 0.01 < weakest


def test_ratio_of_gaussians() -> None:
    """In float32: log N(x; m, C) / N(x; 0, I) is linear in x, its squares and its products."""
    generator = np.random.default_rng(1)
    mean, factor = np.array([0.5, -0.3]), np.array([[0.7, 0.0], [0.3, 0.6]])
    inside, marginal = mean + generator.normal(size=(20_000, 2)) @ factor.T, generator.normal(size=(20_000, 2))
    points = generator.normal(size=(50, 2))

    def features(x: np.ndarray) -> np.ndarray:
        return np.stack([x[:, 0], x[:, 1], x[:, 0] ** 2, x[:, 0] * x[:, 1], x[:, 1] ** 2], axis=1)

    rows = jnp.asarray(np.concatenate([features(inside), features(marginal)]), jnp.float32)
    labels = jnp.asarray(np.arange(40_000) < 20_000, jnp.float32)
    lasso = fit_lasso(rows, labels, jnp.ones(40_000, bool), jnp.asarray(1e-6))
    found = lasso.intercept + features(points) @ np.asarray(lasso.coefficients)
    expected = multivariate_normal(mean, factor @ factor.T).logpdf(points) - multivariate_normal(np.zeros(2)).logpdf(
        points
    )
    likely = expected > -4
    assert likely.sum() > 20
    np.testing.assert_allclose(found[likely], expected[likely], atol=0.15)


def test_one_far_row_does_not_mislead_cross_validation() -> None:
    """Moments of Gaussian data at a θ that the marginal hardly holds: a row 14 spreads out, in float32, ten folds."""
    model, num, folds = sf.zoo.gaussian(), 1000, 10
    key_prior, key_inside, key_marginal = jax.random.split(jax.random.key(2), 3)
    draws = jnp.concatenate([jnp.tile(jnp.asarray([[5.0, 2.0]]), (num, 1)), model.prior.sample(key_prior, (num,))])
    keys = jnp.concatenate([jax.random.split(key_inside, num), jax.random.split(key_marginal, num)])
    x = np.asarray(jax.vmap(model.simulator)(keys, draws), np.float64)
    moments = np.stack([x.mean(axis=1), (x**2).mean(axis=1)], axis=1)
    moments = (moments - moments[num:].mean(axis=0)) / moments[num:].std(axis=0)
    features = np.concatenate([moments, moments**2, moments[:, :1] * moments[:, 1:]], axis=1)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    assert np.abs(features).max() > 10
    labels, fold = (np.arange(2 * num) < num).astype(float), np.arange(2 * num) % folds
    arrays = (jnp.asarray(features, jnp.float32), jnp.asarray(labels, jnp.float32), jnp.ones(2 * num, bool))
    chosen, path = jax.jit(lambda *parts: cross_validated_lasso(*parts, num_folds=folds))(*arrays)
    losses = {}
    for penalty in (float(chosen.penalty), float(path.penalties[-1])):
        fits = [(kept := fold != k, oracle(features[kept], labels[kept], penalty, 1e-3)) for k in range(folds)]
        found = [log_loss(labels[~kept], fit.predict_proba(features[~kept])[:, 1]) for kept, fit in fits]
        losses[penalty] = np.mean(found)
    assert losses[float(chosen.penalty)] < min(losses.values()) + 0.01


@jax.jit
def careful_lasso(features: jax.Array, labels: jax.Array) -> tuple[Lasso, Path]:
    """In float32, ten folds, one standard error."""
    return cross_validated_lasso(features, labels, jnp.ones(len(labels), bool), rule="one-standard-error")


def test_noise_is_given_no_coefficients() -> None:
    features = np.random.default_rng(0).normal(size=(400, 2))
    labels = jnp.asarray(np.arange(400) < 200, jnp.float32)
    lasso, _ = careful_lasso(jnp.asarray(features, jnp.float32), labels)
    assert float(jnp.abs(lasso.coefficients).sum()) == 0.0
    assert float(lasso.intercept) == pytest.approx(0.0, abs=1e-5)


def test_classes_that_do_not_overlap_give_finite_numbers() -> None:
    generator = np.random.default_rng(2)
    features = np.concatenate([generator.normal(8.0, 0.1, (200, 2)), generator.normal(0.0, 1.0, (200, 2))])
    labels = jnp.asarray(np.arange(400) < 200, jnp.float32)
    lasso, path = careful_lasso(jnp.asarray(features, jnp.float32), labels)
    assert np.isfinite(path.losses).all()
    assert path.losses[-1] < 0.01
    predictor = lasso.intercept + features @ np.asarray(lasso.coefficients)
    assert ((predictor > 0) == (np.arange(400) < 200)).all()


def test_features_with_heavy_tails_do_not_make_it_run_away() -> None:
    """Autocovariances of AR(2) near θ₂ = −1, their squares and product: whole Newton steps diverge on them."""
    model, theta = sf.zoo.ar2(), jnp.tile(jnp.asarray([[0.44, -0.895]]), (300, 1))
    key_inside, key_prior, key_marginal = jax.random.split(jax.random.key(7), 3)
    draws = jnp.concatenate([theta, model.prior.sample(key_prior, (300,))])
    keys = jnp.concatenate([jax.random.split(key_inside, 300), jax.random.split(key_marginal, 300)])
    x = np.asarray(jax.vmap(model.simulator)(keys, draws), np.float64)
    lags = np.stack([(x[:, lag:] * x[:, :-lag]).mean(axis=1) for lag in (1, 2)], axis=1)
    lags = (lags - lags[300:].mean(axis=0)) / lags[300:].std(axis=0)
    features = np.concatenate([lags, lags**2, lags[:, :1] * lags[:, 1:]], axis=1)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    labels = (np.arange(600) < 300).astype(float)
    lasso, path = careful_lasso(jnp.asarray(features, jnp.float32), jnp.asarray(labels, jnp.float32))
    assert np.max(path.losses) < 0.7, "no penalty should do worse than no features"
    coefficients, penalty = np.asarray(lasso.coefficients), float(lasso.penalty)
    residual = labels - expit(float(lasso.intercept) + features @ coefficients)
    gradient = features.T @ residual / 600  # at the minimum: λ sign(b), or within ±λ where b = 0
    used = coefficients != 0.0
    assert used.any()
    np.testing.assert_allclose(gradient[used], penalty * np.sign(coefficients[used]), atol=0.05 * penalty)
    assert (np.abs(gradient[~used]) < 1.05 * penalty).all()
    assert abs(residual.mean()) < 1e-4
