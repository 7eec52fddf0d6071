"""Any torch optimizer inside, local steps, weight decay: against plain loops, and PyTorch's own optimizers."""

from functools import partial

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.core import rule
from gossamer.torch import Decentralized, NotFinite
from tests.table import table
from tests.torch_engine import forked, inner_steps
from tests.torch_engine.small import problem, same, steps, weight

SGD = partial(torch.optim.SGD, lr=0.05)
ADAMW = partial(torch.optim.AdamW, lr=0.05, weight_decay=0.1)


@pytest.fixture(scope="module")
def ranks():
    return forked.run(inner_steps.trained, 4)


def found(ranks, name):
    return np.stack([of_rank[name] for of_rank in ranks])


@pytest.mark.parametrize("overlap", [None, False])
@pytest.mark.parametrize("name", inner_steps.RULES)
def test_decoupled_weight_decay_is_that_of_a_plain_loop(name, overlap, ranks):
    """Biased-DMT posts ahead, at once or with the next step: its model is a round on."""
    asks_first = name in ("biased-dmt", "local-biased-dmt")
    expected = inner_steps.decayed(name, asks=asks_first and name != "biased-dmt")
    np.testing.assert_allclose(found(ranks, f"decay, {name}, {overlap}"), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("overlap", [None, False])
@pytest.mark.parametrize("local", [1, 3])
def test_a_rule_gets_the_displacement_of_local_steps(local, overlap, ranks):
    """Also through a state that was saved in the middle of a round."""
    expected = inner_steps.displaced(local)
    np.testing.assert_allclose(found(ranks, f"inner, {local}, {overlap}"), expected, rtol=1e-12, atol=1e-12)


def test_adamw_inside_of_d_psgd_and_as_a_rule_is_adamw_and_averages(ranks):
    for name, average_first in (("adamw", False), ("d-adamw", True)):
        expected = inner_steps.adamw_and_averages(average_first)
        np.testing.assert_allclose(found(ranks, name), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rule", [gs.DPSGD(0.5), gs.BiasedDMT(0.5, 0.3), gs.DSGDm(0.5, 0.7)], ids=lambda r: r.name)
def test_one_step_of_sgd_at_rate_l_is_the_rule_at_eta_l(rule):
    (mine, f), (theirs, g) = problem(), problem()
    steps(Decentralized(mine, rule, inner=partial(torch.optim.SGD, lr=0.2)), f)
    steps(Decentralized(theirs, type(rule)(**vars(rule) | {"eta": 0.1})), g)
    same(mine, theirs)


@pytest.mark.parametrize("local", [1, 4])
@pytest.mark.parametrize("inner", [ADAMW, partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True)])
def test_at_the_outer_rate_1_one_process_takes_the_local_steps_as_they_are(inner, local):
    """With groups that have options of their own, and a scheduler of the inner optimizer."""
    (mine, f), (theirs, g) = problem(), problem()
    groups = [{"params": mine[:1]}, {"params": mine[1:], "inner": {"lr": 0.01}}]
    optimizer = Decentralized(groups, gs.DPSGD(eta=1.0), inner=inner, local_steps=local)
    plain = inner([{"params": theirs[:1]}, {"params": theirs[1:], "lr": 0.01}])
    steps(optimizer, f, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.inner, 7))
    steps(plain, g, torch.optim.lr_scheduler.CosineAnnealingLR(plain, 7))
    same(mine, theirs)


def test_one_process_with_weight_decay_is_sgd_with_weight_decay():
    (mine, f), (theirs, g) = problem(), problem()
    steps(Decentralized(mine, gs.DPSGD(eta=0.1), weight_decay=0.3), f)
    steps(torch.optim.SGD(theirs, lr=0.1, weight_decay=0.3), g)
    same(mine, theirs)


def test_one_process_of_d_adamw_is_adamw():
    (mine, f), (theirs, g) = problem(), problem()
    steps(Decentralized(mine, gs.DAdamW(eta=0.05, beta1=0.8, decay=0.2)), f)
    steps(torch.optim.AdamW(theirs, lr=0.05, betas=(0.8, 0.999), weight_decay=0.2), g)
    same(mine, theirs)


@pytest.mark.parametrize(
    "rule",
    [gs.BiasedDMT(0.2, 0.5), gs.GNSD(0.2), gs.D2(0.2), gs.EXTRA(0.2), gs.ExactDiffusion(0.2)],
    ids=lambda r: r.name,
)  # fmt: skip
def test_weight_decay_settles_at_the_minimum_of_the_loss_and_the_square(rule):
    """½(x − 3)² + ½ · 0.5 x² is least at 2."""
    x = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    optimizer = Decentralized([x], rule, weight_decay=0.5)
    for _ in range(200):
        optimizer.zero_grad()
        ((x - 3) ** 2 / 2).sum().backward()
        optimizer.step()
    torch.testing.assert_close(x.detach(), torch.full((2,), 2.0, dtype=torch.float64), rtol=1e-9, atol=0)


def test_overflows_and_bad_gradients_leave_out_a_local_step_but_count_it():
    """As a GradScaler does with the inner optimizer alone."""
    (mine, f), (theirs, g) = problem(), problem()
    ours = Decentralized(mine, gs.DPSGD(eta=1.0), inner=SGD, local_steps=2)
    for params, loss, optimizer in ((mine, f, ours), (theirs, g, SGD(theirs))):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for k in range(4):
            optimizer.zero_grad()
            scaler.scale(loss(k)).backward()
            if k == 1:
                params[0].grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
    same(mine, theirs)
    assert (ours.counters.overflows, ours.local.taken) == (1, 0)
    mine, f = problem()
    ours = Decentralized(mine, gs.DPSGD(eta=1.0), inner=SGD, on_nonfinite="skip")
    before = [p.detach().clone() for p in mine]
    f().backward()
    mine[0].grad[0, 0] = float("nan")
    ours.step()
    same(mine, before)
    assert ours.counters.skipped == 1


def test_a_bad_gradient_of_a_local_step_stops_by_default():
    params, loss = problem()
    optimizer = Decentralized(params, gs.DPSGD(eta=1.0), inner=SGD, local_steps=4)
    loss().backward()
    params[0].grad[0, 0] = float("nan")
    with pytest.raises(NotFinite, match=r"gradient at step 1, a local one, is not finite .inf or NaN in 1 of 12 num"):
        optimizer.step()


def test_a_closure_is_evaluated_once_a_local_step():
    (mine, f), (theirs, g) = problem(), problem()
    optimizer, called = Decentralized(mine, gs.DPSGD(eta=1.0), inner=ADAMW, local_steps=3), []

    def closure():
        optimizer.zero_grad()
        called.append(f(len(called)))
        called[-1].backward()
        return called[-1]

    for k in range(6):
        assert optimizer.step(closure) is called[k]
    steps(ADAMW(theirs), g, count=6)
    same(mine, theirs)


def test_halves_are_not_moved_by_their_own_rounding():
    """With no gradient there is no displacement, though the state is not what bfloat16 can hold."""
    x = torch.nn.Parameter(torch.full((3,), 1.0, dtype=torch.bfloat16))
    optimizer = Decentralized([x], gs.DPSGD(eta=0.3), inner=partial(torch.optim.SGD, lr=0.01))
    for gradient in (1.0, 0.0, 0.0):
        x.grad = torch.full_like(x, gradient)
        optimizer.step()
    state = optimizer._rounds.buffers["x"]
    moved = 1.0 - float(torch.tensor(1.0 - 0.01, dtype=torch.bfloat16))
    torch.testing.assert_close(state, torch.full((3,), 1 - 0.3 * moved))


def in_inner(**options):
    return [{"params": [weight()], "inner": options}]


@rule("asks-twice")
class AsksTwice:
    eta: gs.StepSize

    def init(self, x, agent):
        return gs.State(x=x)

    def step(self, s, agent):
        a, b = agent.gradient(s.x, s.x)
        return gs.State(x=s.x - self.eta * (a + b))


@table(
    ("make", "message"),
    [
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), local_steps=4), "local_steps=4 needs an optimizer"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), inner=SGD, local_steps=0), "local_steps must be a whole"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), inner=3), "inner must make an optimizer from parameter"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), inner=list), "inner must make an optimizer of PyTorch"),
        (lambda: Decentralized([weight()], gs.KGT(0.1, 0.1, 2), inner=SGD), "k-gt takes its own local steps, of SGD"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), inner=SGD, weight_decay=0.1), "cannot stand beside inner"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), weight_decay=-1), "weight_decay of parameter group 0 must"),
        (lambda: Decentralized([{"params": [weight()], "inner": {"lr": 1}}], gs.DPSGD(0.1)), "but there is none"),
        (lambda: Decentralized([{"params": [weight()], "inner": 1}], gs.DPSGD(0.1), inner=SGD), "must be a dict of op"),
        (lambda: Decentralized(in_inner(params=[weight()]), gs.DPSGD(0.1), inner=SGD), "must be a dict of options"),
        (lambda: Decentralized(in_inner(decay=1), gs.DPSGD(0.1), inner=SGD), "has 'decay' for the .* it has lr, momen"),
        (lambda: Decentralized([weight()], gs.DPSGD(0.1), inner=lambda _: SGD([weight()])), "1 others and lacks 1 "),
        (lambda: Decentralized([weight()], gs.DAdamW(0.1), weight_decay=0.1), "d-adamw shrinks the model by itself"),
        (lambda: steps(Decentralized([w := weight()], AsksTwice(0.1), inner=SGD), lambda _: w.sum()), "at 2 points of"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_states_of_other_local_steps_or_decay_are_refused_and_decay_cannot_change():
    saved = Decentralized([weight()], gs.DPSGD(0.1), inner=SGD, local_steps=2).state_dict()
    with pytest.raises(gs.InputError, match="of inner = 'SGD, 2 steps a round', but the optimizer has 'SGD, 3 steps"):
        Decentralized([weight()], gs.DPSGD(0.1), inner=SGD, local_steps=3).load_state_dict(saved)
    params, loss = problem()
    optimizer = Decentralized(params, gs.DPSGD(0.1), weight_decay=0.1)
    with pytest.raises(gs.InputError, match=r"of weight decay = '\[0.1\]', but the optimizer has '\[0.0\]'"):
        Decentralized(problem()[0], gs.DPSGD(0.1)).load_state_dict(optimizer.state_dict())
    optimizer.param_groups[0]["weight_decay"] = 0.2
    loss().backward()
    with pytest.raises(gs.InputError, match=r"weight_decay of parameter group 0 was 0.1 when .* and is 0.2 now"):
        optimizer.step()
