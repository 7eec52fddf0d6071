"""A small neural network: the shipped example of a loss over a pytree of parameters."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError, brief, whole
from gossamer.data import Dataset
from gossamer.problems.classes import check_classes, cross_entropy, numbering
from gossamer.problems.empirical import Empirical, empirical
from gossamer.problems.loading import loaded

MOST_PARAMETERS = 50_000_000
"""The most numbers that one agent's model may have."""


def neural(
    data: Any = "digits",
    agents: int | None = None,
    *,
    split: str = "by-label",
    hidden: Sequence[int] = (32,),
    sizes: str = "equal",
    seed: int = 0,
    label: str = "label",
    test: Any = None,
    scale: bool = False,
) -> Empirical:
    """A perceptron with tanh layers of these widths and cross-entropy loss, for any number of classes.

    The start is drawn from `seed` (LeCun normal weights, zero offsets). For `data`, `split`, `sizes`, `label`,
    `test` and `scale` see `logistic`.
    """
    if not isinstance(hidden, Sequence) or isinstance(hidden, (str, bytes)):
        raise InputError(f"hidden must be a list of layer widths of at least 1, but is {brief(hidden)}.")
    hidden = [whole("hidden, the width of a layer,", width) for width in hidden]
    dataset = loaded(data, split, label, test, scale)
    check_classes("a neural network", dataset)
    widths = [dataset.dim, *hidden, len(dataset.classes)]
    count = sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(widths))
    what = f"a network with hidden = {list(hidden)}, which has {count:,} parameters,"
    refuse_beyond_memory(what, 3 * 8 * count, "lower hidden")  # the layers, the flat vector and a copy
    draw = np.random.default_rng(whole("neural(seed=…)", seed, least=0))
    params = [
        (draw.normal(0, 1 / np.sqrt(fan_in), (fan_in, fan_out)), np.zeros(fan_out))
        for fan_in, fan_out in pairwise(widths)
    ]
    return empirical(
        _cross_entropy, params, _numbered(dataset), agents, split=split, sizes=sizes, seed=seed, predict=_predict
    )


def _numbered(dataset: Dataset) -> Dataset:
    """The same with its classes as 0, 1, …"""
    number = numbering(dataset)
    tested = None if dataset.test_labels is None else number(dataset.test_labels)
    return replace(dataset, labels=number(dataset.labels), test_labels=tested)


def _scores(params: Any, inputs: Array) -> Array:
    *layers, (weights, offsets) = params
    h = inputs
    for w, o in layers:
        h = jnp.tanh(h @ w + o)
    return h @ weights + offsets


def _cross_entropy(params: Any, inputs: Array, targets: Array) -> Array:
    return cross_entropy(_scores(params, inputs), targets)


def _predict(params: Any, inputs: Array) -> Array:
    return jnp.argmax(_scores(params, inputs), axis=1)
