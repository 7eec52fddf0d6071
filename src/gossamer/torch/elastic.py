"""Training that goes on when processes are lost or join: `Decentralized(…, elastic=True)`.

A Lighthouse of torchft, which outlives every process, decides who trains together. Each process sends it heartbeats,
and asks it for a quorum at the start, after a loss, and about once a second before a step. Everyone in a quorum gets
the same answer, with what each participant says about itself, and `decide` makes the same membership of it everywhere:

    ask        for a quorum: a process that is dead or stopped is left out once its heartbeats have ceased
    connect    a process group of gloo, by a store that one member serves until all are connected
    tell       the round, the number of steps and what is trained, by the process group
    copy       a state to those that join, by the process group
    restart    the rule, on the network of the members

If one of these fails, all ask again. What a participant says is signed by the key of the run, so that a stranger who
reaches the Lighthouse is not counted. Nothing that is received is unpickled.
"""

import atexit
import fcntl
import gc
import hashlib
import hmac
import ipaddress
import itertools
import json
import logging
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from operator import attrgetter
from typing import Any
from urllib.parse import urlsplit

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import HashStore, PrefixStore, TCPStore  # pyright: ignore[reportPrivateImportUsage]

from gossamer import networks
from gossamer.algorithms import ALGORITHMS
from gossamer.core import InputError
from gossamer.networks import NETWORKS, Network
from gossamer.networks.compatibility import suits
from gossamer.networks.variants import surviving
from gossamer.torch.exchange import fingerprint
from gossamer.torch.faults import NeighborLost
from gossamer.torch.flat import local
from gossamer.torch.launch import OVER
from gossamer.torch.optimizer import network_for
from gossamer.torch.world import in_short

# The environment. The first three are torchft's: place is this agent's, and 0 agents that begin is to join others only.
LIGHTHOUSE, PLACE, AGENTS = "TORCHFT_LIGHTHOUSE", "REPLICA_GROUP_ID", "NUM_REPLICA_GROUPS"
KEY = "GOSSAMER_RUN_KEY"  # a secret that the processes of a run share

BEAT = 1.0  # seconds between two heartbeats; a Lighthouse counts a process as dead after 3 to 5 s without one
CALM = 3.0
"""Seconds that a Lighthouse must have answered before it is believed that a process is lost: one that has just been
started again knows nobody, and within this time all that live have sent it a heartbeat."""
CALL, AWAY = 1.0, 6.0
"""Seconds between two quorums; and after one with somebody who is not let in, because the next would wait for the end
of that one's heartbeats."""
LOOK = 0.2  # seconds before a quorum that is too small is asked for again
CONNECT, MESH = timedelta(seconds=4), timedelta(seconds=1)
"""How long members wait for each other at the store, and gloo's timeout while it connects them, which it may spend five
times: together they bound for how long a process that cannot connect stalls the others."""
ATTEMPTS = 8  # how often in a row the same members may fail to form a group

LOGGER = logging.getLogger("gossamer.torch")


class NoQuorum(RuntimeError):
    """This process cannot become a member, or the Lighthouse has been away for too long."""


@dataclass(frozen=True)
class Member:
    """A participant of a quorum, as it describes itself."""

    name: str
    host: str
    port: int = 0  # where it serves the store, if it is the one
    place: int = 0  # among the agents; or the one that it would like to have
    generation: int = 0  # of the last group in which it had a state; 0 if it has none
    first: int = 0  # how many agents begin
    size: int = 0  # how many members its last group had
    broken: bool = False  # its group cannot be used any more
    busy: bool = False  # the members do something together before the next step, so that nobody can join
    sure: bool = True  # the Lighthouse has answered for CALM seconds
    pace: float = 0.0  # seconds a step
    failed: tuple[str, ...] = ()  # the members of a group that it could not connect to

    @property
    def loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback

    def sign(self, key: bytes) -> dict[str, str]:
        """Return the description for the others, with a code that needs the key of the run."""
        text = json.dumps(asdict(self))
        return {"member": text, "code": _code(key, text)}

    @classmethod
    def read(cls, name: str, data: Any, key: bytes) -> "Member | None":
        """Return what the participant of this name says about itself; None if it does not have the key of the run."""
        try:
            if not hmac.compare_digest(_code(key, data["member"]), data["code"]):
                return None
            fields = json.loads(data["member"])
            return cls(**fields | {"failed": tuple(fields["failed"])}) if fields["name"] == name else None
        except (TypeError, KeyError, ValueError, AttributeError):
            return None


def _code(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Membership:
    """The members of the next process group, as the participants of a quorum make it."""

    members: tuple[Member, ...] = ()  # by rank, which is the order of their places
    veterans: tuple[int, ...] = ()  # the ranks with the newest state; none where all begin
    generation: int = 0
    refused: tuple[str, ...] = ()  # the names of those that cannot connect to the others
    enough: bool = False  # or else others must be waited for

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]


def decide(participants: Sequence[Member]) -> Membership:
    """Return the group that the participants of a quorum form."""
    newest = max((one.generation for one in participants), default=0)
    veterans = {one.name: one for one in participants if one.generation == newest > 0}
    outside = any(not one.loopback for one in veterans.values() or participants)  # over several machines
    names, refused = {one.name for one in participants}, {one.name for one in participants if one.loopback == outside}
    for veteran in veterans.values():
        if names.issuperset(veteran.failed):  # nobody has vanished since: it failed because of those that were to join
            refused |= set(veteran.failed)
    refused -= veterans.keys()
    # Lighthouse's own shrink_only is this as well, but can end in empty quorums
    is_busy = any(one.busy for one in veterans.values())
    new = [one for one in participants if one.name not in veterans and one.name not in refused and not is_busy]
    order, taken, members = attrgetter("place", "name"), set[int](), list[Member]()
    for one in sorted(veterans.values(), key=order) + sorted(new, key=order):
        # one that joins gets the place that it wants, or else the first that is free
        free = next(place for place in itertools.count() if place not in taken)
        members.append(replace(one, place=free if one.place in taken else one.place))
        taken.add(members[-1].place)
    members.sort(key=lambda one: one.place)
    if veterans:
        known = veterans.values()
        enough = len(known) >= max(one.size for one in known) or all(one.sure for one in known)
    else:
        enough = 0 < max((one.first for one in members), default=0) <= len(members)
    ranks = tuple(rank for rank, one in enumerate(members) if one.name in veterans)
    return Membership(tuple(members), ranks, newest + 1, tuple(refused), enough)


class Elastic:
    """The members of an elastic run, and how an optimizer goes on among them.

    `given` is the network as the user gave it. `start_timeout` is for the last process at the start, to be let in
    later, and for a Lighthouse.
    """

    def __init__(
        self, rule: Any, given: Any, device: torch.device, process_group: Any, start_timeout: float, timeout: float
    ):
        if not hasattr(rule, "restart"):
            able = ", ".join(name for name, kind in ALGORITHMS.items() if hasattr(kind, "restart"))
            raise InputError(
                f"elastic=True needs a rule that says how it goes on after a loss, by restart(self, s), which "
                f"{rule.name} does not. Those that do: {able}."
            )
        if process_group is not None or dist.is_initialized():
            raise InputError(
                "elastic=True forms the process group itself, and again after a loss: leave process_group and "
                "init_process_group out, and make one such optimizer in a process."
            )
        if device.type != "cpu":
            raise InputError(
                f"elastic=True is for parameters on CPUs, whose messages go by gloo, but these are on {device}: a "
                "group of NCCL cannot be left while a message waits for a rank that is gone."
            )
        if os.path.exists(os.environ.get(OVER, "")):  # nobody is left whom a process that was started again could join
            raise SystemExit(0)
        self.rule, self.given, self.fixed = rule, given, _fixed_network(given)
        self.first = self.fixed.agents if self.fixed else 0  # how many agents the first network had
        self.joined = False  # true if this process has joined others on their way
        self.membership, self.generation = Membership(), 0
        """The present group, and the number of the last one in which this process had a state."""
        self._new_client = import_torchft("LighthouseClient")
        self._address, self._host, self._key = _settings()
        self._wanted, self._agents = int(os.environ.get(PLACE, "0")), int(os.environ.get(AGENTS, "1"))
        self._name = f"{self._wanted}-{uuid.uuid4().hex[:12]}"
        self._start, self._longest = start_timeout, max(start_timeout, timeout)
        self._client: Any = None  # of the Lighthouse
        self._server: Any = None  # a store, while a group is formed
        self._socket: Any = None  # bound for a store
        self._pending: Membership | None = None  # the membership of a quorum whose group is not formed yet
        self._last_quorum = (0, set[str]())  # its number, and the names in it
        self._failed, self._outsiders = (), set[str]()  # members that could not connect, and others not let in
        self._facts, self._tensors = {}, []
        self._every, self._left, self._pace = 1, 1, 0.0  # steps between two quorums and until the next; seconds a step
        self._works = 0  # how many works the members have done together
        self._asked = self._answered = time.monotonic()
        self._missed = -CALM  # when the Lighthouse last failed to answer
        self._over = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True, name="gossamer-heartbeat")
        self._heart.start()
        atexit.register(self.close)  # a thread inside of torchft while the interpreter ends would abort the process

    @property
    def rank(self) -> int:
        return self.membership.names.index(self._name)

    @property
    def place(self) -> int:
        """The place of this process among the agents, which stays when others are lost."""
        return self.membership.members[self.rank].place

    def close(self) -> None:
        """End the heartbeats: the others go on without this process."""
        self._over.set()
        self._heart.join()

    def network(self) -> Network:
        """Return the network of the present members."""
        places = [member.place for member in self.membership.members]
        self.first = self.first or len(places)
        if self.fixed is not None:
            if max(places) >= self.fixed.agents:
                raise InputError(
                    f"{self.fixed.name} has {self.fixed.agents} places, all of them taken: no more can join it. Give "
                    "the network by name."
                )
            return surviving(self.fixed, places)
        try:
            return network_for(self.given, len(places))
        except InputError:  # such as a hypercube of three: the first network is cut down
            if max(places) >= self.first or len(places) == self.first:
                raise
            return surviving(networks.of(self.given, self.first), places)

    def start(self) -> None:
        """Form the first group of this process."""
        for attempt in itertools.count(1):
            try:
                return self._form()
            except NeighborLost:
                if attempt == ATTEMPTS:
                    raise

    def begin(self, optimizer: Any, facts: dict[str, str], tensors: Sequence[Tensor]) -> None:
        """Begin with the others, or join those that have a state.

        Args:
            optimizer: the optimizer that begins.
            facts: what all members must agree on.
            tensors: what else than the state those that join are given.
        """
        about = str(self.given) if self.fixed is None else fingerprint(self.fixed)
        self._facts, self._tensors = facts | {"network": about}, [local(a) for a in tensors]
        self.regroup(optimizer, 0)
        optimizer._opt_called = self.joined  # or else a scheduler of PyTorch that catches up would warn

    def listen(self) -> None:
        """Ask for a quorum if it is time, which it is for all in the same step; raise NeighborLost if it is another."""
        self._left -= 1
        if self._left <= 0:
            self._pace = (time.monotonic() - self._asked) / self._every
            self._schedule(self._confirm())

    def retry(self, optimizer: Any, work: Callable[[], Any]) -> Any:
        """Return what the work gives, which all members do together; after a loss, do it once more.

        Nobody returns before all have done it: those that do it once more would else wait for one that is in a step.
        """
        number, result = self._works + 1, None
        while True:
            is_done = False
            try:
                result, is_done = work(), True
                self._confirm(busy=True)
                self._works = number
                return result
            except NeighborLost as lost:
                self.regroup(optimizer, optimizer.steps, lost, busy=True)
                if is_done and self._works >= number:  # another got the quorum, whose answer was lost on its way here
                    return result

    def regroup(self, optimizer: Any, steps: int, lost: NeighborLost | None = None, *, busy: bool = False) -> None:
        """Go on with those that are left and those that join, after so many whole steps.

        Args:
            optimizer: the optimizer that goes on.
            steps: how many steps this rank has ended.
            lost: the reason; None where the group has just been formed.
            busy: True if the members are to do something together before the next step, so that nobody can join.
        """
        failed, before, names = 0, self.membership.members, self.membership.names
        while True:
            try:
                if lost is not None:
                    optimizer.world.leave()
                    self._form(busy=busy)
                    optimizer.world.enter(dist.group.WORLD)
                self._go_on(optimizer, steps)
                if lost is not None or self.joined:
                    self._log(before, lost)
                return
            except NeighborLost as error:
                failed, names = (failed + 1 if names == self.membership.names else 1), self.membership.names
                if failed == ATTEMPTS:
                    raise
                lost = error
            except InputError:
                self.close()
                raise

    def _log(self, before: Sequence[Member], why: NeighborLost | None) -> None:
        now, then = ({one.name: one.place for one in members} for members in (self.membership.members, before))
        what = [f"place {place} was lost" for name, place in then.items() if name not in now]
        what += [f"place {place} joined" for name, place in now.items() if name not in then]
        if self.rank not in self.membership.veterans:
            what = [f"joined as place {self.place}" if self.membership.veterans else "begins"]
        text = ", ".join(what) or f"nobody was lost ({str(why).partition('. ')[0]})"
        LOGGER.warning("generation %d, rank %d of %d: %s", self.membership.generation, self.rank, len(now), text)

    # ---- the process group ------------------------------------------------------------------------------------------

    def _form(self, *, busy: bool = False) -> None:
        """Form the process group of the next quorum."""
        self._server = None
        gc.collect()  # tracebacks of what was lost hold on to groups, with their threads and connections
        self.membership, self._pending = self._pending or self._ask(broken=True, busy=busy), None
        # a process that the others went on without is as good as new
        self.generation = self.membership.generation if self.rank in self.membership.veterans else 0
        names, host = (
            self.membership.names,
            self.membership.members[self.membership.veterans[0] if self.membership.veterans else 0],
        )
        hook, server = sys.excepthook, None
        try:
            if host.name == self._name:  # at this address alone, where PyTorch's own choice is all interfaces
                self._socket.listen(128)
                listener, self._socket = self._socket.detach(), None
                server = TCPStore(
                    self._host, host.port, None, is_master=True, wait_for_workers=False, master_listen_fd=listener
                )
            store = TCPStore(host.host, host.port, None, timeout=CONNECT, wait_for_workers=False)
            store = PrefixStore(_code(self._key, host.name), store)
            store.set(self._name, "")
            store.wait(names, CONNECT)
            dist.init_process_group("gloo", store=store, rank=self.rank, world_size=len(names), timeout=MESH)
        except RuntimeError as error:
            self._failed = tuple(names)
            # PyTorch numbers its groups, puts the number before keys of the store, and begins again only after this
            dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
            dist.destroy_process_group()
            raise NeighborLost(f"{len(names)} members could not form a group ({in_short(error)}).") from error
        finally:
            sys.excepthook = hook  # every group would put one more rank before the lines of an error
        dist.group.WORLD.set_timeout(timedelta(seconds=self._longest))  # pyright: ignore[reportOptionalMemberAccess]
        self._server, self._failed = server, ()  # the store stays until all are connected

    def _go_on(self, optimizer: Any, steps: int) -> None:
        """Give a state to those that join, and restart the rule."""
        veterans = self.membership.veterans or (0,)
        about = {"facts": self._facts, "first": self.first, "steps": steps, "works": self._works}
        about["t"] = optimizer.round if self.generation else -1
        rows = [json.loads(text) for text in optimizer.world.texts(json.dumps(about))]
        self._server = None  # all are connected
        self.first, self._works = rows[veterans[0]]["first"], max(rows[rank]["works"] for rank in veterans)
        facts, rounds = rows[veterans[0]]["facts"], [rows[rank]["t"] for rank in veterans]
        for rank, member in enumerate(self.membership.members):
            differ = [key for key in facts if rows[rank]["facts"].get(key) != facts[key]]
            if rank in veterans or not (differ or (self.fixed and member.place >= self.fixed.agents)):
                continue
            if rank != self.rank:
                raise NeighborLost(f"rank {rank} wanted to join, but is of another run.", (rank,))
            self.network()  # says so where there is no place
            raise InputError(
                f"this process cannot join: its {differ[0]} is {self._facts.get(differ[0])}, but that of the members "
                f"is {facts[differ[0]]}. Start it by the same script with the same arguments."
            )
        network, t = self.network(), max(rounds) if min(rounds) >= 0 else -1
        self.joined = self.joined or (self.rank not in veterans and bool(self.membership.veterans))
        suits(self.rule, network)
        if len(veterans) < optimizer.world.size:
            self._copy_state(optimizer, veterans)
        self.generation = self.membership.generation
        self._schedule(self.membership)
        optimizer._restart(t, max(row["steps"] for row in rows), network)

    def _copy_state(self, optimizer: Any, veterans: Sequence[int]) -> None:
        """Give the state of the first veteran to those that have none."""
        world = optimizer.world
        with torch.no_grad():
            for mine in (*optimizer._rounds.buffers.values(), *self._tensors):
                a = mine.detach().clone(memory_format=torch.contiguous_format)
                world.finish(dist.broadcast(a, veterans[0], async_op=True), "copy of the state")
                if self.rank not in veterans:
                    mine.copy_(a)

    # ---- the Lighthouse ---------------------------------------------------------------------------------------------

    def _confirm(self, *, busy: bool = False) -> Membership:
        """Ask for a quorum; raise NeighborLost if the group must be formed again."""
        membership = self._ask(busy=busy)
        same = membership.names == self.membership.names and membership.generation == self.membership.generation + 1
        if same and not any(member.broken for member in membership.members):
            return membership
        self._pending = membership
        raise NeighborLost("the members regroup, since a process joins or was lost.")

    def _schedule(self, membership: Membership) -> None:
        """Set in how many steps to ask again: by the quorum alone, so that all members do it in the same step."""
        pace = max(member.pace for member in membership.members)
        self._every = self._left = max(1, min(1000, int((AWAY if self._outsiders else CALL) / pace))) if pace else 1
        self._asked = time.monotonic()

    def _ask(self, *, broken: bool = False, busy: bool = False) -> Membership:
        """Return the membership of a quorum that is large enough. A Lighthouse that is away is waited for."""
        began, warned = time.monotonic(), False
        while True:
            now = time.monotonic()
            left = began + self._start - now if not self.generation else 3 * self._longest
            if left <= 0 or now - max(began, self._answered) > self._longest:
                raise NoQuorum(
                    f"the Lighthouse at {self._address} had no quorum for this process within {now - began:.0f} s. It "
                    f"may be away; at the start all {self._agents} agents must come; later the members let one in when "
                    "they step. See what the others say; Decentralized(…, start_timeout=…) waits longer."
                )
            try:
                mine = self._describe(broken=broken, busy=busy).sign(self._key)
                quorum = self._connect().quorum(self._name, timedelta(seconds=left), data=mine)
            except TimeoutError:
                continue
            except RuntimeError as error:
                self._missed = time.monotonic()
                if not warned:
                    LOGGER.warning("waiting for the Lighthouse at %s (%s)", self._address, in_short(error))
                warned = True
                time.sleep(LOOK)
                continue
            found = {one.replica_id: Member.read(one.replica_id, one.data, self._key) for one in quorum.participants}
            (number, names), self._last_quorum = self._last_quorum, (quorum.quorum_id, set(found))
            if number > quorum.quorum_id or (number == quorum.quorum_id and names != set(found)):
                self._missed = time.monotonic()  # it counts from 0 again: it was started anew, and knows nobody yet
                continue
            membership = decide([one for one in found.values() if one is not None])
            if self._name in membership.refused:
                self.close()
                raise NoQuorum(
                    f"this process, at {self._host}, and the members cannot connect to each other. Let {LIGHTHOUSE} be "
                    "an address that all machines reach; with several networks, name the interface by "
                    "GLOO_SOCKET_IFNAME; and see that no firewall is between them."
                )
            if membership.enough and self._name in membership.names:
                others = {name for name, one in found.items() if one is None or name in membership.refused}
                if new := others - self._outsiders:
                    LOGGER.warning("not let in, without the key of the run or a connection: %s", ", ".join(sorted(new)))
                self._outsiders = others
                return membership
            time.sleep(LOOK)

    def _describe(self, **flags: bool) -> Member:
        if self._socket is None:
            self._socket = socket.socket()  # bound, to have a port; it listens only while it serves a store
            self._socket.bind((self._host, 0))
        return Member(
            *(self._name, self._host, self._socket.getsockname()[1]),
            place=self.place if self.generation else self._wanted,
            generation=self.generation,
            first=self._agents,
            size=len(self.membership.members),
            **flags,
            sure=time.monotonic() - self._missed > CALM,
            pace=self._pace,
            failed=self._failed,
        )

    def _connect(self) -> Any:
        if self._client is None:
            self._client = self._new_client(self._address, timedelta(seconds=BEAT))
        return self._client

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            try:
                self._connect().heartbeat(self._name, timedelta(seconds=BEAT))
                self._answered = time.monotonic()
            except (RuntimeError, TimeoutError):  # the Lighthouse is away; the next quorum waits for it
                self._missed = time.monotonic()


def import_torchft(name: str) -> Any:
    """Return a class of torchft.coordination; the error says what to install."""
    os.environ.setdefault("RUST_LOG", "warn")  # read when it is imported: it would log every quorum
    os.environ.setdefault("TOKIO_WORKER_THREADS", "1")
    try:
        from torchft import coordination  # pyright: ignore[reportMissingImports]
    except ImportError as missing:
        raise InputError(
            f"elastic training needs torchft, but {missing.name!r} is not installed. Install it with "
            "`pip install -e '.[elastic]'` in the clone."
        ) from missing
    return getattr(coordination, name)


def _settings() -> tuple[str, str, bytes]:
    """Return the address of the Lighthouse, that of this process, and the key of the run, from the environment."""
    address, key = os.environ.get(LIGHTHOUSE, ""), os.environ.get(KEY, "")
    url = urlsplit(address)
    if not url.hostname or not url.port:
        raise InputError(
            f"elastic=True needs a Lighthouse of torchft, whose address {LIGHTHOUSE} has in the environment, as "
            f"http://host:port, but that is {address!r}: start the script by `gossamer launch --elastic`."
        )
    host = _own_address(url.hostname, url.port)
    if not key and not ipaddress.ip_address(host).is_loopback:
        raise InputError(
            f"an elastic run over several machines needs {KEY} in the environment, a secret that all of its processes "
            "have, such as from `openssl rand -hex 32`: without it anybody who reaches the Lighthouse at "
            f"{address} could join, and be sent the model."
        )
    return address, host, key.encode()


def _own_address(host: str, port: int) -> str:
    """Return the address of this machine by which it reaches the host, and let gloo use its interface.

    An interface that GLOO_SOCKET_IFNAME names is taken instead.
    """
    addresses, named = dict[str, str](), os.environ.get("GLOO_SOCKET_IFNAME", "").partition(",")[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                request = 0xC0206921 if sys.platform == "darwin" else 0x8915  # SIOCGIFADDR
                row = fcntl.ioctl(probe.fileno(), request, name.encode()[:15].ljust(40, b"\0"))
                addresses[name] = socket.inet_ntoa(row[20:24])
            except OSError:  # it has no address
                continue
        if named and named not in addresses:
            raise InputError(f"GLOO_SOCKET_IFNAME is {named!r}, but no interface with an IPv4 address is called that.")
        try:
            probe.connect((host, port))  # sends nothing
        except OSError as error:
            raise InputError(f"this machine has no way to the Lighthouse at {host}:{port}: {error}.") from error
        mine = addresses[named] if named else probe.getsockname()[0]
    for name, address in addresses.items():
        if address == mine:
            os.environ["GLOO_SOCKET_IFNAME"] = named or name
    return mine


def _fixed_network(given: Any) -> Network | None:
    """Return the network that was given as links or a matrix; None where it has a name, for any number of agents."""
    if (isinstance(given, str) and given in NETWORKS) or isinstance(given, dict):
        return None
    if isinstance(given, str):
        network = networks.from_file(given)
    elif isinstance(given, Network):
        network = given
    else:
        network = networks.of(given, given.number_of_nodes() if hasattr(given, "number_of_nodes") else len(given))
    surviving(network_for(network, network.agents), range(network.agents))  # says whether it can lose agents at all
    return network
