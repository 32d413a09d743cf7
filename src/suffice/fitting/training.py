"""Settings of the training loop, and the paper's own values of them (its Table of hyperparameters)."""

import math
from dataclasses import dataclass
from typing import Literal

import optax

Schedule = Literal["one-cycle", "exponential", "constant"]


@dataclass(frozen=True)
class Training:
    """How a network is trained: Adam, in batches, with a validation split that chooses the weights that are kept.

    Args:
        epochs: passes over the training pairs, at most.
        batch_size: pairs in one step (fewer if there are fewer).
        learning_rate: Adam's rate, at the schedule's highest.
        natural_learning_rate: the same for the natural parameters; as `learning_rate` if not given.
        schedule: "one-cycle" (up over a tenth of the steps, then down to nothing), "exponential" (times `decay` each
            epoch) or "constant".
        decay: the factor of the exponential schedule.
        validation_fraction: the share of simulations that are held out to choose the weights.
        check_every: epochs between two looks at the validation loss.
        first_check: the epoch from which on looks count.
        patience: looks without improvement after which training stops.
        averaging: over what share of all epochs weights are averaged, the latest counting most, before they are looked
            at and kept; None: not at all.
        natural_rows: over how many training parameters η is standardised at each step; None: those of the batch, as in
            the paper. More rows make less noise, which matters where η has heavy tails.
        max_gradient: the norm at which gradients are clipped; none if not given.
        refinement: steps, after all epochs, in which natural parameters and normaliser are refined for `Direct`
            posteriors (see `suffice.fitting.refining`); none if below 12, or with fewer than 2,000 training pairs.
    """

    epochs: int = 200
    batch_size: int = 500
    learning_rate: float = 1e-2
    natural_learning_rate: float | None = None
    schedule: Schedule = "one-cycle"
    decay: float = 0.99
    validation_fraction: float = 0.1
    check_every: int = 5
    first_check: int = 0
    patience: int = 20
    averaging: float | None = 0.025
    natural_rows: int | None = 2000
    max_gradient: float | None = None
    refinement: int = 240

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "check_every", "patience"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {value!r}, but must be a whole number of at least 1.")
        if isinstance(self.refinement, bool) or not isinstance(self.refinement, int) or self.refinement < 0:
            raise ValueError(f"refinement is {self.refinement!r}, but must be a whole number, 0 for none.")
        for name in ("learning_rate", "decay", "natural_learning_rate", "averaging", "natural_rows", "max_gradient"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value!r}, but must be positive.")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction is {self.validation_fraction!r}, but must be between 0 and 1.")
        if self.schedule not in ("one-cycle", "exponential", "constant"):
            raise ValueError(f"schedule is {self.schedule!r}, but must be 'one-cycle', 'exponential' or 'constant'.")

    def rate(self, steps_per_epoch: int) -> optax.Schedule:
        """The learning rate as a function of the step."""
        if self.schedule == "one-cycle":
            steps = max(self.epochs * steps_per_epoch, 10)
            return optax.cosine_onecycle_schedule(steps, self.learning_rate, pct_start=0.1, final_div_factor=1e3)
        if self.schedule == "exponential":
            return optax.exponential_decay(self.learning_rate, steps_per_epoch, self.decay, staircase=True)
        return optax.constant_schedule(self.learning_rate)

    def newest(self, steps_per_epoch: int) -> float:
        """The weight of the newest weights in their running average, which fades by e over the averaged epochs."""
        return 1.0 if self.averaging is None else -math.expm1(-1.0 / (self.averaging * self.epochs * steps_per_epoch))

    @classmethod
    def paper(cls, model_name: str, objective: Literal["SM", "SSM", "FP"]) -> "Training":
        """The paper's settings for its model of that name and its objective: SM, SSM or FP (`PosteriorMean`).

        Half of the simulations are held out, as the paper's test set is as large as its training set; training stops
        when the loss on them has grown since the last look, and the weights before are kept.
        """
        if (model_name, objective) not in _PAPER:
            known = ", ".join(f"{name} {kind}" for name, kind in _PAPER)
            raise ValueError(f"The paper has no settings for {model_name!r} by {objective!r}: it has {known}.")
        rate, natural_rate, epochs, start, check, scheduler = _PAPER[model_name, objective]
        return cls(
            epochs=epochs,
            batch_size=1000,
            learning_rate=rate,
            natural_learning_rate=natural_rate,
            schedule="exponential" if scheduler else "constant",
            validation_fraction=0.5,
            check_every=check,
            first_check=start,
            patience=1,
            averaging=None,
            natural_rows=None,
            refinement=0,
        )


# Rates of f_w (or s_β) and η_w, T, T_start, T_check, scheduler.
_PAPER: dict[tuple[str, str], tuple[float, float | None, int, int, int, bool]] = {
    ("gaussian", "SM"): (3e-4, 3e-3, 500, 150, 10, True),
    ("gaussian", "SSM"): (1e-3, 1e-3, 500, 200, 10, True),
    ("gaussian", "FP"): (1e-2, None, 1000, 300, 25, False),
    ("gamma", "SM"): (1e-3, 1e-3, 500, 200, 10, True),
    ("gamma", "SSM"): (1e-3, 1e-3, 500, 200, 10, True),
    ("gamma", "FP"): (1e-3, None, 1000, 300, 25, True),
    ("beta", "SM"): (1e-3, 1e-3, 500, 200, 10, True),
    ("beta", "SSM"): (1e-3, 1e-3, 500, 200, 10, True),
    ("beta", "FP"): (1e-2, None, 1000, 250, 50, True),
    ("ar2", "SM"): (1e-3, 1e-3, 500, 100, 25, True),
    ("ar2", "SSM"): (1e-3, 1e-3, 500, 100, 25, True),
    ("ar2", "FP"): (1e-3, None, 1000, 500, 25, True),
    ("ma2", "SM"): (1e-3, 1e-3, 500, 100, 25, True),
    ("ma2", "SSM"): (1e-3, 1e-3, 500, 100, 25, True),
    ("ma2", "FP"): (1e-3, None, 1000, 500, 25, True),
    ("lorenz96-small", "SSM"): (1e-3, 1e-3, 1000, 500, 50, True),
    ("lorenz96-small", "FP"): (1e-3, None, 1000, 200, 25, True),
    ("lorenz96-large", "SSM"): (1e-3, 1e-3, 1000, 500, 50, True),
    ("lorenz96-large", "FP"): (1e-3, None, 1000, 200, 25, True),
}
