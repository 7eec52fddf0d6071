"""Biased-DMT in PyTorch, all agents in one batch, gradients by autograd: what a user of PyTorch would write.

The models of all agents lie in one tensor, ``[agents, d]``; the loss is the sum of the agents' losses, so that one
backward pass gives every agent its own gradient.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.task import ETA, LAM, Task

Loss = Callable[[Any, Any, Any], Any]
"""Of the models, the rows' features, ``[agents, batch, …]``, and their targets: the sum over agents of their means."""


class TorchLoop:
    """A run; `advance` takes it some rounds on. A tape ``[queries, agents, batch]`` replaces the random rows."""

    def __init__(self, task: Task, loss: Loss, dtype: str = "float32", tape: np.ndarray | None = None):
        problem = task.problem
        self.loss, self.batch = loss, task.batch
        self.dtype = getattr(torch, dtype)
        features = np.asarray(problem.inputs)
        kept_as = torch.int8 if features.dtype == np.int8 else self.dtype
        self.features = torch.as_tensor(features).to(kept_as)
        self.targets = torch.as_tensor(np.asarray(problem.targets)).long()
        self.first = torch.as_tensor(np.asarray(problem.offsets)).long()[:, None]
        self.sizes = torch.as_tensor(np.asarray(problem.sizes))[:, None]
        self.W = torch.as_tensor(task.network.mixing, dtype=self.dtype)
        self.tape, self.queries = None if tape is None else torch.as_tensor(tape).long(), 0
        self.random = torch.Generator().manual_seed(0)
        self.x = torch.as_tensor(np.tile(problem.start, (problem.agents, 1)), dtype=self.dtype)
        self.m = self._gradient(self.x)
        self.v = self.m.clone()

    @torch.no_grad()
    def advance(self, rounds: int) -> None:
        for _ in range(rounds):
            x = torch.addmm(self.v, self.W, self.x, beta=-ETA)
            m = torch.lerp(self.m, self._gradient(x), LAM)
            self.v = torch.addmm(m - self.m, self.W, self.v)
            self.x, self.m = x, m

    def _gradient(self, x: Any) -> Any:
        rows = self.first + self._draw()
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            total = self.loss(x, self.features[rows].to(self.dtype), self.targets[rows])
            (gradient,) = torch.autograd.grad(total, x)
        return gradient

    def _draw(self) -> Any:
        if self.tape is not None:
            self.queries += 1
            return self.tape[self.queries - 1]
        uniform = torch.rand(len(self.sizes), self.batch, generator=self.random)
        return (uniform * self.sizes).long()


def logistic(alpha: float) -> Loss:
    """The loss of `gossamer.problems.logistic`."""

    def loss(x: Any, features: Any, targets: Any) -> Any:
        z = torch.bmm(features, x[:, :, None])[:, :, 0]
        fit = torch.nn.functional.softplus(-targets * z).mean(1).sum()
        return fit + alpha * (x**2 / (1 + x**2)).sum()

    return loss


def perceptron(inputs: int, hidden: int, classes: int) -> Loss:
    """The loss of `gossamer.problems.neural` with one hidden layer."""
    shapes = [(inputs, hidden), (1, hidden), (hidden, classes), (1, classes)]
    sizes = [rows * columns for rows, columns in shapes]

    def loss(x: Any, features: Any, targets: Any) -> Any:
        pieces = x.split(sizes, dim=1)
        w, o, weights, offsets = (piece.view(-1, *shape) for piece, shape in zip(pieces, shapes, strict=True))
        scores = torch.baddbmm(offsets, torch.tanh(torch.baddbmm(o, features, w)), weights)
        each = torch.nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")
        return each / targets.shape[1]

    return loss
