"""How a fit came about: its losses, the epoch that was kept, and why it ended."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from suffice.fitting.training import Training


@dataclass(frozen=True, eq=False)
class History:
    """The course of a training.

    Attributes:
        train_loss: the mean loss of each epoch, with the weights as they changed.
        validation_epochs: after how many epochs the validation loss was looked at.
        validation_loss: what it was.
        best_epoch: after how many epochs the kept weights were reached; None if there are none.
        seconds: how long it took.
        stopped: why training ended before its last epoch; empty if it did not.
        failed_epoch: the first epoch whose loss was not finite; None if there is none.
    """

    train_loss: Float[np.ndarray, " epochs"]
    validation_epochs: Int[np.ndarray, " looks"]
    validation_loss: Float[np.ndarray, " looks"]
    best_epoch: int | None
    seconds: float
    stopped: str
    failed_epoch: int | None

    @classmethod
    def empty(cls) -> "History":
        """Before the first epoch."""
        return cls(np.zeros(0), np.zeros(0, np.int64), np.zeros(0), None, 0.0, "", None)

    @property
    def epochs(self) -> int:
        """How many epochs were run."""
        return len(self.train_loss)

    @property
    def best_loss(self) -> float:
        """The validation loss of the kept weights; infinite if there are none."""
        if self.best_epoch is None:
            return np.inf
        return float(self.validation_loss[np.argmax(self.validation_epochs == self.best_epoch)])

    def extended(self, losses: Float[np.ndarray, " new"], loss: float, training: Training, seconds: float) -> "History":
        """The history after some more epochs and one look, which says whether they were the best and the last."""
        epoch = self.epochs + len(losses)
        finite = np.isfinite(losses)
        failed = None if finite.all() and np.isfinite(loss) else self.epochs + int(np.argmin(finite)) + 1
        counts = failed is None and epoch >= min(training.first_check, training.epochs)
        best_epoch = epoch if counts and loss < self.best_loss else self.best_epoch
        looks = np.append(self.validation_epochs, epoch)
        stopped = "the loss was not finite" if failed is not None else ""
        if best_epoch is not None and np.sum(looks > best_epoch) >= training.patience:
            stopped = stopped or "the validation loss no longer fell"
        return replace(
            self,
            train_loss=np.append(self.train_loss, losses),
            validation_epochs=looks,
            validation_loss=np.append(self.validation_loss, loss),
            best_epoch=best_epoch,
            seconds=seconds,
            stopped=stopped,
            failed_epoch=failed,
        )

    def to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays."""
        names = ("train_loss", "validation_epochs", "validation_loss")
        plain = ("best_epoch", "seconds", "stopped", "failed_epoch")
        return {name: getattr(self, name) for name in plain}, {name: getattr(self, name) for name in names}

    @classmethod
    def from_archive(cls, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> "History":
        """The history again."""
        return cls(**(manifest | arrays))
