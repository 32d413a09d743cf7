"""What a sampler of a surrogate is told: what is asked of it, and by which settings."""

import os
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@runtime_checkable
class Request(Protocol):
    """What `sample` asks of a method; `suffice.sampling.chains.Run` is one."""

    @property
    def num_draws(self) -> int:
        """Draws of each chain."""
        ...

    @property
    def num_chains(self) -> int:
        """Chains."""
        ...

    @property
    def iid(self) -> bool:
        """Whether an observation holds replicates."""
        ...

    @property
    def checkpoint(self) -> str | os.PathLike[str] | None:
        """A file from which a killed run goes on."""
        ...

    @property
    def progress(self) -> bool:
        """Whether to show a bar."""
        ...


@dataclass(frozen=True)
class Plan:
    """The settings of the samplers; see `Surrogate`."""

    particles: int
    iterations: int
    warmup: int
    thin: int
    keep_history: bool
