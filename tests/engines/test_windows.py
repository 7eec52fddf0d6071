"""Hyper-parameters in the compiled program: one compilation serves any number of rounds, with schedules too."""

from typing import Any

import numpy as np
import pytest

import gossamer as gs
from gossamer import schedules
from gossamer.engines import block
from gossamer.engines.runs import RunPlan, Setting, Width, compute
from gossamer.results.store import NullStore
from tests import compiled, plain

PROBLEM = gs.problems.quadratic([[2.0]], np.full((8, 1), 3.0))
NETWORK = plain.irregular()


def run(eta, steps, **options):
    return gs.simulate(
        gs.DPSGD(eta=eta), PROBLEM, NETWORK, **({"steps": steps, "dtype": "float64", "progress": False} | options)
    )


@pytest.mark.parametrize("eta", [0.1, schedules.inverse_sqrt(0.3, offset=2)], ids=["constant", "schedule"])
def test_another_number_of_steps_does_not_compile_again(eta):
    run(eta, 3)
    before = compiled.counted()
    for steps in (4, 700):
        run(eta, steps, every=2)
    assert compiled.counted() == before


def closed_form(eta, steps):
    """D-PSGD on equal losses is gradient descent, in closed form on a quadratic."""
    return 3 - 3 * np.prod([1 - 2 * eta(t) for t in range(steps)])


@pytest.mark.parametrize("steps", [1, 6, 7, 8, 20, 50])
def test_a_run_follows_its_schedule_through_all_windows(steps, monkeypatch):
    monkeypatch.setattr(block, "WINDOW", 7)
    eta = schedules.inverse_sqrt(0.01, offset=2)
    found = run(eta, steps, every=3).iterates["d-psgd"][0]
    np.testing.assert_allclose(found, closed_form(eta, steps), rtol=1e-12)


def test_a_schedule_is_never_asked_beyond_the_last_round():
    values = [0.1, 0.2, 0.05]
    np.testing.assert_allclose(
        run(lambda t: values[t], 3).iterates["d-psgd"][0], closed_form(lambda t: values[t], 3), rtol=1e-12
    )


def test_constants_and_schedules_of_one_group_run_in_programs_of_their_own():
    """A setting's bits may not depend on whether another one has a schedule."""
    falling = schedules.inverse_sqrt(0.3, offset=2)
    rules = [gs.DPSGD(eta=eta) for eta in (0.1, falling, 0.2)]

    def computed(some):
        settings = [Setting(rule, gs.oracles.exact()) for rule in some]
        plan, width = RunPlan(30, 10, "float64"), Width(2, 1)
        return compute(settings, PROBLEM, NETWORK, [0], plan, width=width, store=NullStore(), report=lambda *_: None)

    together, constants, alone = computed(rules), computed([rules[0], rules[2]]), computed([rules[1]])
    for mine, other in (
        (together[0, 0], constants[0, 0]),
        (together[2, 0], constants[1, 0]),
        (together[1, 0], alone[0, 0]),
    ):
        np.testing.assert_array_equal(mine.x, other.x)
        np.testing.assert_array_equal(mine.metrics["loss"], other.metrics["loss"])


def test_a_block_may_hold_both():
    falling = schedules.inverse_sqrt(0.3, offset=2)
    made = block.Block(
        [gs.DPSGD(eta=0.1), gs.DPSGD(eta=falling)],
        PROBLEM,
        NETWORK,
        [gs.oracles.exact()] * 2,
        seeds=[0],
        steps=20,
        dtype="float64",
    )
    made.drive([20], lambda done, loss: None)
    np.testing.assert_allclose(made.x[0], closed_form(lambda t: 0.1, 20), rtol=1e-12)
    np.testing.assert_allclose(made.x[1], closed_form(falling, 20), rtol=1e-12)


def test_a_program_that_is_compiled_quickly_does_the_same_and_goes_on_from_where_it_was():
    given = [gs.DPSGD(eta=0.1)], PROBLEM, NETWORK, [gs.oracles.exact()]
    options: dict[str, Any] = {"seeds": [0], "steps": 20, "dtype": "float64", "metrics": ("loss",)}
    first, later = (block.Block(*given, **options, quick=True) for _ in range(2))
    assert first.quick
    assert [*first.drive([8], lambda done, loss: None).metrics] == ["loss"]
    later.resume([[[leaf[0, 0] for leaf in first.leaves()]]])
    later.drive([20], lambda done, loss: None, first=8)
    np.testing.assert_allclose(later.x[0], closed_form(lambda t: 0.1, 20), rtol=1e-12)


def test_a_schedule_out_of_range_in_a_late_round_is_refused_before_any_run():
    told = []
    fails_late = schedules.Schedule("own", (), lambda t: 0.1 if t < 6_999 else -0.1)
    with pytest.raises(gs.InputError, match=r"eta=…\), a schedule, at round 6999 must be a number in \(0, ∞\)"):
        run(fails_late, 7_000, progress=lambda *args: told.append(args))
    assert told == []


def test_the_tracker_is_measured_with_the_values_of_the_round_that_led_there():
    @gs.rule("scaled")
    class Scaled:
        """A rule whose tracker depends on a scheduled number."""

        eta: gs.core.StepSize

        def init(self, x, agent):
            return gs.core.State(x=x, y=agent.gradient(x))

        def step(self, s, agent):
            return gs.core.State(x=s.x, y=s.y)

        def tracker(self, s):
            return self.eta * s.y

    problem = gs.problems.quadratic([[1.0]], [[1.0], [3.0]])
    made = Scaled(eta=schedules.Schedule("own", (), lambda t: 1.0 + t))
    result = gs.simulate(made, problem, gs.networks.complete(2), steps=4, every=1, dtype="float64", progress=False)
    assert result.frame()["tracking"].to_list() == [1.0, 1.0, 4.0, 9.0, 16.0]
