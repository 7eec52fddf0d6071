"""Neural networks: a perceptron and a small convolutional network. Both are smooth, as the theory assumes."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError, brief, whole
from gossamer.data import Dataset
from gossamer.problems.classes import check_classes, cross_entropy, number_classes
from gossamer.problems.empirical import Empirical, Model, arrange, flatten, load_for_problem

Image = tuple[int, int, int]
"""Planes, height and width."""


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
    dataset = load_for_problem(data, split, label, test, scale)
    check_classes("a neural network", dataset)
    widths = [dataset.dim, *hidden, len(dataset.classes)]
    count = sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(widths))
    what = f"a network with hidden = {list(hidden)}, which has {count:,} parameters,"
    refuse_beyond_memory(what, 3 * 8 * count, "lower hidden")  # the layers, the flat vector and a copy
    shapes = list(pairwise(widths))
    start, unravel = _draw_start(shapes, whole("neural(seed=…)", seed, least=0))
    model = Model(unravel, _perceptron_loss, None, _predict_by_perceptron)
    return arrange(model, start, dataset, agents, split, sizes, seed, 1.0, number_classes(dataset))


def cnn(
    data: Any = "digits",
    agents: int | None = None,
    *,
    split: str = "by-label",
    channels: Sequence[int] = (8, 16),
    kernel: int = 3,
    image: Sequence[int] | None = None,
    sizes: str = "equal",
    seed: int = 0,
    label: str = "label",
    test: Any = None,
) -> Empirical:
    """A small convolutional network with cross-entropy loss, for any number of classes.

    Each of `channels` is a layer of so many convolutions with kernels of `kernel` × `kernel` pixels, zeros around the
    image, tanh, and means over squares of 2 × 2 pixels (the last of an odd number is left out). What remains goes
    through one linear layer. `image` is (planes, height, width), of data sets that do not know it; rows hold plane by
    plane. The start is drawn from `seed` (LeCun normal weights, zero offsets). For `data`, `split`, `sizes`, `label`
    and `test` see `logistic`.
    """
    if not isinstance(channels, Sequence) or isinstance(channels, (str, bytes)) or not channels:
        raise InputError(f"channels must be a list of at least one whole number, but is {brief(channels)}.")
    channels = [whole("channels, of each layer,", number) for number in channels]
    if whole("kernel", kernel) % 2 == 0:
        raise InputError(f"kernel must be odd, so that it has a middle pixel, but is {kernel}: take {kernel + 1}.")
    dataset = load_for_problem(data, split, label, test)
    check_classes("a convolutional network", dataset)
    shape = _image(dataset, image)
    sides = [(shape[1] >> depth, shape[2] >> depth) for depth in range(len(channels) + 1)]
    if min(sides[-1]) < 1:
        raise InputError(
            f"channels = {channels} are {len(channels)} layers, each of which halves the image, but one of {shape[1]} "
            f"× {shape[2]} pixels can be halved {int(math.log2(min(shape[1:])))} times only. Use fewer layers."
        )
    planes = [shape[0], *channels]
    shapes: list[tuple[int, ...]] = [(kernel, kernel, *pair) for pair in zip(planes, channels, strict=False)]
    shapes.append((planes[-1] * math.prod(sides[-1]), len(dataset.classes)))
    count = sum(math.prod(each) + each[-1] for each in shapes)
    what = f"a network with channels = {channels}, which has {count:,} parameters,"
    refuse_beyond_memory(what, 3 * 8 * count, "lower channels")  # the layers, the flat vector and a copy
    start, unravel = _draw_start(shapes, whole("cnn(seed=…)", seed, least=0))
    widest = max(math.prod(side) * math.prod(each[:-1]) for side, each in zip(sides, shapes[:-1], strict=False))
    loss, predict = partial(_convolutional_loss, shape), partial(_predict_by_convolutions, shape)
    model = Model(unravel, loss, None, predict, numbers=widest)
    return arrange(model, start, dataset, agents, split, sizes, seed, targets=number_classes(dataset))


def _draw_start(shapes: Sequence[tuple[int, ...]], seed: int) -> Any:
    """Draw LeCun normal weights of these shapes, with zero offsets; return them as `flatten` does."""
    draw = np.random.default_rng(seed)
    params = [(draw.normal(0, 1 / math.sqrt(math.prod(each[:-1])), each), np.zeros(each[-1])) for each in shapes]
    return flatten(params)


def _perceptron_scores(params: Any, inputs: Array) -> Array:
    *layers, (weights, offsets) = params
    h = inputs
    for w, o in layers:
        h = jnp.tanh(h @ w + o)
    return h @ weights + offsets


def _perceptron_loss(params: Any, inputs: Array, targets: Array) -> Array:
    return cross_entropy(_perceptron_scores(params, inputs), targets)


def _predict_by_perceptron(params: Any, inputs: Array) -> Array:
    return jnp.argmax(_perceptron_scores(params, inputs), axis=1)


def _image(dataset: Dataset, given: Sequence[int] | None) -> Image:
    """Return the shape of an image: the one that was given, or else the data set's own."""
    if given is None:
        if dataset.image is None:
            raise InputError(
                f"a convolutional network needs images, but {dataset.name} does not say what its {dataset.dim:,} "
                "features are: give image = [planes, height, width], with 1 plane for grey images and 3 for colours."
            )
        return dataset.image
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)) or len(given) != 3:
        raise InputError(f"image must be [planes, height, width], but is {brief(given)}.")
    planes, height, width = (whole("image, each of its sizes,", size) for size in given)
    if planes * height * width != dataset.dim:
        raise InputError(
            f"image = [{planes}, {height}, {width}] are {planes * height * width:,} pixels, but {dataset.name} has "
            f"{dataset.dim:,} features."
        )
    return planes, height, width


def _convolutional_scores(
    image: Image, params: Any, inputs: Float[Array, "rows pixels"]
) -> Float[Array, "rows classes"]:
    *layers, (weights, offsets) = params
    h = inputs.T.reshape(*image, inputs.shape[0])
    for w, o in layers:
        h = _halve(jnp.tanh(_convolve(h, w) + o[:, None, None, None]))
    return h.reshape(-1, inputs.shape[0]).T @ weights + offsets


def _convolve(
    h: Float[Array, "planes height width rows"], w: Float[Array, "kernel kernel planes channels"]
) -> Float[Array, "channels height width rows"]:
    """Return the convolutions as one product with all patches.

    Agents differ in w, so that XLA's own convolution would have as many groups, which on a CPU takes nine times as long
    (16 agents, batch 32, 28 × 28 pixels). With samples in the last place patches are copied in long pieces.
    """
    size, height, width = w.shape[0], *h.shape[1:3]
    edge = size // 2
    padded = jnp.pad(h, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    across = jnp.concatenate([padded[:, :, at : at + width] for at in range(size)])
    patches = jnp.concatenate([across[:, at : at + height] for at in range(size)])
    product = w.reshape(-1, w.shape[-1]).T @ patches.reshape(patches.shape[0], -1)
    return product.reshape(-1, *h.shape[1:])


def _halve(h: Float[Array, "planes height width rows"]) -> Float[Array, "planes half_height half_width rows"]:
    """Return means over squares of 2 × 2 pixels."""
    planes, height, width, rows = h.shape
    even = h[:, : height // 2 * 2, : width // 2 * 2]
    return even.reshape(planes, height // 2, 2, width // 2, 2, rows).mean((2, 4))


def _convolutional_loss(image: Image, params: Any, inputs: Array, targets: Array) -> Array:
    return cross_entropy(_convolutional_scores(image, params, inputs), targets)


def _predict_by_convolutions(image: Image, params: Any, inputs: Array) -> Array:
    return jnp.argmax(_convolutional_scores(image, params, inputs), axis=1)
