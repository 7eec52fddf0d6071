"""Oracles: the sources of an agent's gradients, and the stages that make them biased or noisy."""

from collections.abc import Callable

from gossamer.core import Registry
from gossamer.oracles.attacked import AttackedGradients, attack
from gossamer.oracles.biases import (
    AdditiveBias,
    Clip,
    Custom,
    Delay,
    RelativeBias,
    additive_bias,
    clip,
    custom,
    delay,
    relative_bias,
)
from gossamer.oracles.compressed import (
    Compressed,
    ErrorFeedback,
    compressed,
    error_feedback,
    qsgd,
    rand_k,
    round_linf,
    round_to,
    scaled_sign,
    top_k,
)
from gossamer.oracles.constants import COVERED, ErrorBounds
from gossamer.oracles.local import LocalTraining, local_training
from gossamer.oracles.measuring import Measured, drawn_constants, measure
from gossamer.oracles.oracle import Oracle, Privacy, Site, Stage
from gossamer.oracles.private import Private, private
from gossamer.oracles.sampling import Exact, MiniBatch, Saga, completed, exact, minibatch, saga
from gossamer.oracles.zeroth import ZerothOrder, zeroth_order

STAGES: Registry[Callable[..., Stage]] = Registry(
    "kind of oracle stage",
    "gossamer.oracles",
    {
        "additive-bias": additive_bias,
        "relative-bias": relative_bias,
        "clip": clip,
        "top-k": top_k,
        "rand-k": rand_k,
        "scaled-sign": scaled_sign,
        "qsgd": qsgd,
        "round-linf": round_linf,
        "round-step": round_to,
        "zeroth-order": zeroth_order,
        "delay": delay,
        "local-training": local_training,
        "error-feedback": error_feedback,
        "private": private,
        "saga": saga,
        "attack": attack,
    },
)
"""The stages that a spec file can name."""

register = STAGES.register
"""Register a function that returns a stage under a name, so that a spec can name it."""

__all__ = [
    "COVERED",
    "STAGES",
    "AdditiveBias",
    "AttackedGradients",
    "Clip",
    "Compressed",
    "Custom",
    "Delay",
    "ErrorBounds",
    "ErrorFeedback",
    "Exact",
    "LocalTraining",
    "Measured",
    "MiniBatch",
    "Oracle",
    "Privacy",
    "Private",
    "RelativeBias",
    "Saga",
    "Site",
    "Stage",
    "ZerothOrder",
    "additive_bias",
    "attack",
    "clip",
    "completed",
    "compressed",
    "custom",
    "delay",
    "drawn_constants",
    "error_feedback",
    "exact",
    "local_training",
    "measure",
    "minibatch",
    "private",
    "qsgd",
    "rand_k",
    "register",
    "relative_bias",
    "round_linf",
    "round_to",
    "saga",
    "scaled_sign",
    "top_k",
    "zeroth_order",
]
