"""The paper, reproduced: one settings object for each of its tables and figures, made from shared, cached pieces."""

from suffice.experiments.item import Item as Item
from suffice.experiments.item import Result as Result
from suffice.experiments.registry import ITEMS as ITEMS
from suffice.experiments.scales import SCALES as SCALES
from suffice.experiments.scales import Scale as Scale
from suffice.experiments.writing import reproduce as reproduce
from suffice.experiments.writing import write_page as write_page
