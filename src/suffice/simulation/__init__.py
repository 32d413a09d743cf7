"""Simulations: pairs (θ, x) from prior and model, and the verb that makes them."""

from suffice.simulation.at import simulate_at as simulate_at
from suffice.simulation.at import traced_at as traced_at
from suffice.simulation.checking import Check as Check
from suffice.simulation.checking import check as check
from suffice.simulation.executors import Where as Where
from suffice.simulation.failures import dependence_sentence as dependence_sentence
from suffice.simulation.lazily import StoredRows as StoredRows
from suffice.simulation.merging import merge as merge
from suffice.simulation.running import simulate as simulate
from suffice.simulation.simulations import Simulations as Simulations
from suffice.simulation.simulations import Status as Status
