"""The sections of a spec file: their keys, types and defaults."""

from typing import Any, Literal

import pydantic

SECOND = ("lam", "beta", "a", "gamma")
"""Hyper-parameters that tuning varies besides the step size."""


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
    together: int = pydantic.Field(default=1, ge=1)
    """Settings in one compiled block."""
    seeds_together: int | None = pydantic.Field(default=None, ge=1)
    """Seeds in one compiled block; all of them if it is not given."""
    settle: int | None = pydantic.Field(default=None, ge=1)
    """Runs go on, twice as long each time, until ‖∇F‖² has settled, but never beyond this many rounds."""


class TuningSection(Section):
    """How the hyper-parameters that an `[[algorithm]]` leaves out are chosen."""

    eta: list[float]
    """The lowest and the highest step size of the first grid."""
    lam: list[float] = [1.0, 0.3, 0.1, 0.03]
    beta: list[float] = [0.0, 0.7, 0.9, 0.97]
    a: list[float] = [1.0, 0.3, 0.1, 0.03]
    gamma: list[float] = [1.0, 0.5, 0.2, 0.1]
    budget: int = pydantic.Field(default=32, ge=4)
    """Settings of the first grid, the same number for every algorithm."""
    extensions: int = pydantic.Field(default=2, ge=0, le=2)
    criterion: Literal["loss", "grad_norm_sq", "rounds"] = "loss"
    target: float | None = None
    """The loss to reach, where the criterion is rounds."""
    steps: int | None = pydantic.Field(default=None, ge=1)
    seeds: int = pydantic.Field(default=2, ge=1)
    """Tuning seeds of each replicate."""
    replicates: int = pydantic.Field(default=1, ge=1)
    """How often to tune anew; the seeds of the run are dealt to the replicates in order, equally many to each."""
    together: int = pydantic.Field(default=16, ge=1)

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> "TuningSection":
        if len(self.eta) != 2 or not 0 < self.eta[0] < self.eta[1]:
            raise ValueError(f"eta must be [lowest, highest] with 0 < lowest < highest, but is {self.eta}")
        for name in SECOND:
            if not getattr(self, name) or self.budget % len(getattr(self, name)):
                raise ValueError(f"budget = {self.budget} must be a multiple of the number of values of {name}")
        if (self.criterion == "rounds") != (self.target is not None):
            raise ValueError('target goes with criterion = "rounds", and only with it')
        return self


class VariantSection(Section):
    """What differs in one variant of a study: a network, and keys of the other sections and of all algorithms."""

    name: str
    problem: dict[str, Any] = {}
    network: dict[str, Any] | None = None
    oracle: dict[str, Any] = {}
    run: dict[str, Any] = {}
    tuning: dict[str, Any] = {}
    algorithm: dict[str, Any] = {}
