"""`simulate`: the same numbers however they are made, failures kept and explained, bad input refused at once."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints

import suffice as sf
from suffice.simulation import blocks, makers
from suffice.simulation.blocks import LANES, simulate_block

PRIOR = dist.Uniform(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0])).to_event(1)


def model_of(simulator: object, **settings: object) -> sf.Model:
    return sf.Model(PRIOR, simulator, **settings)  # type: ignore[arg-type]


def normal(key: jax.Array, theta: jax.Array) -> jax.Array:
    return theta[0] + theta[1] * jax.random.normal(key, (5,))


@pytest.mark.parametrize("make", [sf.zoo.gamma, sf.zoo.ar2, sf.zoo.lorenz96])
def test_a_prefix_is_the_same(make: object, key: jax.Array) -> None:
    model = make()  # type: ignore[operator]
    long = sf.simulate(key, model, 700)
    for num in (1, LANES - 1, LANES, LANES + 1):
        short = sf.simulate(key, model, num)
        assert np.array_equal(short.theta, long.theta[:num])
        assert np.array_equal(short.x, long.x[:num])


def test_blocks_and_workers_do_not_change_a_bit(key: jax.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    model = sf.zoo.ma2()
    reference = sf.simulate(key, model, 1000)
    monkeypatch.setattr(makers, "max_groups", lambda model: 3)
    again = sf.simulate(key, model, 1000, executor=1)
    assert np.array_equal(reference.x, again.x)


def test_each_simulation_can_be_made_again_by_hand(key: jax.Array) -> None:
    """The numbers are those of the user's own simulator with an ordinary key."""
    model = sf.zoo.gaussian()
    sims = sf.simulate(key, model, 40)
    key_prior, key_simulator = jax.random.split(jax.random.fold_in(key, 37))
    theta = model.prior.sample(key_prior)
    np.testing.assert_array_equal(sims.theta[37], np.asarray(theta))
    np.testing.assert_allclose(sims.x[37], np.asarray(model.simulator(key_simulator, theta)), rtol=1e-6)


def test_different_keys_differ(key: jax.Array) -> None:
    model = sf.zoo.gaussian()
    one, other = (sf.simulate(k, model, 100) for k in jax.random.split(key))
    assert not np.any(one.theta == other.theta)


def test_memory_is_bounded_by_the_block() -> None:
    """A block holds few numbers, whatever the size of x."""
    for model in (sf.zoo.gaussian(), sf.zoo.lorenz96("small"), sf.zoo.lorenz96("large")):
        rows = blocks.max_groups(model) * LANES
        assert rows * model.data_size <= max(blocks.BLOCK_NUMBERS, LANES * model.data_size)


def test_a_second_run_does_not_compile_again(key: jax.Array) -> None:
    model = model_of(normal)
    sf.simulate(key, model, 10)
    compiled = simulate_block._cache_size()  # type: ignore[attr-defined]
    sf.simulate(jax.random.key(5), model, 1000)
    assert simulate_block._cache_size() == compiled  # type: ignore[attr-defined]


def test_failures_are_kept_counted_and_located(key: jax.Array) -> None:
    def simulator(key: jax.Array, theta: jax.Array) -> jax.Array:
        return jnp.where(theta[1] > 1.9, jnp.nan, normal(key, theta))

    with pytest.warns(sf.SimulationWarning, match=r"are not finite.*Failures lie at b from 1\.9.* to ") as caught:
        sims = sf.simulate(key, model_of(simulator, names=("a", "b")), 2000)
    failed = sims.theta[:, 1] > 1.9
    assert np.array_equal(sims.status == sf.Status.NOT_FINITE, failed)
    assert f"Of 2000 simulations {failed.sum()} are not finite" in str(caught[0].message)
    assert len(sims) == 2000
    assert len(sims.good) == sims.num_good == 2000 - failed.sum()
    assert np.isfinite(sims.good.x).all()


def test_simulations_outside_the_support_are_marked(key: jax.Array) -> None:
    def simulator(key: jax.Array, theta: jax.Array) -> jax.Array:
        return jnp.where(theta[0] < 0.1, -1.0, jnp.exp(normal(key, theta)))

    with pytest.warns(sf.SimulationWarning, match="lie on or outside the declared support"):
        sims = sf.simulate(key, model_of(simulator, support=constraints.positive), 500)
    assert np.array_equal(sims.status == sf.Status.OUTSIDE_SUPPORT, sims.theta[:, 0] < 0.1)


@pytest.mark.parametrize("num", [0, -5, 2.5, True, 2**40])
def test_num_must_be_a_positive_number(num: object, key: jax.Array, unchecked_types: None) -> None:
    with pytest.raises(ValueError, match="must be a whole number of simulations between 1 and"):
        sf.simulate(key, sf.zoo.gaussian(), num)  # type: ignore[arg-type]


def test_what_is_no_model_is_refused(key: jax.Array, unchecked_types: None) -> None:
    simulator: Any = normal
    for verb in (lambda: sf.simulate(key, simulator, 10), lambda: sf.check(simulator)):
        with pytest.raises(TypeError, match=r"model is of type function, but must be a Model: suffice\.Model"):
            verb()


@pytest.mark.parametrize("key", [0, "key", np.zeros(2), jax.random.split(jax.random.key(0))])
def test_the_key_must_be_a_key(key: object, unchecked_types: None) -> None:
    with pytest.raises(TypeError, match=r"must be one JAX random key: jax\.random\.key\(0\)"):
        sf.simulate(key, sf.zoo.gaussian(), 10)  # type: ignore[arg-type]


def test_an_old_style_key_will_do() -> None:
    old = sf.simulate(jax.random.PRNGKey(3), sf.zoo.gaussian(), 10)
    assert np.array_equal(old.x, sf.simulate(jax.random.key(3), sf.zoo.gaussian(), 10).x)


@pytest.mark.parametrize(
    ("simulator", "settings", "words"),
    [
        (lambda key, theta: normal(key, theta) + theta[2], {}, r"reads an entry of theta.*index 2.*the prior has 2"),
        (lambda key, theta: normal(key, theta) * jnp.nan, {}, "128 of the first 128 simulations are not finite"),
        (normal, {"support": constraints.interval(50.0, 60.0)}, "outside the declared support, between 50 and 60"),
    ],
)
def test_a_worthless_model_is_refused_before_any_work(
    simulator: object, settings: dict[str, object], words: str, key: jax.Array
) -> None:
    with pytest.raises(sf.ModelError, match=words):
        sf.simulate(key, model_of(simulator, **settings), 10**9)


def test_quiet_when_all_is_well(key: jax.Array) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sf.simulate(key, sf.zoo.beta(), 5000)
