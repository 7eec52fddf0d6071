"""The experiments of papers: each is a spec, and one of the paper's."""

import numpy as np
import pytest

import gossamer as gs
from gossamer.papers import installed
from gossamer.problems import settling_point


def test_every_spec_file_is_an_experiment_and_every_experiment_has_one():
    for paper in installed().values():
        assert {file.stem for file in paper.folder.glob("*.toml")} == {*paper.experiments, "paper"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fig1", "fig2"])
def test_under_the_largest_bias_of_every_seed_there_is_a_point_to_settle_at(name):
    """Where ∇F = −ē has no solution, every method runs away, and there is no floor to speak of."""
    largest: dict[int, np.ndarray] = {}
    setups = [variant.parts() for variant in installed()["biased-dmt"].spec_of(name).variants().values()]
    problem = setups[0].problem  # the variants differ in the bias alone
    for parts in setups:
        made_of = parts.problem, parts.network, parts.oracle
        drawn = gs.simulate(gs.DPSGD(eta=1e-3), *made_of, steps=1, seeds=parts.seeds, progress=False).mean_bias
        for seed, mean in zip(parts.seeds, [] if drawn is None else np.asarray(drawn, float), strict=drawn is not None):
            largest[seed] = max(largest.get(seed, 0 * mean), mean, key=lambda e: float(e @ e))
    assert largest
    x = None
    for mean in largest.values():
        x = settling_point(problem, mean, start=x)  # raises InputError where there is none
        np.testing.assert_allclose(problem.gradient(x), -mean, atol=1e-6)
