"""A study from Python: tune what is open, run all, and compare."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gossamer.basics.progress import Report
from gossamer.core import InputError, hyperparameters, is_rule, parts
from gossamer.engines.simulator import check, network_for, planned, timed_by
from gossamer.experiments.running import studied
from gossamer.experiments.variants import Variant
from gossamer.networks import Network
from gossamer.oracles import Oracle, completed
from gossamer.problems import Problem
from gossamer.results.cache_key import Unknown, digest
from gossamer.results.store import NullStore, Store
from gossamer.results.study import Study
from gossamer.specs.candidates import Candidate, check_grids
from gossamer.specs.making import explained, plain
from gossamer.specs.parts import Parts
from gossamer.specs.sections import RunSection, TuningSection


def study(
    algorithms: Sequence[Any] | Any,
    problem: Problem,
    network: Any,
    oracle: Oracle | None = None,
    *,
    steps: int,
    tune: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 5,
    every: int | Sequence[int] | None = None,
    settle: int | None = None,
    dtype: str = "float32",
    until: Mapping[str, float] | None = None,
    clock: Any = None,
    name: str = "study",
    out: str | Path | None = None,
    progress: bool | Report = True,
) -> Study:
    """Tune classes, run them and the rules that are given whole, and compare all on the same samples.

    Args:
        algorithms: classes, such as ``gs.BiasedDMT`` or one's own, whose hyper-parameters are tuned; names of
            algorithms, likewise; and rules, such as ``gs.DPSGD(eta=0.1)``, which run as they are.
        problem: what is minimised.
        network: who talks to whom, as in `simulate`.
        oracle: where gradients come from; the exact ones if it is not given.
        steps: rounds.
        tune: the keys of a spec's ``[tuning]``, such as ``{"eta": (0.01, 1.0), "budget": 16}``.
        seeds: how many (0, 1, …), or a list of them; they differ from those of tuning.
        every: measure every so many rounds, as in `simulate`.
        settle: runs go on until ‖∇F‖² has settled, but never beyond this many rounds.
        dtype: "float32" or "float64".
        until: ends a run early, as in `simulate`; runs of tuning are not ended by it.
        clock: how long agents compute and messages travel, as in `simulate`.
        name: the study's name.
        out: a directory to save it in; what was finished there before is not computed again.
        progress: as in `simulate`.
    """
    given = list(algorithms) if isinstance(algorithms, (list, tuple)) else [algorithms]
    candidates = [_candidate(algorithm) for algorithm in given]
    oracle, network = completed(oracle), network_for(problem, network)
    plan, chosen_seeds = planned(steps, every, seeds, dtype, until)
    if plan.until and settle is not None:
        raise InputError("until ends runs early and settle makes them longer: leave one of them out.")
    clock, network = timed_by(clock, network)
    section = _section(tune, [candidate.name for candidate in candidates if candidate.open])
    fixed = [candidate.whole for candidate in candidates if not candidate.open]
    check(fixed, problem, network, oracle, tuned=len(candidates) - len(fixed))
    if section:
        check_grids(section, candidates)
        if len(chosen_seeds) % section.replicates:
            raise InputError(
                f"tune: replicates = {section.replicates} must share the {len(chosen_seeds)} seeds equally: take a "
                f"multiple of {section.replicates} seeds."
            )
        for candidate in candidates:
            if candidate.open:
                check(candidate.tried(section)[:1], problem, network, oracle)
    with explained(list(RunSection.model_fields), "study: "):
        run = RunSection.model_validate(plain({"steps": plan.steps, "settle": settle}))
    made_of = Parts(candidates, problem, network, oracle, _key(problem, network, oracle) if out is not None else {})
    variant = Variant(made_of, plan, chosen_seeds, section, run, clock)
    variant.check_size()
    store = NullStore() if out is None else Store(_directory(Path(out)) / "cells")
    compared = studied({"": variant}, store, name, name, "", progress)
    if out is not None:
        compared.save(Path(out), anew=store.written > 0)
    return compared


def _candidate(given: Any) -> Candidate:
    """A class or name with everything open, or a rule with nothing."""
    if not is_rule(type(given)):
        return Candidate.of(given)
    fields = [*hyperparameters(type(given)), *parts(given)]
    return Candidate(type(given), {field: getattr(given, field) for field in fields})


def _section(tune: Mapping[str, Any] | None, left_open: list[str]) -> TuningSection | None:
    if tune is None:
        if left_open:
            raise InputError(
                f"{left_open[0]} is given as a class, so that its hyper-parameters are to be tuned: say how, as in "
                'tune={"eta": (0.01, 1.0)}, or give it whole, as in BiasedDMT(eta=0.1, lam=0.05).'
            )
        return None
    if not left_open:
        raise InputError(
            "tune is given, but every algorithm has all its hyper-parameters: give classes, or leave it out."
        )
    with explained(list(TuningSection.model_fields), "tune: "):
        return TuningSection.model_validate(plain(dict(tune)))


def _key(problem: Problem, network: Network, oracle: Oracle) -> dict[str, Any]:
    """What the store calls objects that no spec describes: by all that they hold."""
    try:
        return {"objects": digest(problem, network, oracle)}
    except Unknown as reason:
        raise InputError(f"out=… needs to know what it stores, but {reason}: leave it out, and use `save`.") from None


def _directory(folder: Path) -> Path:
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / "cells").is_dir())):
        raise InputError(f"{folder} is not empty and holds no study: choose another directory.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error
    return folder
