"""How much is computed: `smoke` to see that everything runs, `quick` for hours, `paper` as the paper has it."""

from dataclasses import dataclass
from typing import Any

IID = ("beta", "gamma", "gaussian")
SERIES = ("ar2", "ma2")
LORENZ = ("lorenz96-small", "lorenz96-large")
DEFECTS = {"ABC-FP-D1": IID, "Exc-SM-D2": ("beta", "gamma")}  # methods as released, and the models where they differ


@dataclass(frozen=True)
class Scale:
    """The sizes of all experiments.

    Args:
        name: what `--scale` calls it.
        iid: exponential family models.
        series: time series models.
        lorenz: configurations of Lorenz96.
        seeds: fits of each MCC table, each with simulations of its own.
        simulations: training pairs and held-out pairs together, half each for the paper's settings.
        epochs: at most, by group of models (iid, series, Lorenz96 small, large); None: as the settings say.
        embedded: fresh pairs that embeddings are held against the exact ones on.
        observations: of models with a known likelihood.
        ratio_observations: of those, how many get all iterations of ratio estimation, whose cost is out of proportion;
            its first iteration, "PMC-RE-first", is for all.
        exchange_observations: of series, how many Exc-SM and other exchange chains get, whose networks take a pass over
            all windows.
        block: observations that are sampled together, and cached together.
        transport_draws: of either posterior that W₂ is taken of.
        exchange: warm-up and draws of the paper's exchange chains.
        inner_steps: of the study of inner steps.
        chosen_inner: inner steps for iid models and for series outside that study.
        chains: warm-up, draws and number of our own chains.
        particles: of ABC.
        iterations: of ABC.
        measured: the iterations of ABC, counted from 1, at which W₂ is measured.
        surrogate: particles and iterations of population Monte Carlo.
        synthetic: simulations at each particle for the synthetic likelihood.
        ratio: simulations at each particle for ratio estimation.
        lorenz_observations: of Lorenz96, small and large.
        lorenz_exchange: observations, inner steps, bridges, warm-up and draws of exchange chains on Lorenz96 small.
        predicted: posterior predictive simulations for each observation.
        bandwidth_simulations: prior simulations that γ is found from.
        methods: by group of models, at scales that leave methods out; None: all.
        left_out: further methods that are left out, everywhere or of one model ("ma2/Exc-SSM"); none but on request.
        derivatives: inputs, batch and numbers of outputs of the study of second derivatives.
    """

    name: str
    iid: tuple[str, ...]
    series: tuple[str, ...]
    lorenz: tuple[str, ...]
    seeds: int
    simulations: int
    epochs: tuple[int | None, ...]
    embedded: int
    observations: int
    ratio_observations: int
    exchange_observations: tuple[int, int]
    block: int
    transport_draws: int
    exchange: tuple[int, int]
    inner_steps: tuple[int, ...]
    chosen_inner: tuple[int, int]
    chains: tuple[int, int, int]
    particles: int
    iterations: int
    measured: tuple[int, ...]
    surrogate: tuple[int, int]
    synthetic: int
    ratio: int
    lorenz_observations: tuple[int, int]
    lorenz_exchange: tuple[int, int, int, int, int]
    predicted: int
    bandwidth_simulations: int
    derivatives: tuple[int, int, tuple[int, ...]]
    methods: tuple[tuple[str, ...] | None, ...] | None = None
    left_out: tuple[str, ...] = ()

    def group(self, name: str) -> tuple[str, ...]:
        """The models of a group: "iid", "series", "likelihood" (both) or "lorenz"."""
        groups = {"iid": self.iid, "series": self.series, "likelihood": self.iid + self.series, "lorenz": self.lorenz}
        return groups[name]

    def methods_of(self, model: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the wanted methods that this scale has for the model."""
        wanted = tuple(name for name in wanted if not self._left_out(model, name.removesuffix("-first")))
        wanted = tuple(name for name in wanted if model in DEFECTS.get(name, (model,)))
        kept = None if self.methods is None else self.methods[_group(model)]
        return wanted if kept is None else tuple(name for name in wanted if name in kept)

    def _left_out(self, model: str, method: str) -> bool:
        return method in self.left_out or f"{model}/{method}" in self.left_out

    def epochs_of(self, model: str) -> int | None:
        """The most epochs that this model is trained for; None: as its settings say."""
        return self.epochs[_group(model)]

    def observations_of(self, model: str, method: str) -> int:
        """How many observations this method gets."""
        if model in LORENZ:
            number = self.lorenz_observations[LORENZ.index(model)]
            return min(number, self.lorenz_exchange[0]) if method.startswith("Exc") else number
        if method == "PMC-RE":
            return min(self.observations, self.ratio_observations)
        if method.startswith("Exc") and model in SERIES:
            return min(self.observations, self.exchange_observations[0 if method == "Exc-SM" else 1])
        return self.observations

    def other_inner(self, model: str, steps: int) -> int | None:
        """The number of inner steps, or None where it is the one that all other items have: those pieces serve."""
        return None if steps == self.chosen_inner[0 if model in IID else 1] else steps


def _group(model: str) -> int:
    """The place of a model's group: iid, series, Lorenz96 small, large."""
    return 0 if model in IID else 1 if model in SERIES else 2 + LORENZ.index(model)


_MODELS: dict[str, Any] = {"iid": IID, "series": SERIES}

SMOKE = Scale(
    name="smoke",
    iid=("gamma",),
    series=("ar2",),
    lorenz=("lorenz96-small",),
    seeds=1,
    simulations=200,
    epochs=(2, 2, 2, 2),
    embedded=60,
    observations=2,
    ratio_observations=2,
    exchange_observations=(2, 2),
    block=2,
    transport_draws=30,
    exchange=(20, 40),
    inner_steps=(2,),
    chosen_inner=(2, 2),
    chains=(20, 20, 2),
    particles=30,
    iterations=4,
    measured=(1, 2, 3, 4),
    surrogate=(100, 2),
    synthetic=40,
    ratio=50,
    lorenz_observations=(2, 2),
    lorenz_exchange=(1, 2, 2, 20, 40),
    predicted=20,
    bandwidth_simulations=30,
    derivatives=(10, 20, (3,)),
    methods=(
        ("Exc-SM", "Exc-SSM", "ABC-SM", "ABC-FP", "PMC-SL", "PMC-RE", "PMC-RE-first", "Direct", *DEFECTS),
        ("Exc-SM", "ABC-FP", "PMC-SL", "Direct"),
        None,
        None,
    ),
)
QUICK = Scale(
    name="quick",
    **_MODELS,
    lorenz=LORENZ,
    seeds=1,
    simulations=20_000,
    epochs=(None, None, None, 40),
    embedded=1000,
    observations=20,
    ratio_observations=4,
    exchange_observations=(20, 20),
    block=20,
    transport_draws=1000,
    exchange=(2000, 2000),
    inner_steps=(10, 30, 100, 200),
    chosen_inner=(30, 100),
    chains=(300, 500, 4),
    particles=1000,
    iterations=60,
    measured=(1, 3, 5, 8, 11, 14, 17, 20, 25, 30, 40, 60),
    surrogate=(500, 4),
    synthetic=100,
    ratio=500,
    lorenz_observations=(10, 4),
    lorenz_exchange=(4, 500, 200, 2000, 2000),
    predicted=500,
    bandwidth_simulations=1000,
    derivatives=(100, 200, (1, 5, 10, 20)),
    methods=(
        (
            *("Exc-SM", "Exc-SSM", "ABC-SM", "ABC-SSM", "ABC-FP", "PMC-SL", "PMC-RE", "PMC-RE-first"),
            *("Direct", "Direct-SM", "Exc-ours"),
            *DEFECTS,
        ),
        ("Exc-SM", "ABC-SM", "ABC-FP", "PMC-SL", "PMC-RE", "PMC-RE-first", "Direct", "Direct-SM", "Exc-ours"),
        None,
        ("ABC-FP", "Direct"),
    ),
)
PAPER = Scale(
    name="paper",
    **_MODELS,
    lorenz=LORENZ,
    seeds=3,
    simulations=20_000,
    epochs=(None, None, None, None),
    embedded=1000,
    observations=100,
    ratio_observations=3,
    exchange_observations=(100, 4),
    block=20,
    transport_draws=1000,
    exchange=(10_000, 10_000),
    inner_steps=(10, 30, 100, 200),
    chosen_inner=(30, 100),
    chains=(300, 500, 4),
    particles=1000,
    iterations=100,
    measured=(1, 3, 5, 8, 11, 14, 17, 20, 25, 30, 40, 50, 70, 100),
    surrogate=(1000, 10),
    synthetic=100,
    ratio=1000,
    lorenz_observations=(100, 20),
    lorenz_exchange=(10, 500, 200, 10_000, 10_000),
    predicted=1000,
    bandwidth_simulations=1000,
    derivatives=(100, 5000, (1, 2, 5, 10, 15, 20)),
)
SCALES = {scale.name: scale for scale in (SMOKE, QUICK, PAPER)}
