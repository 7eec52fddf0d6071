"""A plain simulation by events, one agent and one message at a time, for the clock to be compared with."""

import heapq

from gossamer.clocks.rounds import Query, Receive, Reduce, Send


class Plain:
    """Agents that work through their operations; whatever happens is an event in a queue."""

    def __init__(self, agents, times, absences, latency, bandwidth, uplink, neighbours):
        self.agents, self.times, self.absences = agents, times, absences
        self.latency, self.bandwidth, self.uplink, self.neighbours = latency, bandwidth, uplink, neighbours
        self.queue, self.count = [], 0
        self.inbox, self.free = {}, {}
        self.ended, self.computing = {}, set()

    def run(self, programs):
        """When each agent ends each of its programs, lists of operations: [programs][agents]."""
        self.programs = programs
        self.place = [(0, 0)] * self.agents
        self.query = [0] * self.agents
        for agent in range(self.agents):
            self.put(0.0, agent, None)
        while self.queue:
            now, _, agent, message = heapq.heappop(self.queue)
            if message is not None:
                self.inbox[agent, message] = self.inbox.get((agent, message), 0) + 1
                if agent in self.computing or self.waiting(agent) != message:
                    continue
            self.computing.discard(agent)
            self.go_on(now, agent)
        return [[self.ended[p, i] for i in range(self.agents)] for p in range(len(programs))]

    def put(self, time, agent, message):
        self.count += 1
        heapq.heappush(self.queue, (time, self.count, agent, message))

    def waiting(self, agent):
        """The message that an agent waits for, by program and slot, if it does."""
        program, step = self.place[agent]
        if program == len(self.programs) or step == len(self.programs[program]):
            return None
        operation = self.programs[program][step]
        return (program, operation.slot) if isinstance(operation, Receive) else None

    def go_on(self, now, agent):
        """Operations that take no time, up to one that does or must wait."""
        while True:
            program, step = self.place[agent]
            if program == len(self.programs):
                return
            if step == len(self.programs[program]):
                self.ended[program, agent] = now
                self.place[agent] = (program + 1, 0)
                continue
            operation = self.programs[program][step]
            if isinstance(operation, Receive):
                needed = sum(agent in self.neighbours(program, other) for other in range(self.agents))
                if self.inbox.get((agent, (program, operation.slot)), 0) < needed:
                    return
            self.place[agent] = (program, step + 1)
            if isinstance(operation, Send):
                self.send(now, agent, (program, operation.slot), operation.bytes)
            if isinstance(operation, Query):
                piece = self.query[agent]
                took = self.absences[piece][agent] + operation.number * self.times[piece][agent]
                self.query[agent] += 1
                self.put(now + took, agent, None)
                self.computing.add(agent)
                return
            assert not isinstance(operation, Reduce)

    def send(self, now, agent, message, size):
        targets = self.neighbours(message[0], agent)
        for target in targets:
            rate = min(self.bandwidth[agent][target], self.uplink[agent] / len(targets))
            end = max(now, self.free.get((agent, target), 0.0)) + size / rate
            self.free[agent, target] = end
            self.put(end + self.latency[agent][target], target, message)


def ring_all_reduce(ready, size, latency, rate):
    """When each agent of a ring has the sum: a message at a time, in order of time, each at its sender's rate."""
    n = len(ready)
    have, free, done = list(ready), [0.0] * n, [0] * n
    arrived = [[] for _ in range(n)]
    sent = [0] * n
    moved = True
    while moved:
        moved = False
        for i in range(n):
            if sent[i] < 2 * (n - 1) and sent[i] <= done[i]:
                end = max(have[i], free[i]) + size / n / rate[i]
                free[i], sent[i] = end, sent[i] + 1
                arrived[(i + 1) % n].append(end + latency[i][(i + 1) % n])
                moved = True
            while done[i] < sent[i] and arrived[i]:
                have[i], done[i] = max(have[i], arrived[i].pop(0)), done[i] + 1
                moved = True
    return have
