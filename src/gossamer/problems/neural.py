"""Neural networks: a perceptron and a small convolutional network. Both are smooth, as the theory assumes."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Unpack

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError, brief, whole
from gossamer.data.dataset import check_image
from gossamer.problems.classes import check_classes, cross_entropy, number_classes, predict_class
from gossamer.problems.empirical import DataOptions, Empirical, Model, arrange, flatten, load_for_problem, on_data

Image = tuple[int, int, int]
"""Planes, height and width."""


@on_data
def neural(
    data: Any = "digits",
    agents: int | None = None,
    *,
    hidden: Sequence[int] = (32,),
    **options: Unpack[DataOptions],
) -> Empirical:
    """A perceptron with tanh layers of these widths and cross-entropy loss, for any number of classes.

    The start is drawn from `seed` (LeCun normal weights, zero offsets). For `data` and the options see `logistic`.
    """
    if not isinstance(hidden, Sequence) or isinstance(hidden, (str, bytes)):
        raise InputError(f"hidden must be a list of layer widths of at least 1, but is {brief(hidden)}.")
    hidden = [whole("hidden, the width of a layer,", width) for width in hidden]
    dataset = load_for_problem(data, options)
    check_classes("a neural network", dataset)
    shapes = list(pairwise([dataset.dim, *hidden, len(dataset.classes)]))
    start, unravel = _draw_start(shapes, options.get("seed"), "hidden", hidden)
    model = Model(unravel, partial(cross_entropy, _perceptron), None, partial(predict_class, _perceptron))
    return arrange(model, start, dataset, agents, options, 1.0, number_classes(dataset))


@on_data
def cnn(
    data: Any = "digits",
    agents: int | None = None,
    *,
    channels: Sequence[int] = (8, 16),
    kernel: int = 3,
    image: Sequence[int] | None = None,
    **options: Unpack[DataOptions],
) -> Empirical:
    """A small convolutional network with cross-entropy loss, for any number of classes.

    Each of `channels` is a layer of so many convolutions with kernels of `kernel` × `kernel` pixels, zeros around the
    image, tanh, and means over squares of 2 × 2 pixels (the last of an odd number is left out). One linear layer
    follows. `image` is (planes, height, width), for data sets that do not know it; rows hold plane by plane. The start
    is drawn from `seed` (LeCun normal weights, zero offsets). For `data` and the options see `logistic`.
    """
    if not isinstance(channels, Sequence) or isinstance(channels, (str, bytes)) or not channels:
        raise InputError(f"channels must be a list of at least one whole number, but is {brief(channels)}.")
    channels = [whole("channels, of each layer,", number) for number in channels]
    if whole("kernel", kernel) % 2 == 0:
        raise InputError(f"kernel must be odd, so that it has a middle pixel, but is {kernel}: take {kernel + 1}.")
    dataset = load_for_problem(data, options)
    check_classes("a convolutional network", dataset)
    if image is None and dataset.image is None:
        raise InputError(
            f"a convolutional network needs images, but {dataset.name} does not say what its {dataset.dim:,} features "
            "are: give image = [planes, height, width], with 1 plane for grey images and 3 for colours."
        )
    shape = dataset.image if image is None else check_image(image, dataset.name, dataset.dim)
    assert shape is not None
    # each layer halves the image and leaves out an odd row or column
    sides = [(shape[1] >> depth, shape[2] >> depth) for depth in range(len(channels) + 1)]
    if min(sides[-1]) < 1:
        raise InputError(
            f"channels = {channels} are {len(channels)} layers, each of which halves the image, but one of {shape[1]} "
            f"× {shape[2]} pixels can be halved {int(math.log2(min(shape[1:])))} times only. Use fewer layers."
        )
    planes = [shape[0], *channels]
    shapes: list[tuple[int, ...]] = [(kernel, kernel, *pair) for pair in zip(planes, channels, strict=False)]
    shapes.append((planes[-1] * math.prod(sides[-1]), len(dataset.classes)))
    start, unravel = _draw_start(shapes, options.get("seed"), "channels", channels)
    widest = max(math.prod(side) * math.prod(each[:-1]) for side, each in zip(sides, shapes[:-1], strict=False))
    scores = partial(_convolutional, shape)
    model = Model(unravel, partial(cross_entropy, scores), None, partial(predict_class, scores), numbers=widest)
    return arrange(model, start, dataset, agents, options, targets=number_classes(dataset))


def _draw_start(shapes: Sequence[tuple[int, ...]], seed: Any, layers: str, given: list[int]) -> Any:
    """Draw LeCun normal weights of these shapes, with zero offsets; return them as `flatten` does."""
    count = sum(math.prod(each) + each[-1] for each in shapes)
    what = f"a network with {layers} = {given}, which has {count:,} parameters,"
    refuse_beyond_memory(what, 3 * 8 * count, f"lower {layers}")  # the layers, the flat vector and a copy
    draw = np.random.default_rng(whole("seed", seed, least=0))
    params = [(draw.normal(0, 1 / math.sqrt(math.prod(each[:-1])), each), np.zeros(each[-1])) for each in shapes]
    return flatten(params)


def _perceptron(params: Any, inputs: Array) -> Array:
    *layers, (weights, offsets) = params
    h = inputs
    for w, o in layers:
        h = jnp.tanh(h @ w + o)
    return h @ weights + offsets


def _convolutional(image: Image, params: Any, inputs: Float[Array, "rows pixels"]) -> Float[Array, "rows classes"]:
    *layers, (weights, offsets) = params
    h = inputs.T.reshape(*image, inputs.shape[0])
    for w, o in layers:
        h = jnp.tanh(_convolve(h, w) + o[:, None, None, None])
        planes, height, width, rows = h.shape
        even = h[:, : height // 2 * 2, : width // 2 * 2]
        h = even.reshape(planes, height // 2, 2, width // 2, 2, rows).mean((2, 4))  # over squares of 2 × 2 pixels
    return h.reshape(-1, inputs.shape[0]).T @ weights + offsets


def _convolve(
    h: Float[Array, "planes height width rows"], w: Float[Array, "kernel kernel planes channels"]
) -> Float[Array, "channels height width rows"]:
    """Return the convolutions as one product with all patches.

    Agents differ in w, so XLA's own convolution would have a group for each agent, which takes nine times as long on a
    CPU (16 agents, batch 32, 28 × 28 pixels). Samples are the last axis, so that patches are copied in long pieces.
    """
    size, height, width = w.shape[0], *h.shape[1:3]
    edge = size // 2
    padded = jnp.pad(h, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    across = jnp.concatenate([padded[:, :, at : at + width] for at in range(size)])
    patches = jnp.concatenate([across[:, at : at + height] for at in range(size)])
    product = w.reshape(-1, w.shape[-1]).T @ patches.reshape(patches.shape[0], -1)
    return product.reshape(-1, *h.shape[1:])
