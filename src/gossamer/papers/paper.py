"""Papers: a folder each, with what the paper asserts, a spec for each experiment, and its claims.

`paper.toml` says who asserts what where, and what of the authors' setting could not be followed. Each of its
experiments is a spec of that name beside it, and `claims.py` has the list `CLAIMS`. Claims are read, and checked
against their specs, when they are asked for.
"""

import importlib.metadata
import importlib.util
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pydantic

from gossamer.algorithms import ALGORITHMS
from gossamer.core import InputError, brief, call_own, nearest
from gossamer.papers.verdicts import ERROR, Claim, Verdict, Verdicts
from gossamer.results.study import Study
from gossamer.specs.schema import Section, validate
from gossamer.specs.setup import Candidate
from gossamer.specs.spec import Spec

OWN = Path(__file__).parent
"""The folder of the papers that come with Gossamer."""

DEFAULT = "biased-dmt"
"""The paper that `gossamer reproduce` means without a name."""

ENTRY_POINTS = "gossamer.papers"
"""The group of entry points by which an installed package brings papers: a name, and the package of its folder."""

PUBLISHED, ALIKE, GIVEN = "as published", "tuned alike", "with our numbers"
"""The readings of an experiment: with the authors' numbers, tuned with equal budgets, or with numbers of ours."""

EXACT = "exactly"
"""The reading of what needs no runs, such as an identity."""


class Experiment(Section):
    """An experiment of a paper, as `paper.toml` has it. Its spec is the file of its name."""

    where: str
    """The place in the paper."""
    setting: Literal["theirs", "in the spirit of"]
    """In the spirit of theirs: data, model or what is compared are others."""
    differs: list[str] = pydantic.Field(default=[])
    """The parts of the authors' setting that could not be followed."""
    remark: str = ""
    """A remark for readers of the result."""
    published: str = ""
    """The reason why there is no reading as published."""
    numbers: Literal["theirs", "ours"] = "theirs"
    """Whose the hyper-parameters of the spec are."""
    keep: list[str] = pydantic.Field(default=[])
    """The hyper-parameters that stay as published where the others are tuned alike."""
    seconds: list[float | int] = pydantic.Field(default=[60, 30], min_length=2, max_length=2)
    """About how long it takes on an idle core, whole and quick."""
    quick: dict[str, Any] | None = None
    """The least that decides its headline claim: `algorithms`, `variants`, `replicates` and keys of `tuning`."""

    @pydantic.model_validator(mode="after")
    def _check_differences(self) -> "Experiment":
        if self.setting != "theirs" and not self.differs:
            raise ValueError("differs is empty: list what of the authors' setting is not followed")
        return self


class About(Section):
    """The contents of `paper.toml`."""

    title: str
    authors: str
    year: int
    arxiv: str = ""
    about: str
    """The assertion, in our own words."""
    sources: list[str] = pydantic.Field(default=[])
    """The sources of the setting."""
    experiment: dict[str, Experiment] = pydantic.Field(min_length=1)


@dataclass(frozen=True)
class Paper:
    """A paper: who says what, its experiments and its claims."""

    name: str
    folder: Path
    about: About

    @staticmethod
    def load(folder: str | Path) -> "Paper":
        """Read the paper in a folder, or raise InputError with what is wrong; its claims are read later."""
        place = Path(folder).resolve()
        file = place / "paper.toml"
        if not file.is_file():
            raise InputError(
                f"{brief(str(folder))} is no paper: a paper is a folder with paper.toml, a spec for each experiment "
                "and claims.py. `gossamer init --paper NAME` writes one to start from."
            )
        try:
            given = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{file} is not TOML: {error}.") from error
        about = validate(About, given, f"{file}: ")
        for name in about.experiment:
            if not (place / f"{name}.toml").is_file():
                raise InputError(f"{file}: [experiment.{name}] has no spec: there is no {place / f'{name}.toml'}.")
        return Paper(place.name.replace("_", "-"), place, about)

    @property
    def arxiv(self) -> str:
        return self.about.arxiv

    @property
    def experiments(self) -> dict[str, Experiment]:
        return self.about.experiment

    @property
    def citation(self) -> str:
        about = self.about
        return f"{about.authors}, “{about.title}”, {about.year}" + f", arXiv {about.arxiv}" * bool(about.arxiv)

    @property
    def minutes(self) -> float:
        return sum(one.seconds[0] for one in self.experiments.values()) / 60

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The claims, of which every one names an experiment of the paper and methods of its spec."""
        file = self.folder / "claims.py"
        if not file.is_file():
            raise InputError(f"the paper {self.name} has no claims: {file} is missing, with the list CLAIMS.")
        claims = getattr(self._module(file), "CLAIMS", None)
        if not isinstance(claims, list | tuple) or not claims or not all(isinstance(one, Claim) for one in claims):
            raise InputError(f"the paper {self.name} has no claims: {file} must define CLAIMS, a list of Claim(…).")
        for claim in claims:
            self._check(claim)
        return tuple(claims)

    def _module(self, file: Path) -> Any:
        if self.folder.parent == OWN:
            return import_module(f"gossamer.papers.{self.folder.name}.claims")
        spec = importlib.util.spec_from_file_location(f"gossamer_paper_{self.folder.name.replace('-', '_')}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # before it runs, since dataclasses look their module up
        call_own(f"{file}", spec.loader.exec_module, module)
        return module

    def _check(self, claim: Claim) -> None:
        where = f"the claim {brief(claim.brief)} of the paper {self.name}"
        if claim.experiment not in self.experiments:
            raise InputError(
                f"{where} is about the experiment {brief(claim.experiment)}, which does not exist; "
                f"{nearest(claim.experiment, self.experiments)}"
            )
        spec = self.spec_of(claim.experiment)
        known = {str(table.get("name")) for table in spec.algorithm}
        variants = {variant.name for variant in spec.variant} or {""}
        for method in getattr(claim.ask, "methods", ()):
            algorithm, _, variant = method.partition(" @ ")
            if algorithm not in known:
                raise InputError(
                    f"{where} is about {brief(algorithm)}, which {claim.experiment}.toml does not run; "
                    f"{nearest(algorithm, known)}"
                )
            if variant not in variants:
                raise InputError(
                    f"{where} is about the variant {brief(variant)}, but those of {claim.experiment}.toml are "
                    f'{", ".join(filter(None, variants)) or "none"}: write "METHOD @ VARIANT".'
                )

    def check_experiment(self, name: str) -> str:
        """Return the name of an experiment, or raise InputError."""
        if name not in self.experiments:
            raise InputError(f"there is no experiment {brief(name)} in {self.name}; {nearest(name, self.experiments)}")
        return name

    def text_of(self, name: str) -> str:
        """Return the spec of an experiment, as TOML to copy and change."""
        return (self.folder / f"{self.check_experiment(name)}.toml").read_text(encoding="utf-8")

    def spec_of(self, name: str) -> Spec:
        """Return the spec of an experiment, as its file has it: with the authors' numbers and our tuning."""
        spec = Spec.read(self.folder / f"{self.check_experiment(name)}.toml")
        named = spec.experiment or f"{self.name}/{name}"
        return spec.model_copy(update={"experiment": named})

    @cached_property
    def error(self) -> float:
        """The error that each verdict may have, so that all of all readings hold together at 95 %."""
        return ERROR / sum(len(self.readings_of(claim.experiment)) for claim in self.claims)

    def runs(self, names: Sequence[str] = (), *, quick: bool = False, reseed: int = 0) -> "list[Run]":
        """Return the runs of experiments, each reading of each; those of all experiments if none is named.

        `reseed` is added to all seeds, those of tuning too.
        """
        found = []
        for name in names or self.experiments:
            for number, (reading, spec) in enumerate(self.readings_of(name).items()):
                spec = shorten(spec, self.experiments[name].quick) if quick else spec
                spec = _reseed(spec, reseed) if reseed else spec
                found.append(Run(self, name, reading, spec, number > 0, quick))
        return found

    def judge(self, studies: Mapping[str, Study], wanted: Sequence[str] = ()) -> Verdicts:
        """Return the verdict on every claim whose study is among these; studies go by the names of their runs.

        A claim about another experiment that is `wanted` gets the verdict "not run". The level is that of a page with
        all claims of all experiments, whatever part of them is judged here.
        """
        return Verdicts(
            verdict
            for run in self.runs()
            if run.name in studies or run.experiment in wanted
            for verdict in run.judge(studies.get(run.name))
        )

    def readings_of(self, name: str) -> dict[str, Spec]:
        """Return the spec of each reading of an experiment.

        A spec that gives every number and a [tuning] as well has two: with its numbers, and with the numbers tuned
        alike. One that leaves numbers open has the tuned reading alone, and one without [tuning] the other.
        """
        spec, about = self.spec_of(name), self.experiments[name]
        if spec.tuning is None:
            return {PUBLISHED if about.numbers == "theirs" else GIVEN: spec}
        left = _without_numbers(spec, about.keep)
        if _is_open(spec):
            return {ALIKE: spec}
        variants = [variant.model_copy(update={"tuning": {}}) for variant in spec.variant]
        return {PUBLISHED: spec.model_copy(update={"tuning": None, "variant": variants}), ALIKE: left}


@dataclass(frozen=True)
class Run:
    """A reading of an experiment of a paper: a study, in a folder of its own."""

    paper: Paper
    experiment: str
    reading: str
    spec: Spec
    second: bool = False
    """True for the tuned one of two readings."""
    quick: bool = False

    @property
    def name(self) -> str:
        """The name of the study and of its folder."""
        return f"{self.experiment}-tuned" if self.second else self.experiment

    @property
    def seconds(self) -> float:
        """About how long it takes; of two readings, tuning has most of it."""
        about = self.paper.experiments[self.experiment]
        alone = len(self.paper.readings_of(self.experiment)) == 1
        return about.seconds[self.quick] * (1.0 if alone else 0.8 if self.second else 0.2)

    def judge(self, study: Study | None) -> list[Verdict]:
        """Return the verdict on every claim about the experiment; without a study they are "not run"."""
        about = self.paper.experiments[self.experiment]
        stated = {"reading": self.reading, "setting": about.setting, "differs": tuple(about.differs)}
        found = [claim(study, self.paper.error) for claim in self.paper.claims if claim.experiment == self.experiment]
        exact = {"reading": EXACT, "setting": "theirs", "differs": ()}
        needs_no_runs = [one.evidence is not None and one.level is None for one in found]
        return [
            replace(one, **(exact if alone else stated))
            for one, alone in zip(found, needs_no_runs, strict=True)
            if not (alone and self.second)
        ]


def _open_of(table: Mapping[str, Any]) -> list[str]:
    """Return the hyper-parameters that a table of an algorithm could leave to tuning."""
    kind = ALGORITHMS[table["name"]] if table.get("name") in ALGORITHMS else None
    return list(Candidate(kind, {}).open) if kind else []


def _is_open(spec: Spec) -> bool:
    """Return True if some algorithm of some variant leaves a number to tuning."""
    tables = [table for one in spec.variants().values() for table in one.algorithm]
    return any(key not in table for table in tables for key in _open_of(table))


def _without_numbers(spec: Spec, keep: list[str]) -> Spec:
    """Return the spec with the numbers of its algorithms left to tuning, but for those to keep."""
    tables = [{k: v for k, v in table.items() if k in keep or k not in _open_of(table)} for table in spec.algorithm]
    numbers = {key for table in spec.algorithm for key in _open_of(table)} - {*keep}
    variants = [
        one.model_copy(update={"algorithm": {k: v for k, v in one.algorithm.items() if k not in numbers}})
        for one in spec.variant
    ]
    return spec.model_copy(update={"algorithm": tables, "variant": variants})


def shorten(spec: Spec, least: Mapping[str, Any] | None = None) -> Spec:
    """Return the quick form of a spec: the least that decides a headline claim, or else fewer replicates.

    Rounds stay as they are: shorter runs decide nothing about floors and horizons.
    """
    fewer: dict[str, Any] = {"refine": False}
    if spec.tuning and least is None:
        fewer |= {"budget": min(16, spec.tuning.budget), "together": 8}
        if spec.tuning.sampler == "grid":
            fewer["grids"] = {"lam": [1.0, 0.1], "beta": [0.0, 0.9]}
    chosen: dict[str, Any] = {"replicates": 4, "tuning": {}, **(least or {})}
    update: dict[str, Any] = {"run": spec.run.model_copy(update={"seeds": chosen["replicates"], "seeds_together": 1})}
    if spec.tuning:
        fewer |= {"replicates": chosen["replicates"]} | chosen["tuning"]
        update["tuning"] = spec.tuning.model_copy(update=fewer)
    if "algorithms" in chosen:
        kept = [options for options in spec.algorithm if options["name"] in chosen["algorithms"]]
        # beside settings that are tuned, those that are given belong to another claim
        update["algorithm"] = [options for options in kept if not (spec.tuning and "eta" in options)]
    if "variants" in chosen:
        update["variant"] = [variant for variant in spec.variant if variant.name in chosen["variants"]]
    return spec.model_copy(update=update)


def _reseed(spec: Spec, by: int) -> Spec:
    """Return the spec with this number added to all seeds."""
    seeds = spec.run.seeds if isinstance(spec.run.seeds, list) else range(spec.run.seeds)
    update: dict[str, Any] = {"run": spec.run.model_copy(update={"seeds": [seed + by for seed in seeds]})}
    if spec.tuning:
        update["tuning"] = spec.tuning.model_copy(update={"first_seed": spec.tuning.first_seed + by})
    return spec.model_copy(update=update)


def installed() -> dict[str, Paper]:
    """Return the papers that come with Gossamer and with installed packages, by name; two of one name are refused."""
    papers: dict[str, Paper] = {}
    for folder in _folders():
        paper = Paper.load(folder)
        known = {"name": papers.get(paper.name), "arXiv number": _by_arxiv(papers, paper.arxiv)}
        for what, other in known.items():
            if other is not None:
                raise InputError(
                    f"two papers have the {what} {paper.name if what == 'name' else paper.arxiv}: {other.folder} and "
                    f"{paper.folder}. Rename a folder, or uninstall one of the packages."
                )
        papers[paper.name] = paper
    return dict(sorted(papers.items(), key=lambda item: (item[0] != DEFAULT, item[0])))


def _folders() -> Iterator[Path]:
    yield from sorted(path.parent for path in OWN.glob("*/paper.toml"))
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        found = importlib.util.find_spec(point.value)
        places = list(found.submodule_search_locations or ()) if found else []
        if not places:
            raise InputError(
                f"the entry point {point.name} of {ENTRY_POINTS} names {point.value}, which is no package."
            )
        yield Path(places[0])


def _by_arxiv(papers: Mapping[str, Paper], arxiv: str) -> Paper | None:
    return next((paper for paper in papers.values() if arxiv and paper.arxiv == arxiv), None)


def find(word: str) -> Paper | None:
    """Return the paper of this name, arXiv number or folder; None if there is none."""
    papers = installed()
    if named := papers.get(word) or _by_arxiv(papers, word):
        return named
    if os.path.isfile(os.path.join(word, "paper.toml")) or "/" in word:
        paper = Paper.load(word)
        if (other := papers.get(paper.name)) and other.folder != paper.folder:
            raise InputError(
                f"two papers have the name {paper.name}: {other.folder} and {paper.folder}. Rename the folder."
            )
        return other or paper
    return None


def choose(words: list[str]) -> tuple[Paper, list[str]]:
    """Return the paper and the experiments that words name: [PAPER] [EXPERIMENT …]; without a paper, Biased-DMT."""
    if not words:
        return installed()[DEFAULT], []
    if paper := find(words[0]):
        return paper, [paper.check_experiment(name) for name in words[1:]]
    papers = installed()
    default = papers[DEFAULT]
    if words[0] not in default.experiments:
        known = [*default.experiments, *papers]
        raise InputError(
            f"there is no paper and no experiment {brief(words[0])}; "
            f"{nearest(words[0], known, 'give the folder of a paper, such as ./mine')}"
        )
    return default, [default.check_experiment(name) for name in words]
