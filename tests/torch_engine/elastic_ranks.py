"""Processes with a Lighthouse of the test itself, of which some are lost and others join."""

import os
import signal
import time

import numpy as np

from tests.torch_engine import forked, quadratics

ETA, LAM = 0.1, 0.5


HEARTBEAT = 5000
"""Milliseconds without a heartbeat after which the Lighthouse of a test counts a process as dead. With 3,000, on two
cores with five times as many busy processes, one that lived was counted as dead, and waited while another trained."""


def serve(port=0, host="127.0.0.1"):
    """Serve a Lighthouse, and return it with its address."""
    from gossamer.torch.elastic import import_torchft

    server = import_torchft("LighthouseServer")(
        bind=f"{host}:{port}", min_replicas=1, join_timeout_ms=30_000, heartbeat_timeout_ms=HEARTBEAT
    )
    return server, f"http://{host}:{server.address().rpartition(':')[2]}"


class ElasticRanks(forked.Ranks):
    """`function(rank, size, rule, network, **options)` in so many processes; `start` adds one that joins them."""

    def __init__(self, function, size, rule, network, **options):
        self.lighthouse, self.address = serve()
        self._work, self._options = (function, size), {"rule": rule, "network": network} | options
        self.pipes, self.processes = [], []
        for rank in range(size):
            self.start(rank)

    def start(self, rank, env=None, **other):
        """Start a process; `env` is put into its environment."""
        context = forked._context()
        mine, theirs = context.Pipe(duplex=False)
        about = {"TORCHFT_LIGHTHOUSE": self.address, "GOSSAMER_RUN_KEY": "secret", "REPLICA_GROUP_ID": str(rank)}
        about |= {"NUM_REPLICA_GROUPS": str(self._work[1])} | (env or {})
        given = theirs, about, *self._work, rank, self._options | other
        process = context.Process(target=_main, args=given, daemon=True)
        process.start()
        theirs.close()
        self.pipes.append(mine)
        self.processes.append(process)

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join(10)
        self.lighthouse.shutdown()


def _main(pipe, env, function, size, rank, options):
    os.environ.update(env)
    try:
        result = function(rank, size, **options)
    except BaseException as error:
        result = forked.Failed(error)
    pipe.send(result)
    pipe.close()


def trained(rank, size, rule, network, faults, steps, full=0, timeout=20.0, folder=None):
    """What this process saw until so many steps after the last fault, or after there were `full` of them again.

    Args:
        rank: whose quadratic it is, for good.
        size: how many there are at the start.
        rule: the rule.
        network: the network.
        faults: by rank, before which step it ends and how.
        steps: how many steps to take after the last of the `faults`; with `full`, since so many were together.
        full: how many processes there are at the end, where some join.
        timeout: of the optimizer.
        folder: where each process says how far it is.
    """
    from gossamer.torch import Decentralized

    halves, loss = quadratics.model(rank, size)
    optimizer = Decentralized(halves, rule, network, elastic=True, timeout=timeout, start_timeout=60)
    elastic = optimizer.elastic
    seen = [standing(optimizer)]
    last = max((step for step, _ in faults.values()), default=0)

    def again_full():
        return len(elastic.membership.members) == full and (elastic.joined or len(seen) > 1)

    while not again_full() if full else optimizer.steps < last + steps:
        step, kind = faults.get(rank, (None, None))
        if kind and optimizer.steps >= step and not elastic.joined:
            faults = {}
            fail(kind, optimizer)
        if not full and optimizer.steps == last:
            optimizer.consensus_error()
        if elastic.membership.generation == seen[-1]["generation"]:
            stride(optimizer, loss)
        time.sleep(0.005 * bool(full))
        if elastic.membership.generation != seen[-1]["generation"]:
            seen.append(standing(optimizer))
            if folder is not None:
                with open(os.path.join(folder, f"{elastic.membership.generation}-{rank}"), "w") as file:
                    file.write(str(os.getpid()))
    while full and optimizer.steps < seen[-1]["steps"] + steps:
        stride(optimizer, loss)
    optimizer.finish()
    return {"x": quadratics.joined(halves).copy(), "seen": seen, "steps": optimizer.steps, "place": optimizer.place}


def stride(optimizer, loss):
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()


def fail(kind, optimizer):
    """End this process, or stop it."""
    if kind == "in an exchange":  # one neighbour gets its message, and the others do not
        import torch

        peer = (optimizer.world.rank + 1) % optimizer.world.size
        optimizer.world.group.send([torch.zeros(6, dtype=torch.float64)], peer, optimizer.exchange.tag)
        kind = signal.SIGKILL
    os.kill(os.getpid(), kind)


def standing(optimizer):
    """Who goes on, and from where."""
    return {
        "generation": optimizer.elastic.membership.generation,
        "places": [member.place for member in optimizer.elastic.membership.members],
        "t": optimizer.round,
        "steps": optimizer.steps,
        "when": time.monotonic(),
        "state": {key: a.clone().numpy() for key, a in optimizer._rounds.buffers.items()},
        "W": optimizer.network.mixing,
    }


def optimum(agents, those):
    """Where Σ f_i is smallest over some of the agents."""
    A, b, E, _ = quadratics.problem(agents)
    some = list(those)
    return np.linalg.solve(A[some].sum(0), np.einsum("nde,ne->d", A[some], b[some]) - E[some].sum(0))


def walked(agents, those, W, start, steps):
    """Biased-DMT in the phase in which messages overlap gradients, on some of the agents, as a plain loop."""
    A, b, E, _ = quadratics.problem(agents)
    some, (x, m, v) = list(those), start
    for _ in range(steps):
        new = (1 - LAM) * m + LAM * (np.einsum("nde,ne->nd", A[some], x - b[some]) + E[some])
        v, m = W @ v + new - m, new
        x = W @ x - ETA * v
    return x, m, v
