"""What an experiment is: the settings object of one table or figure, and what it makes."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from suffice.experiments.lab import Lab

Kind = Literal["table", "figure", "check"]


@dataclass(frozen=True, eq=False)
class Result:
    """Tables and pictures of one item.

    Attributes:
        tables: pandas tables by name; the item's own is "".
        figures: pictures by name; the item's own is "".
        notes: sentences about this run that a reader of the table needs.
    """

    tables: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@runtime_checkable
class Study(Protocol):
    """The settings of one table or figure: a frozen dataclass that makes it."""

    def __call__(self, lab: "Lab") -> Result:
        """Make it from the pieces of a lab."""
        ...


@dataclass(frozen=True)
class Item:
    """One table or figure of the paper, or one of its statements.

    Args:
        id: what the command calls it.
        title: what it shows.
        place: where the paper has it, numbered in the order of its text and appendix.
        labels: the labels it has in the paper's text; none for what is only said there.
        kind: whether the paper has it as a table, a figure, or as a statement to check.
        study: makes it.
        cost: in words, at each scale, on two cores: smoke, quick, paper.
        remark: what the paper says, and which of its numbers come from a defect of the released code.
    """

    id: str
    title: str
    place: str
    labels: tuple[str, ...]
    kind: Kind
    study: Study
    cost: tuple[str, str, str]
    remark: str = ""
