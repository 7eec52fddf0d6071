"""Processes that meet at a store of the test itself, of which some are lost and others join."""

import os
import signal
import time

import numpy as np

from tests.torch_engine import forked, quadratics


class ElasticRanks(forked.Ranks):
    """`function(rank, size, *args)` in so many processes; `start` adds one that joins them."""

    def __init__(self, function, size, *args):
        from gossamer.torch.meeting import kept_at

        self._store, self._address = kept_at("127.0.0.1", 0)
        self._work, self._size, self.pipes, self.processes = (function, args), size, [], []
        for rank in range(size):
            self.start(rank)

    def start(self, rank, joins=False):
        function, args = self._work
        context = forked._context()
        mine, theirs = context.Pipe(duplex=False)
        given = theirs, self._address, joins, function, rank, self._size, args
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


def _main(pipe, address, joins, function, rank, size, args):
    os.environ |= {"GOSSAMER_MEETING": address, "RANK": str(rank), "WORLD_SIZE": str(size)}
    if joins:
        os.environ["GOSSAMER_JOINS"] = "1"
    try:
        result = function(rank, size, *args)
    except BaseException as error:
        result = forked.Failed(error)
    pipe.send(result)
    pipe.close()


def trained(rank, size, rule, network, total, faults, folder=None, timeout=10.0):
    """What this process saw in so many steps.

    Args:
        rank: whose quadratic it is, for good.
        size: how many there are at the start.
        rule: the rule.
        network: the network.
        total: how many steps to take.
        faults: by rank, the step before which it ends and how: a signal, "leave" in the middle of an exchange, or
            seconds to sleep.
        folder: where files appear: who has come how far.
        timeout: of the optimizer.
    """
    from gossamer.torch import Decentralized

    halves, loss = quadratics.model(rank, size)
    optimizer = Decentralized(halves, rule, network, elastic=True, timeout=timeout, start_timeout=60)
    generations, seen = [optimizer.elastic.membership.generation], []
    while optimizer.steps < total:
        step, kind = faults.get(rank, (None, None))
        if folder is not None:
            with open(os.path.join(folder, f"{rank}"), "w") as file:
                file.write(str(optimizer.steps))
        if optimizer.steps == step:
            fail(kind, optimizer)
            faults = {}
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        if optimizer.elastic.membership.generation != generations[-1]:
            generations.append(optimizer.elastic.membership.generation)
            seen.append(standing(optimizer))
    with optimizer.average_model():
        mean = quadratics.joined(halves).copy()
    return {
        "x": quadratics.joined(halves).copy(),
        "mean": mean,
        "steps": optimizer.steps,
        "size": optimizer.world.size,
        "place": optimizer.place,
        "generations": generations,
        "seen": seen,
        "network": optimizer.network.name,
    }


def fail(kind, optimizer):
    """End this process, or hold it up."""
    if kind == "in an exchange":  # one neighbour gets its message, and the others do not
        import torch

        peer = (optimizer.world.rank + 1) % optimizer.world.size
        optimizer.world.group.send([torch.zeros(6, dtype=torch.float64)], peer, optimizer.exchange.tag)
        os.kill(os.getpid(), signal.SIGKILL)
    elif isinstance(kind, float):
        time.sleep(kind)
    else:
        os.kill(os.getpid(), kind)


def standing(optimizer):
    """The round, the steps, and the state from which this process goes on."""
    memory = optimizer.memory
    return memory.t, optimizer.steps, {key: a.clone().numpy() for key, a in memory.state.items()}


def optimum(agents, those):
    """Where Σ f_i is smallest over some of the agents."""
    A, b, E, _ = quadratics.problem(agents)
    some = list(those)
    return np.linalg.solve(A[some].sum(0), np.einsum("nde,ne->d", A[some], b[some]) - E[some].sum(0))
