"""sbi's estimators on given simulations and observations; runs in an environment of sbi's own, see `accuracy_sbi.py`.

    python sbi_peers.py METHOD FOLDER

FOLDER holds `data.npz` (theta, x, observed, low, high); `METHOD.npz` is written there: mean and sd of the posterior of
each observation, seconds of training and of the posteriors. METHOD is `npe`, `npe-cnn` (its CNN embedding, for series)
or `nle`. All settings are sbi's defaults; the posterior of NLE is summed over a grid of the prior's box, so that no
Markov chain adds to its error.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sbi.inference import NLE, NPE
from sbi.neural_nets import posterior_nn
from sbi.neural_nets.embedding_nets import CNNEmbedding
from sbi.utils import BoxUniform

NODES = 100  # of the grid, along each parameter
DRAWS = 10_000

Moments = tuple[np.ndarray, np.ndarray]


def trained_npe(
    prior: BoxUniform, theta: torch.Tensor, x: torch.Tensor, *, cnn: bool
) -> Callable[[torch.Tensor], Moments]:
    """NPE, with or without the embedding."""
    density = posterior_nn("maf", embedding_net=CNNEmbedding(input_shape=tuple(x.shape[1:]))) if cnn else "maf"
    inference = NPE(prior, density_estimator=density, show_progress_bars=False)
    inference.append_simulations(theta, x).train()
    posterior = inference.build_posterior()

    def moments(observed: torch.Tensor) -> Moments:
        draws = posterior.sample((DRAWS,), x=observed, show_progress_bars=False).numpy()
        return draws.mean(0), draws.std(0)

    return moments


def trained_nle(prior: BoxUniform, theta: torch.Tensor, x: torch.Tensor) -> Callable[[torch.Tensor], Moments]:
    """NLE, and its posterior on a grid."""
    inference = NLE(prior, show_progress_bars=False)
    estimator = inference.append_simulations(theta, x).train()
    low, high = prior.base_dist.low, prior.base_dist.high
    axes = [a + (b - a) * (torch.arange(NODES) + 0.5) / NODES for a, b in zip(low, high, strict=True)]
    nodes = torch.cartesian_prod(*axes)

    @torch.no_grad()
    def moments(observed: torch.Tensor) -> Moments:
        rows = observed.expand(len(nodes), *observed.shape)[None]
        log_likelihood = estimator.log_prob(rows, condition=nodes).reshape(-1).double()
        weights = torch.softmax(log_likelihood, 0).numpy()
        mean = weights @ nodes.double().numpy()
        return mean, np.sqrt(weights @ (nodes.double().numpy() - mean) ** 2)

    return moments


def main() -> None:
    """Train, and write the moments."""
    method, folder = sys.argv[1], Path(sys.argv[2])
    torch.manual_seed(0)
    torch.set_num_threads(1)  # such small networks train no faster with more
    data = {name: torch.as_tensor(values) for name, values in np.load(folder / "data.npz").items()}
    prior = BoxUniform(data["low"], data["high"])
    start = time.perf_counter()
    if method == "nle":
        moments = trained_nle(prior, data["theta"], data["x"])
    else:
        moments = trained_npe(prior, data["theta"], data["x"], cnn=method == "npe-cnn")
    training = time.perf_counter() - start
    start = time.perf_counter()
    means, sds = zip(*(moments(row) for row in data["observed"]), strict=True)
    np.savez(
        folder / f"{method}.npz",
        mean=np.array(means),
        sd=np.array(sds),
        training=training,
        sampling=time.perf_counter() - start,
    )


if __name__ == "__main__":
    main()
