"""The rules of Gossamer as a PyTorch optimizer, one agent to a process.

    optimizer = Decentralized(model.parameters(), gs.BiasedDMT(eta=0.1, lam=0.1), network="ring")

Each process holds a model of its own, computes gradients on its own data and talks to its neighbours alone.
"""

import contextlib
import hashlib
import operator
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from gossamer.core import InputError, brief, flag, is_rule, parts, setting, shown, whole
from gossamer.core.rules import LONG_RUN, of_drift
from gossamer.logs import Log, open_log
from gossamer.torch.agent import ProcessAgent
from gossamer.torch.checkpoint import PROGRESS, load_state, pack_state, random_states, restore_random_states
from gossamer.torch.exchange import Counters, Exchange, fingerprint
from gossamer.torch.faults import Guard, NeighborLost, OnNonfinite
from gossamer.torch.flat import Flat, Span, local, looks
from gossamer.torch.hyperparameters import Hyperparameters, Rates, check_rate, find_momentum
from gossamer.torch.inner import InnerMaker, LocalSteps, Scaling, check_local_steps
from gossamer.torch.rounds import Evaluation, Gradients, Loop, Rounds, probe_state
from gossamer.torch.world import ProcessWorld

if TYPE_CHECKING:
    import networkx as nx

    from gossamer.networks import Network

Draws = Literal["torch", "simulator"]
LONGEST = 30 * 86400.0  # seconds that a rank may wait for a neighbour
SAMPLED = 65536  # how many numbers of the first gradients are compared between ranks
STANDARD = ("step", "rank", "round", "lr", "seconds", *(field.name for field in fields(Counters)))
"""The names in every row of a log, in this order."""


class Decentralized(Optimizer):
    """A rule on the parameters of this process, with the other processes as the other agents.

    The script stays as it was: ``zero_grad``, ``backward``, clipping, ``step``, a learning-rate scheduler. All
    processes must make it, and step, equally often. At the start the parameters of rank 0 go to all.

    Args:
        params: the model's parameters, or groups of them; a group's ``lr`` is its η, in place of the rule's. With an
            inner optimizer all other keys of a group, such as ``betas``, are options of that one.
        rule: such as ``gs.BiasedDMT(eta=0.1, lam=0.1)``. A rule that asks for gradients at two points of one sample,
            such as STEM, needs ``step(closure)``; one that asks for full gradients, GT-SARAH, ``full`` as well.
        network: a name (made for as many agents as there are processes), a `Network`, or a networkx graph.
        inner: makes any torch optimizer, such as ``partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1)``. It takes
            the steps of this rank, and the rule gets the displacement x − y of `local_steps` of them for its gradient,
            unscaled: η is then the outer rate, and 1 takes the local steps as they are. It is `optimizer.inner`, whose
            lr has a scheduler of its own; a group has its lr there as ``"inner": {"lr": 1e-4}``.
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
        asynchronous: True if processes step when they like, and meet one neighbour at a time. For rules
            that have ``wake``; end with `finish`.
        overlap: whether messages leave right after a step and travel while gradients are computed; by default where the
            rule and the network allow it. The iterates are the same. Without it they leave with the next step, and what
            a script writes into the parameters in between (a projection, say) is the model, and less memory is needed.
        log: gets a row of numbers after every `log_every` steps: a text such as "runs/log-{rank}.csv" or
            "tensorboard:FOLDER", as the simulator takes it, a writer of `gossamer.logs`, or any function of a dict. See
            `note`.
        log_every: how many steps there are between two rows.
        seed: the seed of what randomised compressors draw.
        draws: ``"torch"``, by PyTorch's generators; or ``"simulator"``, what a simulator's run with this seed draws,
            for which every process imports JAX.
    """

    _step_supports_amp_scaling = True  # a GradScaler then always calls `step`, which must take part in every round

    def __init__(
        self,
        params: Iterable[Any],
        rule: Any,
        network: "str | Network | nx.Graph" = "ring",
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
        log: Log | str | None = None,
        log_every: int = 1,
        seed: int = 0,
        draws: Draws = "torch",
    ):
        if not is_rule(type(rule)):
            raise InputError(f"{rule!r} is not an algorithm: make one as BiasedDMT(eta=0.1, lam=0.05), or by @rule.")
        local_steps = check_local_steps(rule, local_steps, inner)
        _check_arguments(timeout, start_timeout, module, overlap, draws, elastic, asynchronous)
        try:
            self.seed = operator.index(seed)
        except TypeError:
            raise InputError(f"seed must be a whole number, but is {brief(seed)}.") from None
        self.rule, self.draws = rule, draws
        groups, options = _split_groups(params, inner, weight_decay)
        own_rate = ["lr" in group for group in groups]
        defaults = {"lr": getattr(rule, "eta", None), "weight_decay": 0.0 if inner else weight_decay}
        if (momentum := find_momentum(rule)) is not None:  # schedulers such as OneCycleLR turn it with lr
            _, value, convert = momentum
            defaults["momentum"] = convert(value)
        super().__init__(groups, defaults)
        self._log, self._log_every, self._began = open_log(log), whole("log_every", log_every), time.monotonic()
        self._notes: dict[str, float | Tensor] = {}
        self.flat = Flat([group["params"] for group in self.param_groups])
        self.counters, self.elastic, device = Counters(), None, self.flat.device
        if elastic:
            from gossamer.torch.elastic import Elastic  # needs an extra

            self.elastic = Elastic(rule, network, device, process_group, start_timeout, timeout)
        form = None if self.elastic is None else self.elastic.start
        self.world = ProcessWorld(device, self.flat.dtype, timeout, start_timeout, process_group, form)
        self.network = network_for(network, self.world.size) if self.elastic is None else self.elastic.network()
        self.asynchronous = asynchronous or self.network.asynchronous
        if self.elastic is None:  # else they may come one by one
            self.world.agree({"choice of asynchronous": str(self.asynchronous)})
        if self.asynchronous:
            from gossamer.torch.asynchronous import AsynchronousExchange, AsynchronousRounds, without_rounds

            self.network = without_rounds(self.network, overlap, on_nonfinite, elastic, process_group)
            self.exchange = AsynchronousExchange(self.world, self.network, self.counters)
            kind: Any = partial(AsynchronousRounds, seed=self.seed)
        else:
            self.exchange, kind = Exchange(self.world, self.network, self.counters), Rounds
        from gossamer.networks.compatibility import suits  # as slow to import as scipy, which it needs

        suits(rule, self.network)
        for part in parts(rule).values():
            part.check(self.flat.size)
        self.guard = Guard(self.exchange, on_nonfinite, rule.name, self.flat.locate)
        self.local: LocalSteps | None = None
        if inner is not None:
            self.local = LocalSteps(inner, self.param_groups, options, local_steps, self.flat, self.guard)
        elif any(options):
            raise InputError('a parameter group has options for an inner optimizer, "inner", but there is none.')
        self.hyperparameters = Hyperparameters(rule, self.flat, self.param_groups, own_rate)
        for group in self.param_groups:
            group["lr"] = self.hyperparameters.eta(0) if callable(group["lr"]) else group["lr"]
        self._finite: Tensor | None = None  # the last finite gradient under mixed precision
        self._is_averaged = False
        self._has_compared = self.world.size == 1 or self.asynchronous
        self._make_rounds(kind, overlap)
        about = self._list_facts(module)
        besides = [*self.flat.frozen, *(module.buffers() if module is not None else ())]
        if self.elastic is None:
            self._start(about, besides)
        else:
            self.elastic.begin(self, about, besides)

    # ---- the state --------------------------------------------------------------------------------------------------

    def _make_rounds(self, kind: Any, overlap: bool | None) -> None:
        """Make the buffers of the state, and what runs the rule on them."""
        rule, network, flat = self.rule, self.network, self.flat
        self._ahead = not self.asynchronous and _goes_ahead(overlap, rule, network)
        self.overlap = self._ahead and overlap is not False
        # these use a gradient in the call that it is given in, and their arithmetic is elementwise
        self._in_spans = self._ahead and _is_ours(rule)
        self._rounds = kind(
            ProcessAgent(self.exchange, self.seed, self.draws == "simulator"),
            self.hyperparameters,
            flat,
            self.guard,
            self._make_buffers(),
            ahead=self._ahead,
            overlap=self.overlap,
            in_spans=self._in_spans,
            may_sleep=network.awake(0) is not None or self.elastic is not None,
        )
        # the state is where PyTorch looks for it, at each parameter; the model itself is the parameters
        for name, a in self._rounds.buffers.items():
            if name != "x" and a.shape == (flat.size,):
                for p, part in zip(flat.params, flat.as_parameters(a), strict=True):
                    self.state[p][f"{name}@{self.place}"] = part
            elif name != "x":
                self.state[flat.params[0]][f"{name}@{self.place}"] = a
        if not self.state:  # or else torch.distributed.checkpoint would take a step to make one
            self.state[flat.params[0]][f"progress@{self.place}"] = torch.zeros(len(PROGRESS), dtype=torch.float64)

    def _make_buffers(self) -> dict[str, Tensor]:
        """Return the buffers of the state by name. Those that the rule posts ahead are adjacent: one message."""
        flat, x = self.flat, torch.empty(self.flat.size, dtype=self.flat.dtype, device="meta")
        try:
            arrays, posted = probe_state(self.hyperparameters.rule, x, self.network.agents, self._ahead)
        except Exception:  # a rule of one's own may look at numbers: what it needs is known after its start
            arrays, posted = {"x": x}, ()
        together = torch.zeros(len(posted), flat.size, dtype=flat.dtype, device=flat.device)
        buffers = dict(zip(posted, together, strict=True))
        for name, a in arrays.items():
            if name not in posted:
                buffers[name] = torch.zeros(a.shape, dtype=a.dtype, device=flat.device)
        if self.local is not None or not self._in_spans or not flat.unite(buffers["x"]):
            buffers["x"].copy_(flat.read())
        return buffers

    def state_dict(self) -> dict[str, Any]:
        """Return the state as of any optimizer: by parameter, under keys that end with ``@`` and this agent's number.

        So no tool that takes equal keys for equal tensors can mix up agents, and what is missing is noticed. Nothing in
        it is memory of this optimizer or of another entry: it can be written in place, and then loaded.
        """
        return pack_state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state that this agent saved. All ranks must load the same step together: the round that they are
        in is begun again."""
        load_state(self, state_dict)

    def saved_with(self) -> dict[str, Any]:
        """Return what a state must have been saved with; the rates go with the parameter groups."""
        others = [f"{key}={value}" for key, value in shown(self.rule).items() if key != "eta"]
        return {
            "ranks": str(self.world.size),
            "rule": " ".join([self.rule.name, *others]),
            "network": fingerprint(self.network),
            "phase": "ahead" if self._ahead else "step",
            "seed": self.seed,
            "draws": self.draws,
            "weight decay": str(self.hyperparameters.decays),
            "inner": str(self.local or "none"),
            "type": str(self.flat.params[0].dtype),
        }

    def __getstate__(self) -> dict[str, Any]:
        raise InputError(
            "Decentralized can be neither copied nor pickled, since it is in the middle of a round with the other "
            "ranks: keep its state_dict(), or use gossamer.torch.save."
        )

    # ---- the start --------------------------------------------------------------------------------------------------

    def _start(self, about: dict[str, str], besides: list[Tensor]) -> None:
        """Begin as the other ranks do, with what rank 0 has."""
        self.world.agree(about)
        with torch.no_grad():
            for mine in map(local, besides):
                mine.copy_(self.world.broadcast(mine.contiguous()))
            self.world.broadcast(self._rounds.buffers["x"])
        self.guard.check({"x": self._rounds.buffers["x"]}, Rates([]))
        self._go(-1, self.hyperparameters.rates(self.param_groups), [])

    def _restart(self, t: int, steps: int, network: "Network") -> None:
        """Go on among the ranks that there are now, by another network, from the state in the buffers.

        Args:
            t: the round; −1 to begin from the model alone.
            steps: how many steps were taken.
            network: the network of these ranks.
        """
        self.network = network
        self.exchange.rewire(network)
        self._has_compared, self.guard.step = True, steps
        if self.local is not None:
            self.local.taken = 0
        if t >= 0:
            self._rounds.restart()
        self._go(t, self.hyperparameters.rates(self.param_groups), [])

    def _go(self, t: int, rates: Rates, answers: list[Evaluation | Loop]) -> None:
        """Let the rule go on from the buffers, in round t at these rates, with what was answered in it."""
        with torch.no_grad():
            self._rounds.start(t, rates, answers)
        self._show()

    # ---- a step -----------------------------------------------------------------------------------------------------

    # or torch.compile(optimizer.step) would look into it, and fail at its messages
    @torch._disable_dynamo  # pyright: ignore[reportPrivateImportUsage]
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
        before, loss = self.guard.step, None
        try:
            if self.elastic is not None:
                self.elastic.listen()
            if reason := self.world.words.reason():  # another rank has stopped
                raise reason
            self.guard.step += 1
            if self._is_averaged:
                self._check_own()
            loss = self._take(closure, full)
            if self.guard.step == LONG_RUN and self.rule.drifts and self.flat.dtype != torch.float64:
                self._warn(of_drift(self.rule.name, LONG_RUN, "parameters in float64, or another rule"))
            if self._log is not None and self.guard.step % self._log_every == 0:
                self._log(self._make_row())
        except NeighborLost as lost:
            if self.elastic is None:
                self.guard.tell(lost)  # those beside this rank would blame it
                raise
            self.elastic.regroup(self, before, lost)
        except Exception as error:
            if self.guard.step > before:
                self.guard.tell(error)
            raise
        return loss

    def _take(self, closure: Callable[[], Any] | None, full: Callable[[], Any] | None) -> Any:
        """Take the step that the gradients in the parameters are for, or those of the closure, and return its loss."""
        points, wants_full, loss = self._rounds.points, self._rounds.full, None
        scaling = Scaling(getattr(self, "grad_scale", None), getattr(self, "found_inf", None))
        if len(points) > 1 or wants_full:
            _check_way(self.rule.name, len(points), wants_full, closure, full, self.local is not None)
        self._check_parameters()
        evaluate = full if wants_full else closure
        if self.local is not None:
            loss = self.local.step(closure, scaling)
            if self.local.taken == self.local.steps:
                self.local.taken, moved = 0, self.local.displacement(points[0])
                self._answer([moved], lambda span: (span.of(moved),))
        elif len(points) > 1:
            assert evaluate is not None
            loss, gradients = self._evaluate_at(points, evaluate, scaling)
            self._answer(gradients, lambda span: tuple(map(span.of, gradients)))
        else:
            if evaluate is not None:
                with torch.enable_grad():
                    loss = evaluate()
                self._check_parameters()
            stands_in = self._count_overflow(scaling)
            looked = [torch.zeros(1)] if stands_in else self.flat.gradients()
            self._answer(looked, lambda span: (self._gradient(span, scaling, stands_in),))
        return loss

    def _evaluate_at(
        self, points: Sequence[Tensor], closure: Callable[[], Any], scaling: Scaling
    ) -> tuple[Any, list[Tensor]]:
        """Return the loss at the first point, and the gradient at each, all with the same draws (of dropout, say)."""
        losses, gradients, began = [], [], random_states()
        for k, point in enumerate(points):
            if k:
                restore_random_states(began)
            self.flat.write(point)
            with torch.enable_grad():
                losses.append(closure())
            if self.flat.find_changed(point):
                raise InputError("the closure wrote into the parameters, which are the rule's: let it leave gradients.")
            self.flat.gradients()  # refuses where there are none
            gradients.append(self._gradient(self.flat.whole, scaling, self._count_overflow(scaling)))
        return losses[0], gradients

    def _count_overflow(self, scaling: Scaling) -> bool:
        """Return True if the gradient overflowed under mixed precision, and the last finite one stands in for it."""
        if scaling.overflow is None:
            return False
        overflow = bool(scaling.overflow)
        self.guard.count_overflow(overflow)
        if self._finite is None:  # zeros until there is one
            self._finite = torch.zeros_like(self._rounds.buffers["x"])
        return overflow and self.guard.mode == "stop"

    def _gradient(self, span: Span, scaling: Scaling, stands_in: bool) -> Tensor:
        """Return the gradient of a span in true size."""
        if stands_in and self._finite is not None:
            return span.of(self._finite).clone()
        gradient = self.flat.gradient(span, borrow=self._in_spans and scaling.scale is None)
        if scaling.scale is not None:
            gradient.div_(scaling.scale.to(gradient.device))
        if self._finite is not None and scaling.overflow is not None and not bool(scaling.overflow):
            span.of(self._finite).copy_(gradient)
        return gradient

    def _answer(self, looked: list[Tensor], gradients: Gradients) -> None:
        """Hand gradients to the rule, unless one of those that are looked at is not finite."""
        rates = self.hyperparameters.rates(self.param_groups)
        if self.guard.passes(looked):
            if not self._has_compared:
                self._warn_if_alike(looked)
            self._rounds.answer(gradients, rates)
        self._show()

    def _show(self) -> None:
        """Put the point where the next gradient is wanted, and the rates of its round, where the script sees them."""
        if self.flat.vector is None or self._rounds.points[0] is not self._rounds.buffers["x"]:
            self.flat.write(self._rounds.points[0])
        if self.flat.vector is not None and self.overlap and looks(self.guard.step + 1, self.flat.device):
            self.flat.sign()
        if self.hyperparameters.has_schedule:
            self.hyperparameters.write_schedule(self.param_groups, max(self.round, 0))

    def _check_parameters(self) -> None:
        """Refuse to go on where a script wrote into the parameters and the step would overwrite it or miss it."""
        self.flat.check_kinds()
        is_late = self._ahead and not self.overlap
        if is_late and self.flat.vector is not None:  # they are the model
            self.flat.gather()
            return
        if (self.local is not None and self.local.taken) or not looks(self.guard.step, self.flat.device):
            return
        x = self._rounds.buffers["x"] if self._ahead else self._rounds.points[0]
        changed = self.flat.find_changed(x)
        if changed and is_late:
            for k, (part, p) in enumerate(zip(x.split(self.flat.lengths), self.flat.params, strict=True)):
                if k in changed:
                    part.copy_(local(p).reshape(-1))
        elif changed:
            out = "give overlap=False, and what is written there is the model"
            if not self._ahead:
                out = f"{self.rule.name} asks for gradients at other points than its model"
            raise InputError(
                f"parameter {changed[0]} (from 0; {len(changed)} in all) was written into since the optimizer did, and "
                f"the next step would overwrite that: {out}. Load weights before Decentralized is made; go on with a "
                "run by gossamer.torch.resume; step outside of average_model."
            )

    def _warn_if_alike(self, gradients: list[Tensor]) -> None:
        """Warn where the first gradient is the same on all ranks, bit for bit: then there is nothing to gossip about.

        Ranks begin at one point, but with batches of their own. Gradients that agree all the same were averaged before
        the optimizer saw them, as DistributedDataParallel does, or come from the same data. A gradient that is zero
        everywhere, as after an overflow under mixed precision, is not looked at. All ranks must do it.
        """
        every = max(1, -(-sum(g.numel() for g in gradients) // SAMPLED))
        some = torch.cat([g.reshape(-1)[::every].double() for g in gradients]).cpu().numpy()
        digest = int.from_bytes(hashlib.sha256(some.tobytes()).digest()[:7], "big") * bool(some.any())
        digests = self.world.numbers(digest)
        self._has_compared = any(digests)
        if self._has_compared and len(set(digests)) == 1:
            self._warn(
                f"all {self.world.size} ranks have the same first gradient, bit for bit: something averages gradients "
                "before Decentralized sees them, or all ranks train on the same batches. Do not wrap the model in "
                "DistributedDataParallel (accelerator.prepare(model) and Hugging Face's Trainer do so), and give each "
                "rank its own data, by SplitSampler for one."
            )

    def _warn(self, text: str) -> None:
        if self.world.rank == 0:
            warnings.warn(text, stacklevel=5)

    # ---- what all ranks know and do together ------------------------------------------------------------------------

    @property
    def inner(self) -> Optimizer | None:
        """The optimizer that takes the local steps."""
        return None if self.local is None else self.local.optimizer

    @property
    def round(self) -> int:
        """The round that the rule is in; −1 before its start has been made."""
        return self._rounds.t

    @property
    def steps(self) -> int:
        """The number of steps that were taken, the same on all ranks, also where some were lost or joined."""
        return self.guard.step

    @property
    def place(self) -> int:
        """This agent's place, which stays where ranks change because others are lost; else its rank."""
        return self.world.rank if self.elastic is None else self.elastic.place

    @property
    def meetings(self) -> Any:
        """Counts of this rank's meetings by their outcome; None where ranks go in rounds."""
        return self._rounds.tally if self.asynchronous else None

    def note(self, **values: float | Tensor) -> None:
        """Put numbers, such as ``loss=loss``, into the next row of the log.

        A tensor of one number is read when the row is written: a GPU may be late.
        """
        for name, value in values.items():
            if name in STANDARD:
                raise InputError(f"note({name}=…) would hide the {name} that every row has: use another name.")
            if isinstance(value, Tensor) and value.numel() == 1:
                self._notes[name] = value.detach().clone()
            elif isinstance(value, Real):
                self._notes[name] = float(value)
            else:
                raise InputError(f"note({name}=…) must be one number, but is {brief(value)}.")

    def _make_row(self) -> dict[str, Any]:
        row = {
            "step": self.guard.step,
            "rank": self.world.rank,
            "round": self.round,
            "lr": self.param_groups[0]["lr"],
            "seconds": time.monotonic() - self._began,
            **asdict(self.counters),
            **{name: float(value) for name, value in self._notes.items()},
        }
        self._notes = {}
        return row

    @contextlib.contextmanager
    def average_model(self, module: torch.nn.Module | None = None) -> Iterator[None]:
        """Let the parameters be x̄, the mean over all ranks; given the module, also its floating buffers.

        All ranks must enter it. After it everything is as it was.
        """
        buffers = [] if module is None else [b for b in module.buffers() if b.is_floating_point()]

        def compute_means() -> list[Tensor]:
            self.check_together()
            self.exchange.settle()  # messages may be sent from the memory of the parameters
            if not self.asynchronous and not (self.local is not None and self.local.taken):
                self._check_parameters()
            # added up in single precision at least
            exact = [a.to(torch.promote_types(a.dtype, torch.float32)) for a in (self.flat.read(), *buffers)]
            return [self.world.total(a) / self.world.size for a in exact]

        def write(values: list[Tensor]) -> None:
            self.flat.write(values[0])
            with torch.no_grad():
                for buffer, value in zip(buffers, values[1:], strict=True):
                    buffer.copy_(value)

        means = self.together(compute_means)
        own = [self.flat.read(), *(b.clone() for b in buffers)]
        write(means)
        self._is_averaged = True
        try:
            yield
        finally:
            write(own)
            self._is_averaged = False
            if self.flat.vector is not None:
                self.flat.sign()

    def consensus_error(self) -> float:
        """Return (1/n) Σ_i ‖x_i − x̄‖², as the simulator measures it. All ranks must call it."""

        def measure() -> float:
            self.check_together()
            x = self.flat.read().double()
            apart = (x - self.world.total(x) / self.world.size).square().sum()
            return float(self.world.total(apart) / self.world.size)

        return self.together(measure)

    def together(self, work: Callable[[], Any]) -> Any:
        """Return what the work gives, which all ranks do together; where they are elastic, also after a loss."""
        return work() if self.elastic is None else self.elastic.retry(self, work)

    def finish(self) -> None:
        """Wait until all ranks have come to their end. All must call it.

        Where they are asynchronous they step no more: until the last one comes, those that are here answer their
        neighbours, and the parameters are then as those left them.
        """
        self._check_own()
        if self.asynchronous:
            self._rounds.finish()
            self.flat.write(self._rounds.points[0])
        else:
            self.together(self.exchange.meet if self.elastic is None else lambda: None)

    def check_together(self) -> None:
        """Refuse to go on where ranks differ in how many steps they took, or in lr. All ranks must call it.

        Asynchronous ones may differ: they are waited for until all are here.
        """
        self._check_own()
        if self.asynchronous:
            self.exchange.meet()
            return
        self.flat.check_kinds()
        self.world.agree(
            {
                "number of steps": str(self.guard.step),
                "lr of each parameter group": ", ".join(f"{group['lr']:.12g}" for group in self.param_groups),
                "numbers of the parameters that were frozen": str(sorted(self.flat.frozen_later)),
            }
        )

    def _check_own(self) -> None:
        """Refuse to go on while the parameters are the mean of all ranks."""
        if self._is_averaged:
            raise InputError(
                "inside of average_model the parameters are the mean of all ranks, and not those of this one: step, "
                "save, load and measure after it."
            )

    def _list_facts(self, module: torch.nn.Module | None) -> dict[str, str]:
        """Return what must be the same on all ranks."""
        pairs = zip(self.flat.sizes, self.param_groups, strict=True)
        buffers = [] if module is None else [f"{tuple(b.shape)} of {b.dtype}" for b in module.buffers()]
        plain = (int, float, str, tuple, Tensor)
        own = [] if self.local is None else self.local.optimizer.param_groups
        rows = [[f"{key}={brief(value)}" for key, value in group.items() if isinstance(value, plain)] for group in own]
        return {
            "shapes of the parameters": self.flat.shapes,
            "type of the parameters": str(self.flat.params[0].dtype),
            "buffers of the module": " ".join(buffers) or "none",
            "rule": f"{self.rule.name} with {setting(self.rule)}",
            "parameter groups": ", ".join(
                f"{size} at lr {group['lr']:g} with weight decay {group['weight_decay']:g}" for size, group in pairs
            ),
            "network": fingerprint(self.network),
            "overlap": str(self.overlap),
            "seed": str(self.seed),
            "draws": self.draws,
            "inner optimizer": str(self.local or "none"),
            "options of the inner optimizer": "; ".join(", ".join(row) for row in rows) or "none",
            "choice of on_nonfinite": self.guard.mode,
        }

    def __repr__(self) -> str:
        about = [f"{self.rule!r} on {self.network.name}", f"rank {self.world.rank} of {self.world.size}"]
        about += [] if self.local is None else [f"inner {self.local}"]
        about += [f"{self.flat.size:,} numbers", f"step {self.guard.step}"]
        return f"Decentralized ({'; '.join(about)}\n{super().__repr__().partition(chr(10))[2]}"

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if hasattr(self, "_rounds"):
            raise InputError("give all parameter groups when Decentralized is made: messages have one fixed length.")
        super().add_param_group(param_group)


def network_for(given: Any, size: int) -> "Network":
    """Return the network of this many processes: see `gossamer.networks.of`."""
    from gossamer import networks  # with scipy, which `import gossamer.torch` does without

    network = networks.of(given, size, counted="processes")
    if network.mixer.closes is not None:
        raise InputError(
            f"{network.name} closes its rounds by a clock that is a model, but these processes are late or not by "
            "themselves: run it in the simulator, or leave the deadline out."
        )
    if network.attack is not None:
        raise InputError(
            f"{network.name} has attackers, whom only the simulator plays: run it there, or let a process spoil its "
            "own gradients."
        )
    return network


def _split_groups(params: Iterable[Any], inner: Any, decay: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return parameter groups, each with no more than it may have, and the options of each for the inner optimizer."""
    if isinstance(params, Tensor):
        raise InputError("params must be parameters or groups of them, but is one tensor: give a list, [tensor].")
    if isinstance(params, torch.nn.Module) and not isinstance(params, torch.nn.ParameterList):
        raise InputError("params must be parameters or groups of them, but is a model: give model.parameters().")
    if inner is not None and decay:
        raise InputError(
            "weight_decay cannot stand beside inner=…: the inner optimizer decays the weights, "
            "inner=partial(torch.optim.AdamW, lr=…, weight_decay=…)."
        )
    given = list(params)
    groups = [dict(group) for group in given] if given and isinstance(given[0], dict) else [{"params": given}]
    options = []
    for k, group in enumerate(groups):
        if "params" not in group:
            raise InputError(f'parameter group {k} has no parameters: give them as "params".')
        if "lr" in group:
            check_rate(group["lr"], f"lr of parameter group {k}")
        own = group.pop("inner", {})
        known = {"params", "param_names", "lr"} | (set() if inner else {"weight_decay"})
        others = {key: group.pop(key) for key in sorted(set(group) - known)}
        if others and inner is None:
            raise InputError(
                f"parameter group {k} has {next(iter(others))!r}, which Decentralized does not know: a group has its "
                'own lr and weight_decay, and options of the inner optimizer in a dict, "inner": {"lr": …}; all other '
                "hyper-parameters are the rule's."
            )
        options.append(others | own if isinstance(own, dict) else own)
    return groups, options


def _goes_ahead(overlap: Any, rule: Any, network: "Network") -> bool:
    """Return True to go by the rule's ``ahead``, whose messages may travel while gradients are computed."""
    why = None
    if not hasattr(rule, "ahead"):
        why = f"{rule.name} needs what its neighbours send before it asks for a gradient"
    elif hasattr(rule, "shift") and network.changes and not _is_ours(rule):
        why = f"{network.name} changes, and one message would belong to two rounds"
    elif hasattr(rule, "shift") and network.awake(0) is not None:
        why = f"agents of {network.name} sleep, and {rule.name} would have to be awake in two rounds at once"
    elif any(callable(value) for key, value in vars(rule).items() if key != "eta"):
        why = "a hyper-parameter other than eta is a schedule, and its rounds would be mixed up"
    if overlap and why:
        raise InputError(f"overlap={overlap!r} cannot be: {why}. Leave overlap out.")
    return why is None and (overlap is not False or _is_ours(rule))


def _is_ours(rule: Any) -> bool:
    """Return True for a rule of the library.

    The ``ahead`` of these asks for gradients at the model of its state, and says which rounds its messages belong to.
    """
    return type(rule).__module__.startswith("gossamer.algorithms.")


def _check_arguments(
    timeout: Any, start_timeout: Any, module: Any, overlap: Any, draws: Any, elastic: Any, asynchronous: Any
) -> None:
    """Refuse timeouts, models and switches that are none: a text such as "no" would count as on."""
    for name, value in {"timeout": timeout, "start_timeout": start_timeout}.items():
        if not isinstance(value, (int, float)) or not 0 < value <= LONGEST:
            raise InputError(f"{name} must be a number of seconds above 0, {LONGEST:g} at most, but is {brief(value)}.")
    if module is not None and not isinstance(module, torch.nn.Module):
        raise InputError(f"module must be the model whose buffers rank 0 gives to all, but is {brief(module)}.")
    if draws not in ("torch", "simulator"):
        raise InputError(f'draws must be "torch" or "simulator", but is {draws!r}.')
    if overlap is not None:
        flag("overlap", overlap)
    flag("elastic", elastic)
    flag("asynchronous", asynchronous)


def _check_way(rule: str, points: int, full_wanted: bool, closure: Any, full: Any, local_steps: bool) -> None:
    """Refuse a step that has no way to the gradients that the rule asks for."""
    if local_steps and (points > 1 or full_wanted):
        raise InputError(
            f"{rule} asks for gradients {'over all samples' if full_wanted else f'at {points} points of one batch'}, "
            "which local steps of an inner optimizer cannot give: use a rule that asks at one point, such as BiasedDMT."
        )
    if full_wanted and full is None:
        raise InputError(
            f"{rule} asks for the gradient over all samples of this rank: use optimizer.step(closure, full=…), where "
            "full() does what closure() does, with all samples in place of a batch."
        )
    if points > 1 and not full_wanted and closure is None:
        raise InputError(
            f"{rule} asks for gradients at {points} points of the same batch: use optimizer.step(closure), where "
            "closure() calls zero_grad, computes the loss, calls backward and returns the loss."
        )
