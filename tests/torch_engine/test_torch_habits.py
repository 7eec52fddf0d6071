"""Habits of normal training loops: each works as with PyTorch's own optimizers, or is refused with the way out.

In one process D-PSGD is SGD, Biased-DMT is SGD with momentum, and D-PSGD at η = 1 with AdamW inside is AdamW: PyTorch's
own optimizers give the answers. What takes several ranks stands in `habits.py`.
"""

import copy
import math
import pickle
from functools import partial
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint

import gossamer as gs
from gossamer.torch import Decentralized, flat
from tests.table import table
from tests.torch_engine import forked, habits
from tests.torch_engine.small import STEPS, problem, same, steps, weight

DMT = gs.BiasedDMT(eta=0.1, lam=0.3)
MOMENTUM = partial(torch.optim.SGD, lr=0.1, momentum=0.7, dampening=0.7)
ADAMW = partial(torch.optim.AdamW, lr=0.1)


def in_spans(params, rule, **options):
    """Make an optimizer whose rule runs on a few numbers at a time, as it does on those of a large model."""
    with mock.patch.object(flat, "SPAN", 4):
        return Decentralized(params, rule, **options)


PAIRS = {
    "d-psgd": (partial(Decentralized, rule=gs.DPSGD(eta=0.1)), partial(torch.optim.SGD, lr=0.1)),
    "biased-dmt": (partial(Decentralized, rule=DMT), MOMENTUM),
    "biased-dmt, in spans": (partial(in_spans, rule=DMT), MOMENTUM),
    "biased-dmt, overlap=False": (partial(in_spans, rule=DMT, overlap=False), MOMENTUM),
    "adamw inside": (partial(in_spans, rule=gs.DPSGD(eta=1.0), inner=ADAMW), ADAMW),
}


def of_lr(optimizer):
    """The optimizer whose lr a scheduler sets: the inner one, where there is one."""
    return getattr(optimizer, "inner", None) or optimizer


def with_scheduler(make):
    def loop(params, loss, optimizer):
        steps(optimizer, loss, make(of_lr(optimizer)))

    return loop


def plateau(params, loss, optimizer):
    scheduler = lr_scheduler.ReduceLROnPlateau(of_lr(optimizer), patience=1)
    for k in range(STEPS):
        steps(optimizer, loss, count=1, first=k)
        scheduler.step(1.0)


def lr_by_hand(params, loss, optimizer):
    for k in range(STEPS):
        of_lr(optimizer).param_groups[0]["lr"] = 0.1 / (k + 1)
        steps(optimizer, loss, count=1, first=k)


def accumulation(params, loss, optimizer):
    for k in range(4):
        optimizer.zero_grad()
        for half in (2 * k, 2 * k + 1):
            (loss(half) / 2).backward()
        optimizer.step()


def clipping(params, loss, optimizer, clip):
    for k in range(STEPS):
        optimizer.zero_grad()
        loss(k).backward()
        clip(params)
        optimizer.step()


def zeros_in_place(params, loss, optimizer):
    for k in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        loss(k).backward()
        optimizer.step()


def closures(params, loss, optimizer):
    for k in range(STEPS):

        def closure(k=k):
            optimizer.zero_grad()
            value = loss(k)
            value.backward()
            return value

        before = loss(k).item()
        assert optimizer.step(closure).item() == before


def scaler(params, loss, optimizer, clip=False):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for k in range(STEPS):
        optimizer.zero_grad()
        scaler.scale(loss(k)).backward()
        if clip:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(params, 0.3)
        scaler.step(optimizer)
        scaler.update()


def evaluation_between_steps(params, loss, optimizer):
    for k in range(STEPS):
        steps(optimizer, loss, count=1, first=k)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                loss(k).item()


def averages_of_iterates(params, loss, optimizer):
    """An exponential moving average, whose last value is compared as well."""
    model = nn.ParameterList(params)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for k in range(STEPS):
        steps(optimizer, loss, count=1, first=k)
        average.update_parameters(model)
    params.extend(average.module.parameters())


def hooks(params, loss, optimizer):
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    steps(optimizer, loss)
    assert seen == ["before", "after"] * STEPS


def noise_in_gradients(params, loss, optimizer):
    draw = torch.Generator().manual_seed(0)
    for k in range(STEPS):
        optimizer.zero_grad()
        loss(k).backward()
        for p in params:
            p.grad += torch.randn(p.shape, generator=draw, dtype=p.dtype)
        optimizer.step()


def one_cycle(params, loss, optimizer):
    """Without a flag it turns momentum as well: 1 − λ of Biased-DMT, which is SGD's momentum and its dampening."""
    scheduler = lr_scheduler.OneCycleLR(of_lr(optimizer), 0.2, total_steps=STEPS + 1)
    for k in range(STEPS):
        for group in optimizer.param_groups:
            group |= {"dampening": group["momentum"]} if "dampening" in group else {}
        steps(optimizer, loss, scheduler, count=1, first=k)
    if not isinstance(optimizer, torch.optim.AdamW) and getattr(optimizer, "inner", None) is None:
        assert optimizer.param_groups[0]["momentum"] != 0.7


def warm_up_then_cosine(optimizer):
    parts = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3), lr_scheduler.CosineAnnealingLR(optimizer, 5)
    return lr_scheduler.SequentialLR(optimizer, [*parts], [3])


HABITS = {
    "LambdaLR": with_scheduler(partial(lr_scheduler.LambdaLR, lr_lambda=lambda t: 1 / (1 + t))),
    "CosineAnnealingLR": with_scheduler(partial(lr_scheduler.CosineAnnealingLR, T_max=7)),
    "warm-up, then cosine": with_scheduler(warm_up_then_cosine),
    "OneCycleLR": one_cycle,
    "OneCycleLR, cycle_momentum=False": with_scheduler(
        partial(lr_scheduler.OneCycleLR, max_lr=0.2, total_steps=STEPS + 1, cycle_momentum=False)
    ),
    "ReduceLROnPlateau": plateau,
    "lr set by hand": lr_by_hand,
    "accumulation": accumulation,
    "clip_grad_norm_": partial(clipping, clip=partial(nn.utils.clip_grad_norm_, max_norm=0.3)),
    "clip_grad_value_": partial(clipping, clip=partial(nn.utils.clip_grad_value_, clip_value=0.1)),
    "zero_grad(set_to_none=False)": zeros_in_place,
    "step(closure)": closures,
    "GradScaler": scaler,
    "GradScaler, unscale_ and clip": partial(scaler, clip=True),
    "no_grad and inference_mode between steps": evaluation_between_steps,
    "EMA": averages_of_iterates,
    "hooks of a step": hooks,
    "gradients changed by hand": noise_in_gradients,
}


@pytest.mark.parametrize(
    ("habit", "pair"),
    [(habit, pair) for habit in HABITS for pair in PAIRS if (habit, pair) != ("OneCycleLR", "d-psgd")],  # see below
)
def test_a_loop_does_what_it_does_with_the_optimizers_of_pytorch(habit, pair):
    (mine, f), (theirs, g) = problem(), problem()
    ours, reference = PAIRS[pair]
    HABITS[habit](mine, f, ours(mine))
    HABITS[habit](theirs, g, reference(theirs))
    same(mine, theirs)


def tied():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


def frozen():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[0].requires_grad_(False)
    return model


class Embedded(nn.Module):
    """A table whose gradients are sparse."""

    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(6, 4, sparse=True), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.table(x[:, 0].abs().mul(6).long().clamp(max=5)))


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(checkpoint(self.first, x, use_reentrant=False).relu())


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layers(x).float()


def channels_last():
    model: Any = nn.Sequential(nn.Unflatten(1, (2, 1, 2)), nn.Conv2d(2, 4, (1, 2)), nn.Flatten())
    model.to(memory_format=torch.channels_last)
    assert not model[1].weight.is_contiguous()
    return model


MODELS = {
    "tied parameters": tied,
    "frozen parameters": frozen,
    "autocast": Autocast,
    "torch.compile(model)": lambda: torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), backend="eager"),
    "sparse gradients": Embedded,
    "activation checkpointing": Checkpointed,
    "BatchNorm and Dropout": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)),
    "weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
    "channels_last": channels_last,
}


@pytest.mark.parametrize("overlap", [None, False])
@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_trained_as_by_sgd(kind, overlap):
    ends = []
    for make in (partial(Decentralized, rule=gs.DPSGD(eta=0.1), overlap=overlap), partial(torch.optim.SGD, lr=0.1)):
        torch.manual_seed(0)
        model, data = MODELS[kind](), torch.randn(5, 8, 4)
        optimizer = make(model.parameters())
        for rows in data:
            optimizer.zero_grad()
            mse_loss(model(rows), rows).backward()
            optimizer.step()
        ends.append(dict(model.state_dict()))
    for name, value in ends[0].items():
        torch.testing.assert_close(value, ends[1][name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pair", PAIRS)
def test_freezing_later_stops_a_parameter_and_unfreezing_lets_it_go_on(pair):
    (mine, f), (theirs, g) = problem(), problem()
    for params, loss, make in zip((mine, theirs), (f, g), PAIRS[pair], strict=True):
        optimizer = make(params)
        steps(optimizer, loss, count=3)
        params[0].requires_grad_(False)
        params[0].grad = None
        steps(optimizer, loss, count=3, first=3)
    same(mine, theirs)
    kept = mine[0].detach().clone()
    mine[0].requires_grad_(True)
    optimizer = PAIRS[pair][0](mine)
    steps(optimizer, f, count=2)
    assert not torch.equal(mine[0], kept)


def test_what_was_frozen_at_the_start_and_has_a_gradient_now_is_refused():
    params, loss = problem()
    params[1].requires_grad_(False)
    optimizer = Decentralized(params, DMT)
    params[1].requires_grad_(True)
    loss().backward()
    with pytest.raises(gs.InputError, match=r"was frozen when Decentralized was made .* make a new optimizer after"):
        optimizer.step()


def test_groups_have_their_own_lr():
    (mine, f), (theirs, g) = problem(), problem()
    ours, sgd = PAIRS["biased-dmt"]
    for params, loss, make in ((mine, f, ours), (theirs, g, sgd)):
        steps(make([{"params": params[:1]}, {"params": params[1:], "lr": 0.02}]), loss)
    same(mine, theirs)


def test_keys_of_a_group_reach_the_inner_optimizer():
    """As a script has them that was written for AdamW; lr of a group stays the outer one."""
    (mine, f), (theirs, g) = problem(), problem()
    extra = {"betas": (0.5, 0.6), "weight_decay": 0.2, "eps": 1e-3}
    ours, adamw = PAIRS["adamw inside"]
    optimizer = ours([{"params": mine[:1], **extra}, {"params": mine[1:]}])
    assert optimizer.inner.param_groups[0]["betas"] == (0.5, 0.6)
    assert optimizer.inner.param_groups[1]["betas"] == (0.9, 0.999)
    steps(optimizer, f)
    steps(adamw([{"params": theirs[:1], **extra}, {"params": theirs[1:]}]), g)
    same(mine, theirs)


@table(
    ("make", "message"),
    [
        (
            lambda: Decentralized([{"params": [weight()], "betas": (0.9, 0.99)}], gs.DPSGD(0.1)),
            "parameter group 0 has 'betas', which",
        ),
        (
            lambda: Decentralized([{"params": [weight()], "nesterov": True}], gs.DPSGD(1.0), inner=ADAMW),
            "has 'nesterov'.*, which AdamW does not know",
        ),
        (
            lambda: Decentralized([weight()], gs.DPSGD(1.0), inner=partial(torch.optim.LBFGS, lr=0.1)),
            "LBFGS evaluates its closure as often as it likes",
        ),
        (lambda: copy.deepcopy(Decentralized([weight()], DMT)), r"neither copied nor pickled.* keep its state_dict"),
        (lambda: pickle.dumps(Decentralized([weight()], DMT)), r"neither copied nor pickled.* keep its state_dict"),
        (
            lambda: Decentralized([weight()], DMT).add_param_group({"params": [weight()]}),
            "give all parameter groups when Decentralized is made",
        ),
        (
            lambda: lr_scheduler.OneCycleLR(Decentralized([weight()], gs.DPSGD(0.1)), 0.2, 9),
            "optimizer must support momentum .* with `cycle_momentum` option",
        ),
        (lambda: Decentralized([weight()], DMT).step(), r"no parameter has a gradient: call loss\.backward\(\) before"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def project(params):
    """Put every parameter into a ball."""
    with torch.no_grad():
        for p in params:
            p.mul_(min(1.0, 0.5 / float(p.norm() + 1e-12)))


def load_weights(params):
    nn.ParameterList(params).load_state_dict(nn.ParameterList([torch.full_like(p, 0.1) for p in params]).state_dict())


def write_data(params):
    params[0].data = params[0].data * 2


@pytest.mark.parametrize("write", [project, load_weights, write_data])
@pytest.mark.parametrize("pair", ["d-psgd", "biased-dmt, overlap=False", "adamw inside"])
def test_weights_that_are_written_after_a_step_are_the_state_without_overlap(write, pair):
    (mine, f), (theirs, g) = problem(), problem()
    for params, loss, make in zip((mine, theirs), (f, g), PAIRS[pair], strict=True):
        optimizer = make(params, overlap=False) if make is PAIRS[pair][0] else make(params)
        for k in range(STEPS):
            steps(optimizer, loss, count=1, first=k)
            write(params)
    same(mine, theirs)


@pytest.mark.parametrize("write", [project, load_weights, write_data, lambda params: params[0].data.add_(1)])
def test_weights_that_are_written_while_messages_travel_are_refused(write):
    params, loss = problem()
    optimizer = Decentralized(params, DMT)
    steps(optimizer, loss, count=2)
    write(params)
    loss().backward()
    with pytest.raises(gs.InputError, match=r"was written into since the optimizer did.*overlap=False"):
        optimizer.step()


@pytest.mark.parametrize(("change", "now"), [(lambda p: p.float(), "float32"), (lambda p: p[:1].clone(), r"\(1, 3\)")])
def test_parameters_of_another_type_or_shape_are_refused(change, now):
    params, loss = problem()
    optimizer = Decentralized(params, DMT)
    steps(optimizer, loss, count=1)
    params[0].grad, params[0].data = None, change(params[0].data)
    with pytest.raises(gs.InputError, match=rf"and is .*{now}.* now: convert and move before it is made"):
        optimizer.step()


def test_two_optimizers_take_turns():
    """As those of a generator and a discriminator do."""
    pairs = [(problem(seed), PAIRS[name]) for seed, name in enumerate(("d-psgd", "biased-dmt"))]
    made = [(params, loss, ours(params)) for (params, loss), (ours, _) in pairs]
    for k in range(STEPS):
        for _, loss, optimizer in made:
            steps(optimizer, loss, count=1, first=k)
    for seed, (params, _, _) in enumerate(made):
        theirs, loss = problem(seed)
        steps(pairs[seed][1][1](theirs), loss)
        same(params, theirs)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_state_that_was_saved_and_loaded_goes_on_with_the_same_bits(pair, tmp_path):
    """By torch.save and torch.load with weights_only, as it is by default."""
    ours, _ = PAIRS[pair]

    def made():
        params, loss = problem()
        optimizer = ours(params)
        return params, loss, optimizer, lr_scheduler.CosineAnnealingLR(of_lr(optimizer), 10)

    straight, loss, optimizer, scheduler = made()
    steps(optimizer, loss, scheduler)
    params, loss, optimizer, scheduler = made()
    steps(optimizer, loss, scheduler, count=3)
    torch.save({"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, tmp_path / "state.pt")
    params, loss, optimizer, scheduler = made()
    saved = torch.load(tmp_path / "state.pt")
    scheduler.load_state_dict(saved["scheduler"])
    optimizer.load_state_dict(saved["optimizer"])
    steps(optimizer, loss, scheduler, count=STEPS - 3, first=3)
    assert all(torch.equal(a, b) for a, b in zip(straight, params, strict=True))


@pytest.mark.parametrize("pair", PAIRS)
def test_the_state_has_all_arrays_from_the_start_and_each_in_memory_of_its_own(pair):
    """An in-place loader writes into the arrays of a fresh optimizer: one more or two in one place would be lost."""

    def arrays(value):
        if isinstance(value, torch.Tensor):
            return [value]
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        return [a for part in parts for a in arrays(part)]

    params, loss = problem()
    optimizer = PAIRS[pair][0](params)
    fresh = optimizer.state_dict()
    steps(optimizer, loss, count=1)
    for saved in (fresh, optimizer.state_dict()):
        places = [a.data_ptr() for a in arrays(saved["state"]) if a.numel() > 1]
        assert len(set(places)) == len(places)
    if "inside" not in pair:  # AdamW itself has no state before its first step
        shapes = [sorted(str(a.shape) for a in arrays(saved["state"])) for saved in (fresh, optimizer.state_dict())]
        assert shapes[0] == shapes[1] != []


@pytest.fixture(scope="module")
def ranks():
    return forked.run(habits.all_of_them, 2)


def test_a_compiled_step_ends(ranks):
    """It takes the steps of one that is not compiled, or says that it cannot be."""
    for found in ranks:
        plain, compiled = found["compiled step"]
        assert compiled == plain or "optimizer.step() cannot be compiled" in compiled


def test_a_model_wrapped_in_ddp_is_named(ranks):
    assert "Do not wrap the model in DistributedDataParallel" in ranks[0]["wrapped"][0]


def test_a_rank_that_ends_early_is_named(ranks):
    """Ranks that took different numbers of steps say so where they next meet."""
    for found in ranks:
        assert "the ranks disagree on the number of steps: rank 0 has 1, but rank 1 has 2" in found["uneven"]


def test_the_mean_model_is_what_all_ranks_evaluate_between_steps(ranks):
    (mean, own), (same_mean, other) = (found["mean"] for found in ranks)
    assert mean == same_mean
    assert mean == pytest.approx([(a + b) / 2 for a, b in zip(own, other, strict=True)], rel=1e-12)
    assert not math.isclose(own[0], other[0])
