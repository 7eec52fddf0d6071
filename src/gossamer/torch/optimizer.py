"""The rules of Gossamer as a PyTorch optimizer, one agent to a process.

    optimizer = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.1, lam=0.1), network="ring")

Each process holds a model of its own, computes gradients on its own data and talks to its neighbours alone.
"""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import networkx as nx
import torch

from gossamer.core import InputError, State, is_rule, parts
from gossamer.core.rules import LONG_RUN, of_drift
from gossamer.networks import Network
from gossamer.networks.compatibility import suits
from gossamer.torch import averaging, facts, fused
from gossamer.torch.agent import Agents
from gossamer.torch.arguments import (
    Draws,
    asks_at_its_model,
    check_kinds,
    check_seconds,
    checked_draws,
    checked_seed,
    groups_of,
    is_ours,
    network_for,
    overlapping,
    sleepy,
)
from gossamer.torch.decay import WeightDecay, amounts_of
from gossamer.torch.elastic import elastic_of
from gossamer.torch.exchange import Counters
from gossamer.torch.finite import Guard, OnNonfinite
from gossamer.torch.gpus import looks
from gossamer.torch.gradients import Gradients, Scaling, check_way
from gossamer.torch.hyperparameters import Dials, rates_of
from gossamer.torch.inner import InnerMaker, LocalSteps, check_rule, checked_steps, inner_groups
from gossamer.torch.likeness import Likeness
from gossamer.torch.log import Log
from gossamer.torch.nearby import Nearby
from gossamer.torch.parameters import Flat
from gossamer.torch.resumable import Resumable
from gossamer.torch.rounds import Course, Memory, Rates, Rounds
from gossamer.torch.stopping import NeighborLost
from gossamer.torch.waking import exchange_for, on_its_way, without_rounds
from gossamer.torch.world import ProcessWorld


class Decentralized(Resumable):
    """Runs a rule on the parameters of this process, with the other processes as the other agents.

    The script stays as it was: ``zero_grad``, ``backward``, clipping, ``step``, a learning-rate scheduler. All
    processes must make it, and step, equally often. At the start the parameters of rank 0 go to all. The rule owns the
    parameters: what a script writes into them by hand is refused by the next step.

    Args:
        params: the model's parameters, or groups of them; a group's ``lr`` is its η, in place of the rule's.
        rule: such as ``gs.BiasedDMT(eta=0.1, lam=0.1)``. A rule that asks for gradients at two points of one sample,
            such as STEM, needs ``step(closure)``; one that asks for full gradients, GT-SARAH, ``full`` as well.
        network: a name (made for as many agents as there are processes), a `Network`, or a networkx graph.
        inner: makes any torch optimizer, such as ``partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1)``. It takes
            the steps of this rank, and the rule gets the displacement x − y of `local_steps` of them for its gradient,
            unscaled: η is then the outer rate, and 1 takes the local steps as they are. It is `optimizer.inner`, whose
            lr has a scheduler of its own; a group has options for it in a dict, ``"inner": {"lr": 1e-4}``.
        local_steps: how many steps the inner optimizer takes between two messages.
        weight_decay: ω of decoupled weight decay, x ← (1 − ηω) x in every round; a group may have its own.
        process_group: the processes that gossip with each other, where these are not all: such as those of equal place
            in several nodes, with DistributedDataParallel or FSDP2 inside each node. The network is that of this group.
        module: the model, whose buffers then begin as those of rank 0 as well. Afterwards they stay with each rank.
        timeout: seconds after which a silent neighbour counts as lost.
        start_timeout: seconds to wait for the last process at the start, where this joins them.
        on_nonfinite: what to do where a gradient has inf or NaN. ``"stop"`` ends all ranks with `NotFinite`, which
            names the rank. ``"skip"`` leaves the step out on all ranks, as a `GradScaler` does on one; all ranks then
            wait for each other at every step, for one number.
        elastic: whether the others go on where a rank is lost, and let processes join, in place of stopping; the script
            must be started by ``gossamer launch --elastic``, and counts by `steps`.
        asynchronous: whether nobody waits: processes step when they like, and meet one neighbour at a time. For rules
            that have ``wake``; end with `finish`.
        overlap: whether messages travel while gradients are computed; by default where the rule and the network allow
            it. The iterates are the same.
        log: called with a row of numbers after every `log_every` steps: `CSVLog`, `JSONLinesLog`, `ProgressLog`,
            `TensorBoardLog` or `WandbLog` of `gossamer.torch`, or any function of a dict. See `note`.
        log_every: how many steps there are between two rows.
        direct: whether processes of one machine read each other's arrays in memory, where the system lets them, in
            place of sending them; they then wait for each other in every step. Not with `elastic` or `asynchronous`.
        seed: the seed of what randomised compressors draw.
        draws: ``"torch"``, by PyTorch's generators; or ``"simulator"``, what a simulator's run with this seed draws,
            for which every process imports JAX.
    """

    _step_supports_amp_scaling = True  # a GradScaler then always calls `step`, which must take part in every round

    def __init__(
        self,
        params: Iterable[Any],
        rule: Any,
        network: str | Network | nx.Graph = "ring",
        *,
        inner: InnerMaker | None = None,
        local_steps: int = 1,
        weight_decay: float = 0.0,
        process_group: Any = None,
        module: torch.nn.Module | None = None,
        timeout: float = 60.0,
        start_timeout: float = 60.0,
        on_nonfinite: OnNonfinite = "stop",
        elastic: bool = False,
        asynchronous: bool = False,
        overlap: bool | None = None,
        direct: bool = True,
        log: Callable[[dict[str, Any]], None] | None = None,
        log_every: int = 1,
        seed: int = 0,
        draws: Draws = "torch",
    ):
        if not is_rule(type(rule)):
            raise InputError(f"{rule!r} is not an algorithm: make one as BiasedDMT(eta=0.1, lam=0.05), or by @rule.")
        check_rule(rule, inner)
        local_steps = checked_steps(local_steps, inner)
        check_seconds(timeout=timeout, start_timeout=start_timeout)
        check_kinds(module, overlap, direct=direct, elastic=elastic, asynchronous=asynchronous)
        self.rule, self.seed, self.draws = rule, checked_seed(seed), checked_draws(draws)
        groups = groups_of(params)
        options = [group.pop("inner", {}) for group in groups]
        self._own_rate = ["lr" in group for group in groups]
        super().__init__(groups, {"lr": getattr(rule, "eta", None), "weight_decay": weight_decay})
        self.flat = Flat([group["params"] for group in self.param_groups])
        x = self.flat.read()
        notes = is_ours(rule) and x.numel() >= fused.SHORTEST
        self._dials = Dials(rule, self.flat.sizes, x, notes)
        for group in self.param_groups:
            group["lr"] = self._dials.eta(0) if callable(group["lr"]) else group["lr"]
        amounts = amounts_of(self.param_groups, inner)
        self.decay = WeightDecay(rule, amounts, self.flat.sizes, self._dials.eta)
        self.elastic = elastic_of(elastic, rule, network, x.device, process_group, start_timeout, timeout)
        form = None if self.elastic is None else self.elastic.start
        self.world = ProcessWorld(x.device, x.dtype, timeout, start_timeout, process_group, form)
        self.network = network_for(network, self.world.size) if self.elastic is None else self.elastic.network()
        self.asynchronous = asynchronous or self.network.asynchronous
        if self.elastic is None:  # else they may come one by one
            self.world.agree({"choice of asynchronous": str(self.asynchronous)})
        if self.asynchronous:
            self.network = without_rounds(self.network, overlap, on_nonfinite, elastic)
        suits(rule, self.network)
        for part in parts(rule).values():
            part.check(x.numel())
        self.direct = direct and not elastic and not self.asynchronous
        self.overlap = not self.asynchronous and overlapping(overlap, rule, self.network)
        self.counters, self._log = Counters(), Log(log, log_every)
        self.local: LocalSteps | None = None
        self.exchange = exchange_for(self.world, self.network, self.counters, rule)
        self.guard = Guard(self.exchange, on_nonfinite, rule.name, self.flat.place)
        self._gradients = Gradients(self.flat, self.guard, self.counters)
        if own := inner_groups(self.param_groups, options, inner):
            self.local = LocalSteps(inner, own, local_steps, self.flat, self.guard, self.counters)
        about = facts.agreed_on(self, module)
        self._likeness, self._averaged = Likeness(self.world), False
        self._agents = agents = Agents(self.exchange, self.seed, draws == "simulator", sleepy(rule, self.network))
        if self.overlap and inner is None and asks_at_its_model(rule):
            self.flat.unite()
        course = Course(
            *(self._dials.rule, notes, agents.at, self._dials.turn, agents.awake, self.overlap),
            *(self.decay.shrunk, self.flat.held, self.flat.stilled, self.guard.check),
        )
        self._rounds = on_its_way(course, self.exchange, self.seed)
        besides = [*self.flat.frozen, *(module.buffers() if module is not None else ())]
        if self.elastic is not None:
            self.elastic.begin(about, besides)
        del x
        if self.elastic is not None and self.elastic.late:
            return self._enter(None)
        try:
            self._start(about, besides)
        except NeighborLost as lost:
            if self.elastic is None:
                raise
            return self._enter(lost)
        if self.elastic is not None:
            self.elastic.begun(self)

    def _start(self, about: dict[str, str], besides: list[torch.Tensor]) -> None:
        """Begin as the other ranks do, with what rank 0 has."""
        self.world.agree(about)
        self.exchange.nearby = Nearby(self.world, self.direct)
        self._spares = fused.spared(sum(self.flat.sizes), self.flat.dtype) if self.exchange.nearby.pids else []
        averaging.give_out(besides, self.world)
        start = State(x=self.world.broadcast(self.flat.read()))
        self.guard.check(start, [])
        self._go(Memory(-1, start, self._rates(), []))

    def _enter(self, lost: NeighborLost | None) -> None:
        """Go on with others that have a model; where one was lost while all began, begin again."""
        assert self.elastic is not None
        assert isinstance(self._rounds, Rounds)
        self._rounds.memory = Memory(-1, State(x=self.flat.read()), self._rates(), [])
        self.elastic.joined = lost is None and any(member.veteran for member in self.elastic.membership.members)
        self.elastic.regroup(self, 0, lost)
        self._opt_called = True  # or else a scheduler of PyTorch that catches up would warn

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, closure: Callable[[], Any] | None = None, *, full: Callable[[], Any] | None = None
    ) -> Any:
        """Take part in the round: hand the gradients to the rule, and put its next point into the parameters.

        Args:
            closure: computes the loss and its gradients at the parameters as they are then, always on the same batch.
            full: the same over all samples of this rank, for rules that ask for that now and then.
        """
        self._rounds.check_alive()
        ended, loss = self.guard.step, None
        try:
            if self.elastic is not None:
                self.elastic.listen()
            self.guard.listen()
            self.guard.step += 1
            if self.guard.step == LONG_RUN:
                self._warn_of_drift()
            self._check_own()
            loss, points, gradients = self._asked(closure, full)
            self._hand_over(points, gradients)
            self._log.step(self)
        except NeighborLost as lost:
            if self.elastic is None:
                raise
            self.elastic.regroup(self, ended, lost)
        except Exception as error:
            if self.guard.step > ended:
                self.guard.tell(error)
            raise
        return loss

    def _warn_of_drift(self) -> None:
        if self.rule.drifts and self.flat.dtype != torch.float64 and self.world.rank == 0:
            warnings.warn(of_drift(self.rule.name, LONG_RUN, "parameters in float64, or another rule"), stacklevel=3)

    def _asked(self, closure: Callable[[], Any] | None, full: Callable[[], Any] | None) -> Any:
        """The loss, the points where the rule asks, and the gradients there; none within local steps."""
        points = self._rounds.points
        check_way(self.rule.name, len(points), self._rounds.full, closure, full, self.local is not None)
        within = self.local is not None and self.local.taken
        if not within and looks(self.guard.step, self.flat.device):
            self.flat.check_untouched(points[0])
        else:
            self.flat.check_kinds()
        evaluate, scaling = full if self._rounds.full else closure, Scaling.of(self)
        if self.local is not None:
            loss = self.local.step(closure, scaling)
            if not self.local.ended:
                return loss, (), ()
            gradients = (self.local.displacement(points[0]),)
        elif evaluate is None:
            loss, gradients = None, (self._gradients.left(scaling),)
        else:
            loss, gradients = self._gradients.evaluated(evaluate, points, scaling)
        return loss, points, gradients

    def _hand_over(self, points: tuple[Any, ...], gradients: tuple[Any, ...]) -> None:
        if not gradients:
            return
        rates = self._rates()
        if self.guard.passes(gradients):
            if not self.asynchronous:
                self._likeness.look(gradients[0])
            self._rounds.answer(self.decay.added(gradients, points), rates)
        self._show()

    def __repr__(self) -> str:
        return f"{facts.in_short(self)}\n{super().__repr__().partition(chr(10))[2]}"

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if hasattr(self, "_rounds"):
            raise InputError("give all parameter groups when Decentralized is made: messages have one fixed length.")
        super().add_param_group(param_group)

    def rewire(self, network: Network) -> None:
        """Go on among other ranks, by another network: only where they are elastic."""
        self.network = network
        self.exchange.rewire(network)
        self._agents.enter(sleepy(self.rule, network))
        self._likeness.forget()

    def go_on(self, memory: Memory, steps: int) -> None:
        """Restart the rule from a state, after so many steps: only where the ranks are elastic."""
        state = memory.state if memory.t < 0 else self._dials.rule.restart(memory.state)
        self.guard.step = steps
        if self.local is not None:
            self.local.taken = 0
        self._go(Memory(memory.t, state, self._rates(), []))

    def _go(self, memory: Memory) -> None:
        with torch.no_grad():
            self._rounds.start(memory)
        self._show()

    def _show(self) -> None:
        """Put the point where the next gradient is wanted, and the rates of its round, where the script sees them."""
        self.flat.write(self._rounds.points[0])
        for group, has_own_rate in zip(self.param_groups, self._own_rate, strict=True):
            if self._dials.scheduled and not has_own_rate:
                group["lr"] = self._dials.eta(max(self._rounds.memory.t, 0))

    def _rates(self) -> Rates:
        return rates_of(self.param_groups, self._own_rate, self._dials, self.decay.amounts)
