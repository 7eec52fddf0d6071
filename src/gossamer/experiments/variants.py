"""Variants: each experiment of a study, made once and checked, with all that its runs need."""

from typing import NamedTuple

from gossamer.clocks import Clock
from gossamer.engines.devices import check_devices
from gossamer.engines.runs import RunPlan, Setting, Width, fits
from gossamer.engines.simulator import planned
from gossamer.experiments.tuning import Trying
from gossamer.specs.making import placed
from gossamer.specs.parts import Parts
from gossamer.specs.sections import RunSection, TuningSection
from gossamer.specs.spec import Spec


class Variant(NamedTuple):
    """One variant of a study: all that it is made of, checked, how long it runs on which seeds, and its tuning."""

    parts: Parts
    plan: RunPlan
    seeds: list[int]
    tuning: TuningSection | None
    run: RunSection
    clock: Clock | None = None

    @staticmethod
    def of(spec: Spec) -> "Variant":
        """The variant that a spec without variants of its own describes."""
        parts = spec.parts()  # first: it says where in the spec something is wrong
        plan, seeds = planned(spec.run.steps, spec.run.every, spec.run.seeds, spec.run.dtype, spec.run.until)
        variant = Variant(parts, plan, seeds, spec.tuning, spec.run, parts.clock)
        variant.check_size()
        return variant

    def check_size(self) -> None:
        """Refuse runs that would not fit into memory, or that the devices cannot share, before any begins."""
        parts = self.parts
        settings = self.tuning.budget if self.tuning else len(parts.candidates)
        check_devices(settings * len(self.seeds), parts.problem, parts.network)
        for candidate in parts.candidates:
            rule = candidate.tried(self.tuning)[0] if self.tuning and candidate.open else candidate.whole
            one_setting = [Setting(rule, parts.oracle)]
            fits(one_setting, parts.problem, parts.network, self.seeds, self.plan, self.width)
        if self.trying:
            with placed("[tuning]"):
                self.trying.fits()

    @property
    def trying(self) -> Trying | None:
        """What is to be tuned."""
        if self.tuning is None:
            return None
        return Trying(self.parts, self.tuning, self.tuning.steps or self.plan.steps, self.plan.dtype)

    @property
    def width(self) -> Width:
        """The size of a block of its runs."""
        return Width(self.run.together, self.run.seeds_together or len(self.shares[0]))

    @property
    def shares(self) -> list[list[int]]:
        """The seeds of each tuning replicate; all in one where nothing is tuned."""
        size = len(self.seeds) // (self.tuning.replicates if self.tuning else 1)
        return [self.seeds[k : k + size] for k in range(0, len(self.seeds), size)]
