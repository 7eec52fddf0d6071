"""The sections of a spec file: their keys, types and defaults."""

import math
from typing import Any, Literal

import pydantic

from gossamer.core import LARGEST_INT, nearest
from gossamer.metrics import select_metrics, targets

FIRST_SEED = 1_000_000
"""The first tuning seed: the seeds of the final runs lie below it."""

WIDEST = 100_000
"""The most settings, or seeds, that a compiled block or a grid may hold."""

STEP_SIZES = (1e-30, 1e30)
"""The step sizes that tuning may span: float32 overflows soon after them."""


class Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)


class OracleSection(Section):
    batch: int | None = None
    replace: bool = True
    stages: list[dict[str, Any]] = []


class RunSection(Section):
    steps: int
    every: int | list[int] | None = None
    seeds: int | list[int] = 1
    dtype: Literal["float32", "float64"] = "float32"
    together: int = pydantic.Field(default=1, ge=1, le=WIDEST)
    """Settings in one compiled block."""
    seeds_together: int | None = pydantic.Field(default=None, ge=1, le=WIDEST)
    """Seeds in one compiled block; all of them if it is not given."""
    settle: int | None = pydantic.Field(default=None, ge=1, le=LARGEST_INT)
    """Runs go on, twice as long each time, until ‖∇F‖² has settled, but never beyond this many rounds."""
    until: dict[str, float] | None = None
    """A run ends where it is measured and all these metrics are at their value or better."""


class ClockSection(Section):
    """The times of computing and of messages; see `gossamer.clock`."""

    links: str | dict[str, Any] = "internet"
    compute: float | dict[str, Any] = 1e-3
    slow: dict[str, Any] | None = None
    reduce: str = "ring"
    server: int = 0
    outages: dict[str, Any] | None = None
    seeds: int = 10
    seed: int = 0


class TuningSection(Section):
    """The choice of the hyper-parameters that an `[[algorithm]]` leaves out.

    Any other key names a hyper-parameter and lists the values to try, such as ``lam = [1.0, 0.1]``.
    """

    eta: list[float]
    """The lowest and the highest step size of the first grid."""
    grids: dict[str, list[int | pydantic.FiniteFloat]] = {}
    """The values of other hyper-parameters to try, in place of those that their annotations name."""
    budget: int = pydantic.Field(default=32, ge=4, le=WIDEST)
    """Settings of the first grid, the same number for every algorithm."""
    extensions: int = pydantic.Field(default=2, ge=0, le=2)
    refinements: int = pydantic.Field(default=0, ge=0, le=4)
    """The number of further grids, each of half as many settings, between the best setting and its neighbours."""
    safety: float = pydantic.Field(default=1.0, ge=1, le=100)
    """A setting is not chosen where a step size larger by at most this factor diverged or missed the target."""
    criterion: str = "loss"
    """A metric that is measured along a run, one's own too, or rounds."""
    target: float | None = pydantic.Field(default=None, allow_inf_nan=False)
    """The loss to reach for good, where the criterion is rounds."""
    until: dict[str, float] | None = None
    """Metrics and the values to reach for the first time, where the criterion is rounds: runs end there."""
    steps: int | None = pydantic.Field(default=None, ge=1, le=LARGEST_INT)
    seeds: int = pydantic.Field(default=2, ge=1, le=WIDEST)
    """Tuning seeds of each replicate."""
    replicates: int = pydantic.Field(default=1, ge=1, le=WIDEST)
    """The number of independent tunings; the seeds of the run are dealt to them in order, equally many to each."""
    first_seed: int = pydantic.Field(default=FIRST_SEED, ge=FIRST_SEED, le=LARGEST_INT - WIDEST)
    """The first tuning seed."""
    together: int = pydantic.Field(default=16, ge=1, le=WIDEST)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _named_grids(cls, given: Any) -> Any:
        """Collect lists under other keys as values of hyper-parameters; `check_grids` checks their names."""
        if not isinstance(given, dict):
            return given
        named = {key: value for key, value in given.items() if key not in cls.model_fields and isinstance(value, list)}
        grids = given.get("grids", {})
        if not named or not isinstance(grids, dict):
            return given
        return {key: value for key, value in given.items() if key not in named} | {"grids": grids | named}

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> "TuningSection":
        if len(self.eta) != 2 or not 0 < self.eta[0] < self.eta[1] < math.inf:
            raise ValueError(f"eta must be [lowest, highest] with 0 < lowest < highest, but is {self.eta}")
        if self.eta[0] < STEP_SIZES[0] or self.eta[1] > STEP_SIZES[1]:
            raise ValueError(f"eta must lie between {STEP_SIZES[0]:g} and {STEP_SIZES[1]:g}, but is {self.eta}")
        for name, values in self.grids.items():
            if not values or len(set(values)) < len(values):
                raise ValueError(f"the values of {name} must be at least one, all different, but are {values}")
        along = [metric.name for metric in select_metrics()]
        if self.criterion not in (*along, "rounds"):
            raise ValueError(
                f"criterion is {self.criterion!r}, which is not known; {nearest(self.criterion, [*along, 'rounds'])}"
            )
        ends = (self.target is not None) + (self.until is not None)
        if ends != (self.criterion == "rounds"):
            raise ValueError('criterion = "rounds" needs one of target and until; no other criterion has them')
        targets(self.until)
        return self


class VariantSection(Section):
    """A variant of a study: another network, and other values for keys of the sections and of all algorithms."""

    name: str = pydantic.Field(min_length=1)
    problem: dict[str, Any] = {}
    network: dict[str, Any] | None = None
    oracle: dict[str, Any] = {}
    run: dict[str, Any] = {}
    clock: dict[str, Any] = {}
    tuning: dict[str, Any] = {}
    algorithm: dict[str, Any] = {}
