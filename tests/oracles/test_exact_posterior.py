"""Exact posteriors against brute force, closed forms and NUTS."""

from collections.abc import Callable
from functools import cache, partial

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats as st
from blackjax.diagnostics import effective_sample_size
from numpyro.distributions import constraints
from scipy.integrate import dblquad, simpson

import suffice as sf
from suffice.grid import GridPosterior

pytestmark = pytest.mark.usefixtures("optimised")

# Built here, outside of any change of precision, for the zoo keeps its models.
MODELS = {
    "gaussian": sf.zoo.gaussian(),
    "gamma": sf.zoo.gamma(),
    "beta": sf.zoo.beta(),
    "ar2": sf.zoo.ar2(),
    "ma2": sf.zoo.ma2(),
}
BOXES = {
    "gaussian": ((-10.0, 10.0), (1.0, 10.0)),
    "gamma": ((1.0, 3.0), (1.0, 3.0)),
    "beta": ((1.0, 3.0), (1.0, 3.0)),
    "ar2": ((-1.0, 1.0), (-1.0, 0.0)),
    "ma2": ((-1.0, 1.0), (0.0, 1.0)),
}
TOLERANCE = 1e-3  # the library's default
FAR = 4.5  # standard errors
NUM = 20_000


def observation(name: str) -> np.ndarray:
    """One x, from numpy's generators."""
    rng = np.random.default_rng(3)
    noise = rng.normal(size=102)
    noise[:2] = 0.0
    series = np.zeros(102)
    for j in range(2, 102):
        series[j] = noise[j] + 0.4 * series[j - 1] - 0.5 * series[j - 2]
    x = {
        "gaussian": lambda: rng.normal(2.0, 3.0, 10),
        "gamma": lambda: rng.gamma(2.0, 1.5, 10),
        "beta": lambda: rng.beta(1.5, 2.5, 10),
        "ar2": lambda: series[2:],
        "ma2": lambda: noise[2:] + 0.5 * noise[1:-1] + 0.6 * noise[:-2],
    }[name]()
    return x.astype(np.float32).astype(np.float64)


def log_likelihood(name: str, x: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """scipy's likelihood of one x at many θ."""
    if name in ("gaussian", "gamma", "beta"):
        law = {
            "gaussian": lambda: st.norm(first, second),
            "gamma": lambda: st.gamma(first, scale=second),
            "beta": lambda: st.beta(first, second),
        }[name]()
        return np.sum([law.logpdf(value) for value in x], axis=0)
    total, before, previous = np.zeros(np.shape(first)), 0.0, 0.0
    for value in x:
        noise = value - first * previous - second * before
        total = total - 0.5 * np.log(2.0 * np.pi) - 0.5 * noise**2
        before, previous = previous, (value if name == "ar2" else noise)
    return total


def brute_force(name: str, rows: list[np.ndarray], nodes: int = 301) -> dict[str, np.ndarray]:
    """Mean, sd and log-evidence by Simpson's rule on a dense grid over the whole prior box."""
    first, second = (np.linspace(*side, nodes) for side in BOXES[name])
    grid = np.meshgrid(first, second, indexing="ij")
    log_density = np.sum([log_likelihood(name, x, *grid) for x in rows], axis=0)
    density = np.exp(log_density - log_density.max())

    def integral(values: np.ndarray) -> float:
        return float(simpson(simpson(values, x=second), x=first))

    mass = integral(density)
    mean = np.array([integral(axis * density) for axis in grid]) / mass
    variance = np.array([integral((axis - m) ** 2 * density) for axis, m in zip(grid, mean, strict=True)]) / mass
    return {"mean": mean, "sd": np.sqrt(variance), "log_evidence": np.log(mass) + log_density.max()}


@cache
def posterior_of(name: str) -> GridPosterior:
    return sf.zoo.exact_posterior(MODELS[name], observation(name))


@pytest.mark.parametrize("name", MODELS)
def test_mean_and_sd_are_those_of_brute_force(name: str) -> None:
    posterior, truth = posterior_of(name), brute_force(name, [observation(name)])
    assert posterior.error < TOLERANCE
    assert posterior.names == MODELS[name].names
    np.testing.assert_allclose((posterior.mean - truth["mean"]) / truth["sd"], 0.0, atol=TOLERANCE)
    np.testing.assert_allclose(posterior.sd / truth["sd"], 1.0, atol=TOLERANCE)


def test_mean_is_that_of_adaptive_quadrature() -> None:
    """A second integrator, which chooses its own nodes."""
    x = observation("gamma")
    truth = brute_force("gamma", [x])

    def density(second: float, first: float) -> float:
        law = st.gamma(first, scale=second)
        return float(np.exp(law.logpdf(x).sum() - truth["log_evidence"]))

    def moment(function: Callable[[float, float], float]) -> float:
        integrand = lambda second, first: function(first, second) * density(second, first)  # noqa: E731
        return dblquad(integrand, 1.0, 3.0, 1.0, 3.0, epsabs=1e-4, epsrel=1e-4)[0]

    assert moment(lambda first, second: 1.0) == pytest.approx(1.0, abs=1e-5)
    mean = moment(lambda first, second: first)
    assert posterior_of("gamma").mean[0] == pytest.approx(mean, abs=TOLERANCE * truth["sd"][0])


@pytest.mark.parametrize("name", MODELS)
def test_log_prob_is_normalised_over_the_prior_box(name: str) -> None:
    posterior, cells = posterior_of(name), 700
    centres, volume = [], 1.0
    for low, high in BOXES[name]:
        width = (high - low) / cells
        centres.append(low + width * (np.arange(cells) + 0.5))
        volume *= width
    theta = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1)
    log_prob = posterior.log_prob(theta)
    assert log_prob.shape == (cells, cells)
    assert np.exp(log_prob).sum() * volume == pytest.approx(1.0, abs=TOLERANCE)


@pytest.mark.parametrize("name", MODELS)
def test_log_prob_is_prior_times_likelihood_over_evidence(name: str, key: jax.Array) -> None:
    posterior, x = posterior_of(name), observation(name)
    theta = posterior.resample(key, 300).flat
    expected = log_likelihood(name, x, *theta.T) - brute_force(name, [x])["log_evidence"]
    density = np.exp(posterior.log_prob(theta))
    # Linear between the nodes: exact to a small part of the highest density, ratios where the density is not small.
    np.testing.assert_allclose(density / np.exp(expected).max(), np.exp(expected - expected.max()), atol=4e-3)
    likely = expected > expected.max() - 2.0
    assert likely.sum() > 50
    differences = np.diff(posterior.log_prob(theta[likely])) - np.diff(expected[likely])
    np.testing.assert_allclose(differences, 0.0, atol=1e-2)


@pytest.mark.parametrize("name", MODELS)
def test_log_prob_outside_the_prior_is_minus_infinity(name: str) -> None:
    (low, high), (other_low, other_high) = BOXES[name]
    middle, other_middle = (low + high) / 2.0, (other_low + other_high) / 2.0
    outside = [[low - 0.01, other_middle], [high + 0.01, other_middle]]
    outside += [[middle, other_low - 0.01], [middle, other_high + 0.01]]
    assert posterior_of(name).log_prob(np.array(outside)).tolist() == [-np.inf] * 4


@pytest.mark.parametrize("name", MODELS)
def test_draws_have_the_posteriors_moments_and_quantiles(name: str, key: jax.Array) -> None:
    draws = posterior_of(name).resample(key, NUM)
    assert draws.draws.shape == (1, NUM, 2)
    truth = brute_force(name, [observation(name)])
    theta = draws.flat
    squares = (theta - truth["mean"]) ** 2
    for sample, expected in ((theta, truth["mean"]), (squares, truth["sd"] ** 2)):
        error = sample.std(0) / np.sqrt(NUM)
        assert (np.abs(sample.mean(0) - expected) < FAR * error).all()
    for i, (low, high) in enumerate(BOXES[name]):
        nodes = np.linspace(low, high, 601)
        other = np.linspace(*BOXES[name][1 - i], 201)
        first, second = (nodes[:, None], other) if i == 0 else (other, nodes[:, None])
        log_density = log_likelihood(name, observation(name), *np.broadcast_arrays(first, second))
        marginal = simpson(np.exp(log_density - log_density.max()), x=other)
        cumulative = np.concatenate([[0.0], np.cumsum((marginal[1:] + marginal[:-1]) / 2.0)])
        cumulative /= cumulative[-1]
        uniform = np.interp(theta[:, i], nodes, cumulative)
        assert st.kstest(uniform, "uniform").pvalue > 1e-3
        for level in (0.05, 0.25, 0.5, 0.75, 0.95):
            share = np.mean(uniform < level)
            assert abs(share - level) < FAR * np.sqrt(level * (1.0 - level) / NUM)


def test_draws_are_independent_of_one_another_and_repeat_with_their_key(key: jax.Array) -> None:
    posterior = posterior_of("ar2")
    first, again = posterior.resample(key, 1000).flat, posterior.resample(key, 1000).flat
    other = posterior.resample(jax.random.key(1), 1000).flat
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)
    assert len(np.unique(first)) == first.size
    standard = (first - first.mean(0)) / first.std(0)
    assert (np.abs((standard[1:] * standard[:-1]).mean(0)) < FAR / np.sqrt(999)).all()


@pytest.mark.parametrize("name", ["gamma", "ma2"])
def test_replicates_add_their_likelihoods(name: str) -> None:
    x = observation(name)
    rows = [x, x[::-1], np.roll(x, 3) ** 2 if name == "gamma" else np.roll(x, 3) * (-1.0) ** np.arange(100)]
    posterior = sf.zoo.exact_posterior(MODELS[name], np.stack(rows), iid=True)
    truth = brute_force(name, [row.astype(np.float32).astype(np.float64) for row in rows])
    np.testing.assert_allclose((posterior.mean - truth["mean"]) / truth["sd"], 0.0, atol=2 * TOLERANCE)
    np.testing.assert_allclose(posterior.sd / truth["sd"], 1.0, atol=2 * TOLERANCE)
    assert np.abs(posterior.mean - posterior_of(name).mean).max() > 10 * TOLERANCE


def test_one_replicate_is_one_observation() -> None:
    posterior = sf.zoo.exact_posterior(MODELS["gamma"], observation("gamma")[None], iid=True)
    np.testing.assert_allclose(posterior.density, posterior_of("gamma").density, rtol=1e-5)


NUTS_MODELS = ("gamma", "ar2")


@cache
def nuts(chains: int = 2, warmup: int = 250, draws: int = 700) -> np.ndarray:
    """Draws of blackjax's NUTS, with likelihoods and a logit written here: model × chain × draw × parameter.

    Both targets are in one program, chosen by a number, for compiling is what takes the time.
    """
    boxes = jnp.asarray([BOXES[name] for name in NUTS_MODELS])
    x_gamma, x_ar2 = (jnp.asarray(observation(name)) for name in NUTS_MODELS)

    def to_box(z: jax.Array, model: jax.Array) -> jax.Array:
        low, high = boxes[model].T
        return low + (high - low) * jax.nn.sigmoid(z)

    def log_density(z: jax.Array, model: jax.Array) -> jax.Array:
        k, scale = to_box(z, jnp.array(0))
        gamma = (k - 1.0) * jnp.sum(jnp.log(x_gamma)) - jnp.sum(x_gamma) / scale
        gamma = gamma - len(x_gamma) * (jax.scipy.special.gammaln(k) + k * jnp.log(scale))
        first, second = to_box(z, jnp.array(1))
        ar2 = -0.5 * jnp.sum((x_ar2[2:] - first * x_ar2[1:-1] - second * x_ar2[:-2]) ** 2)
        ar2 = ar2 - 0.5 * (x_ar2[1] - first * x_ar2[0]) ** 2
        jacobian = jnp.sum(jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z))
        return jnp.where(model == 0, gamma, ar2) + jacobian

    def chain(key: jax.Array, model: jax.Array) -> jax.Array:
        key_start, key_warmup, key_draws = jax.random.split(key, 3)
        target = partial(log_density, model=model)
        adaptation = blackjax.window_adaptation(blackjax.nuts, target)
        (state, parameters), _ = adaptation.run(key_warmup, jax.random.normal(key_start, (2,)), warmup)
        kernel = blackjax.nuts(target, **parameters)

        def step(state: blackjax.types.ArrayTree, key: jax.Array) -> tuple[blackjax.types.ArrayTree, jax.Array]:
            state, _ = kernel.step(key, state)
            return state, to_box(state.position, model)

        return jax.lax.scan(step, state, jax.random.split(key_draws, draws))[1]

    keys = jax.random.split(jax.random.key(20260101), (len(NUTS_MODELS), chains))
    over_chains = jax.vmap(chain, (0, None))
    return np.asarray(jax.jit(jax.vmap(over_chains))(keys, jnp.arange(len(NUTS_MODELS))), np.float64)


@pytest.mark.parametrize("name", NUTS_MODELS)
def test_nuts_agrees(name: str) -> None:
    draws, posterior = nuts()[NUTS_MODELS.index(name)], posterior_of(name)
    squares = (draws - posterior.mean) ** 2
    for sample, expected in ((draws, posterior.mean), (squares, posterior.sd**2)):
        effective = np.asarray(effective_sample_size(sample))
        assert (effective > 300).all()
        error = sample.std((0, 1)) / np.sqrt(effective)
        assert (np.abs(sample.mean((0, 1)) - expected) < FAR * error).all()


def location_model(prior: dist.Distribution, noise: float, size: int = 5) -> sf.Model:
    """x₁, …, x_size ~ N(θ, noise²)."""
    return sf.Model(
        prior.expand([1]).to_event(1),
        lambda key, theta: theta[0] + noise * jax.random.normal(key, (size,)),
        log_likelihood=lambda x, theta: jnp.sum(-0.5 * ((x - theta[0]) / noise) ** 2),
        exchangeable=True,
    )


@pytest.mark.parametrize(
    ("centre", "noise"),
    [(0.3, 1.0), (-0.7, 30.0), (60.0, 0.5), (-900.0, 0.5), (1.2, 1e-3 * np.sqrt(5.0)), (0.0, 1e-3 * np.sqrt(5.0))],
    ids=["ordinary", "prior alone", "far", "very far", "sharp", "sharp at a node"],
)
def test_conjugate_gaussian(centre: float, noise: float, key: jax.Array) -> None:
    """θ ~ N(0, 1), unbounded: the grid must find the posterior by itself, wherever it is and however narrow."""
    x = (centre + noise * np.array([0.4, -1.1, 0.3, 0.9, -0.2])).astype(np.float32)
    precision = 1.0 + 5.0 / noise**2
    mean, sd = x.astype(np.float64).sum() / noise**2 / precision, precision**-0.5
    posterior = sf.zoo.exact_posterior(location_model(dist.Normal(0.0, 1.0), noise), x)
    far = abs(centre) > 100.0  # where float32 holds the log-density to a few hundredths
    assert posterior.mean[0] == pytest.approx(mean, abs=(5.0 if far else 1.0) * TOLERANCE * sd)
    assert posterior.sd[0] == pytest.approx(sd, rel=TOLERANCE)
    assert posterior.error < TOLERANCE
    draws = posterior.resample(key, 5000).flat[:, 0]
    assert st.kstest(draws, st.norm(mean, sd).cdf).pvalue > 1e-3
    if not far:
        theta = mean + sd * np.linspace(-3.0, 3.0, 13)[:, None]
        np.testing.assert_allclose(
            np.exp(posterior.log_prob(theta)) * sd, st.norm.pdf(np.linspace(-3.0, 3.0, 13)), atol=1e-3
        )


def exponential_model(prior: dist.Distribution) -> sf.Model:
    """x₁, …, x₄ ~ Exponential(rate θ)."""
    return sf.Model(
        prior.expand([1]).to_event(1),
        lambda key, theta: jax.random.exponential(key, (4,)) / theta[0],
        support=constraints.positive,
        log_likelihood=lambda x, theta: 4.0 * jnp.log(theta[0]) - theta[0] * jnp.sum(x),
        exchangeable=True,
    )


@pytest.mark.parametrize("total", [0.05, 4.0, 400.0])
def test_gamma_prior_on_a_half_line(total: float, key: jax.Array) -> None:
    """Conjugate: Gamma(2, rate 3) and Σx give Gamma(6, rate 3 + Σx)."""
    x = (total * np.array([0.1, 0.2, 0.3, 0.4])).astype(np.float32)
    posterior = sf.zoo.exact_posterior(exponential_model(dist.Gamma(2.0, 3.0)), x)
    truth = st.gamma(6.0, scale=1.0 / (3.0 + x.astype(np.float64).sum()))
    assert posterior.mean[0] == pytest.approx(truth.mean(), abs=TOLERANCE * truth.std())
    assert posterior.sd[0] == pytest.approx(truth.std(), rel=TOLERANCE)
    draws = posterior.resample(key, 5000).flat[:, 0]
    assert draws.min() > 0.0
    assert st.kstest(draws, truth.cdf).pvalue > 1e-3


@pytest.mark.parametrize("prior", ["exponential", "half-normal"])
def test_prior_with_mass_at_an_open_bound(prior: str) -> None:
    """Truncated at 0 where the density is highest, though numpyro says that 0 is outside the support."""
    x = np.array([0.1, -0.3, 0.4, 0.2, 0.1], np.float32)
    total = x.astype(np.float64).sum()
    precision, shift = (5.0, total - 1.0) if prior == "exponential" else (6.0, total)
    location, scale = shift / precision, precision**-0.5
    truth = st.truncnorm(-location / scale, np.inf, location, scale)
    model = location_model(dist.Exponential(1.0) if prior == "exponential" else dist.HalfNormal(1.0), 1.0)
    posterior = sf.zoo.exact_posterior(model, x)
    axis = posterior.axes[0]
    fine = np.linspace(axis[0], axis[-1], 20_001)[1:-1, None]
    distance = 0.5 * np.mean(np.abs(np.exp(posterior.log_prob(fine)) - truth.pdf(fine[:, 0]))) * (axis[-1] - axis[0])
    assert distance < TOLERANCE
    assert posterior.mean[0] == pytest.approx(truth.mean(), abs=TOLERANCE * truth.std())


def test_density_that_is_zero_wherever_tried_gets_a_sentence() -> None:
    prior = dist.Normal(0.0, 1.0).expand([1]).to_event(1)
    model = sf.Model(
        prior,
        lambda key, theta: theta[0] + 0.01 * jax.random.uniform(key, (3,)),
        log_likelihood=lambda x, theta: jnp.where(jnp.all(jnp.abs(x - theta[0]) < 0.01), 0.0, -jnp.inf),
    )
    with pytest.raises(ValueError, match="log-density is -inf wherever it was tried"):
        sf.zoo.exact_posterior(model, np.array([0.101, 0.102, 0.103], np.float32))


def test_a_missed_tolerance_is_not_silent() -> None:
    """An observation thousands of prior sds away: fine if found, fine if refused, not fine as a wrong posterior."""
    x = np.full(5, 5000.0, np.float32)
    try:
        posterior = sf.zoo.exact_posterior(location_model(dist.Normal(0.0, 1.0), 0.5), x)
    except (ValueError, UserWarning):
        return
    assert posterior.mean[0] == pytest.approx(5000.0 / 1.05, rel=0.01)


def test_without_likelihood_there_is_no_exact_posterior() -> None:
    with pytest.raises(sf.ModelError, match="no log_likelihood"):
        sf.zoo.exact_posterior(sf.zoo.lorenz96(), np.zeros((45, 8)))


@pytest.mark.parametrize("parameters", [3, 4])
def test_more_than_two_parameters_are_refused(parameters: int) -> None:
    model = sf.Model(
        dist.Normal(0.0, 1.0).expand([parameters]).to_event(1),
        lambda key, theta: theta + jax.random.normal(key, (parameters,)),
        log_likelihood=lambda x, theta: -0.5 * jnp.sum((x - theta) ** 2),
    )
    with pytest.raises(sf.ModelError, match=f"at most 2 parameters, but this model has {parameters}"):
        sf.zoo.exact_posterior(model, np.zeros(parameters))


@pytest.mark.parametrize(
    ("shape", "iid", "message"),
    [
        ((9,), False, r"shape \(9,\), but this model's x has shape \(10,\)"),
        ((3, 10), False, "or iid=True for several replicates"),
        ((), False, r"shape \(\), but"),
        ((10,), True, "after one leading axis for the iid replicates"),
        ((3, 9), True, r"shape \(3, 9\), but"),
        ((2, 3, 10), True, r"shape \(2, 3, 10\), but"),
    ],
)
def test_observation_of_the_wrong_shape(shape: tuple[int, ...], iid: bool, message: str) -> None:
    with pytest.raises(sf.ModelError, match=message):
        sf.zoo.exact_posterior(MODELS["gamma"], np.full(shape, 1.5), iid=iid)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("gamma", 0.0, "greater than 0"),
        ("gamma", -1.0, "greater than 0"),
        ("gamma", np.inf, "greater than 0"),
        ("beta", 1.0, "between 0 and 1"),
        ("beta", 0.0, "between 0 and 1"),
        ("beta", 1.5, "between 0 and 1"),
        ("gaussian", np.nan, "any real number"),
        ("ar2", np.inf, "any real number"),
    ],
)
def test_observation_on_or_outside_the_support(name: str, value: float, words: str) -> None:
    x = observation(name)
    x[4] = value
    with pytest.raises(sf.SupportError, match=rf"coordinate 4 of the observation is .*on or outside.*{words}"):
        sf.zoo.exact_posterior(MODELS[name], x)


def test_replicate_outside_the_support_is_named_by_its_row() -> None:
    x = np.stack([observation("gamma")] * 3)
    x[2, 7] = -1.0
    with pytest.raises(sf.SupportError, match="Row 2, coordinate 7 of the observation is -1"):
        sf.zoo.exact_posterior(MODELS["gamma"], x, iid=True)
