"""The command `suffice`: each command calls the library and says what came of it."""

from suffice.cli import comparing as comparing
from suffice.cli import demonstration as demonstration
from suffice.cli import listing as listing
from suffice.cli import pipeline as pipeline
from suffice.cli import reproducing as reproducing
from suffice.cli.application import app as app
