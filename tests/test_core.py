"""The vocabulary: states, ranges and rules."""

import pytest

import gossamer as gs
from gossamer.basics.tabulate import tabulate
from gossamer.core import Decay, InputError, State, StepSize, bind, nearest, rule, setting


def test_a_state_is_immutable_and_read_by_name():
    s = State(x=1, m=2)
    assert (s.x, s["m"], list(s), len(s), repr(s)) == (1, 2, ["x", "m"], 2, "State(x, m)")
    with pytest.raises(AttributeError, match="immutable"):
        s.x = 3
    with pytest.raises(AttributeError, match=r"this state has x, m, but no 'v'"):
        _ = s.v


def test_an_unknown_name_is_answered_with_the_nearest():
    assert nearest("biased-dtm", ["gnsd", "biased-dmt"]) == "did you mean 'biased-dmt'? Known: biased-dmt, gnsd."
    assert nearest("zzz", ["gnsd", "biased-dmt"]) == "choose from biased-dmt, gnsd."


def test_a_rule_is_also_found_in_its_room():
    assert gs.algorithms.BiasedDMT is gs.BiasedDMT
    with pytest.raises(AttributeError, match="there is no algorithm BiasedMDT"):
        _ = gs.algorithms.BiasedMDT


def test_a_rule_is_checked_where_the_user_makes_it_and_nowhere_else():
    with pytest.raises(InputError, match=r"BiasedDMT\(lam=…\) must be a number in \(0, 1\], but is 1.2"):
        gs.BiasedDMT(eta=0.1, lam=1.2)
    assert bind(gs.BiasedDMT, {"eta": -1, "lam": 7}).lam == 7


def test_settings_read_as_they_were_written():
    def halving(t):
        return 0.5**t

    assert setting(gs.BiasedDMT(0.1, lam=0.05)) == "eta=0.1, lam=0.05"
    assert setting(gs.DPSGD(eta=halving)) == "eta=halving"
    assert list(tabulate(gs.DPSGD(eta=halving), "eta", range(3))) == [1, 0.5, 0.25]


def test_your_own_rule_runs_like_a_registered_one():
    @rule("heavy-ball")
    class HeavyBall:
        """D-PSGD with Polyak's momentum."""

        eta: StepSize
        beta: Decay

        def init(self, x, agent):
            return State(x=x, before=x)

        def step(self, s, agent):
            x = agent.gossip(s.x) - self.eta * agent.gradient(s.x) + self.beta * (s.x - s.before)
            return State(x=x, before=s.x)

    problem = gs.problems.quadratic([[1.0]], [[1.0], [3.0]])
    result = gs.simulate(HeavyBall(0.1, 0.5), problem, gs.networks.complete(2), steps=200, dtype="float64")
    assert vars(HeavyBall)["title"] == "D-PSGD with Polyak's momentum"
    assert result.iterates["heavy-ball"].mean() == pytest.approx(2.0, abs=1e-9)
