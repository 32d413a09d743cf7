"""sbi's estimators on given simulations and observations; runs in an environment of sbi's own, see `accuracy_sbi.py`.

    python sbi_peers.py METHOD FOLDER

FOLDER holds `data.npz` (theta, x, observed, low, high); `METHOD.npz` is written there: mean and sd of the posterior of
each observation, seconds of training and of the posteriors. METHOD is `npe`, `npe-cnn` (its CNN embedding, for series)
or `nle`. All settings are the defaults of sbi; posteriors are summed over a grid of the prior, so that neither a Markov
chain nor draws outside the prior add to their error.
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

LogProb = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of one observation at every node


def trained_npe(prior: BoxUniform, theta: torch.Tensor, x: torch.Tensor, *, cnn: bool) -> LogProb:
    """The log-posterior by NPE, with or without the embedding."""
    density = posterior_nn("maf", embedding_net=CNNEmbedding(input_shape=tuple(x.shape[1:]))) if cnn else "maf"
    inference = NPE(prior, density_estimator=density, show_progress_bars=False)
    estimator = inference.append_simulations(theta, x).train()
    return lambda observed, nodes: estimator.log_prob(nodes[:, None], condition=observed[None])


def trained_nle(prior: BoxUniform, theta: torch.Tensor, x: torch.Tensor) -> LogProb:
    """The log-likelihood by NLE."""
    inference = NLE(prior, show_progress_bars=False)
    estimator = inference.append_simulations(theta, x).train()
    return lambda observed, nodes: estimator.log_prob(
        observed.expand(len(nodes), *observed.shape)[None], condition=nodes
    )


@torch.no_grad()
def moments(log_prob: LogProb, prior: BoxUniform, observed: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of the posterior of one observation, over the prior's box."""
    bounds = zip(prior.base_dist.low, prior.base_dist.high, strict=True)
    nodes = torch.cartesian_prod(*(low + (high - low) * (torch.arange(NODES) + 0.5) / NODES for low, high in bounds))
    weights = torch.softmax(log_prob(observed, nodes).reshape(-1).double(), 0).numpy()
    mean = weights @ nodes.double().numpy()
    return mean, np.sqrt(weights @ (nodes.double().numpy() - mean) ** 2)


def main() -> None:
    """Train, and write the moments."""
    method, folder = sys.argv[1], Path(sys.argv[2])
    torch.manual_seed(0)
    torch.set_num_threads(1)  # such small networks train no faster with more
    data = {name: torch.as_tensor(values) for name, values in np.load(folder / "data.npz").items()}
    prior = BoxUniform(data["low"], data["high"])
    start = time.perf_counter()
    if method == "nle":
        log_prob = trained_nle(prior, data["theta"], data["x"])
    else:
        log_prob = trained_npe(prior, data["theta"], data["x"], cnn=method == "npe-cnn")
    training = time.perf_counter() - start
    start = time.perf_counter()
    means, sds = zip(*(moments(log_prob, prior, row) for row in data["observed"]), strict=True)
    np.savez(
        folder / f"{method}.npz",
        mean=np.array(means),
        sd=np.array(sds),
        training=training,
        sampling=time.perf_counter() - start,
    )


if __name__ == "__main__":
    main()
