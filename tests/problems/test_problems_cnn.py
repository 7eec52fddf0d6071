"""The shipped convolutional network, against PyTorch's convolutions."""

import math

import numpy as np
import pytest
import torch

import gossamer as gs
from gossamer.problems import cnn
from tests.table import table

RNG = np.random.default_rng(0)
LABELS = np.repeat([3, 5, 9], 6)


def images(planes, height, width):
    return gs.data.Dataset(
        "images", RNG.normal(size=(18, planes * height * width)), LABELS, image=(planes, height, width)
    )


def scores(x, inputs, image, channels, kernel, classes):
    """What the network gives, by PyTorch."""
    h = torch.tensor(np.asarray(inputs)).reshape(-1, *image)
    planes = image[0]
    for count in channels:
        shape = (kernel, kernel, planes, count)
        w, o, x = torch.split(x, [math.prod(shape), count, len(x) - math.prod(shape) - count])
        h = torch.nn.functional.conv2d(h, w.reshape(shape).permute(3, 2, 0, 1), o, padding=kernel // 2)
        h, planes = torch.nn.functional.avg_pool2d(torch.tanh(h), 2), count
    h = h.flatten(1)
    assert len(x) == (h.shape[1] + 1) * classes
    return h @ x[:-classes].reshape(-1, classes) + x[-classes:]


@pytest.mark.parametrize(("image", "channels", "kernel"), [((1, 6, 7), (2,), 3), ((3, 5, 4), (3, 2), 5)])
def test_loss_and_gradients_are_those_of_pytorch(image, channels, kernel):
    """One plane and several, odd sides, and kernels wider than what is left of the image."""
    problem = cnn(images(*image), 3, channels=channels, kernel=kernel)
    x = torch.tensor(RNG.normal(size=problem.dim), requires_grad=True)
    parts = [(problem.own_inputs(agent), torch.tensor(problem.own_targets(agent)).long()) for agent in range(3)]
    losses = [torch.nn.functional.cross_entropy(scores(x, a, image, channels, kernel, 3), y) for a, y in parts]
    point = x.detach().numpy()
    assert problem.loss(point) == pytest.approx(sum(loss.item() for loss in losses) / 3, rel=1e-12)
    slopes = [torch.autograd.grad(loss, x)[0].numpy() for loss in losses]
    np.testing.assert_allclose(problem.gradients(point), slopes, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(problem.gradient(point), np.mean(slopes, 0), rtol=1e-10, atol=1e-13)


def test_digits_learn_and_accuracy_is_the_share_that_pytorch_predicts_right():
    """Eight by eight pixels go through two layers; all rows are summed in blocks, of which the last is not full."""
    problem = cnn("digits", 4, split="iid", channels=(4, 6))
    assert problem.dim == 9 * 4 + 4 + 9 * 4 * 6 + 6 + 4 * 6 * 10 + 10
    assert problem.loss(problem.start) == pytest.approx(np.log(10), abs=1)
    x = problem.start
    for _ in range(25):
        x = x - problem.gradient(x)
    for point in (problem.start, x):
        given = scores(torch.tensor(point), problem.test_inputs, (1, 8, 8), (4, 6), 3, 10)
        right = given.numpy().argmax(1) == problem.test_targets
        assert problem.accuracy(point) == pytest.approx(right.mean())
    assert problem.accuracy(x) > 0.5


def test_start_has_lecun_weights_and_zero_offsets():
    """The sample deviation of 5 · 5 · 4 · 300 normal numbers is within 3 % but for a chance of about 3e-13."""
    problem = cnn(images(4, 2, 2), 3, channels=(300,), kernel=5)
    (w, o), (_, last) = problem.params(problem.start)
    assert np.std(w) == pytest.approx(1 / 10, rel=0.03)
    assert not np.any(o)
    assert not np.any(last)
    again = cnn(images(4, 2, 2), 3, channels=(300,), kernel=5)
    np.testing.assert_array_equal(problem.start, again.start)


@table(
    ("options", "message"),
    [
        ({"channels": ()}, "channels must be a list of at least one"),
        ({"channels": 8}, "channels must be a list of at least one whole number, but is 8"),
        ({"channels": (0,)}, "channels, of each layer, must be a whole number of at least 1, but is 0"),
        ({"kernel": 4}, "kernel must be odd, .* but is 4: take 5"),
        ({"channels": (2, 2, 2)}, "3 layers, .* 6 × 7 pixels can be halved 2 times only. Use fewer layers"),
        ({"image": (1, 7, 7)}, r"image = \(1, 7, 7\) is 49 pixels, but images has 42 features"),
        ({"image": (6, 7)}, r"image must be \(planes, height, width\), but is \(6, 7\)"),
        ({"image": (1, 0, 7)}, "image, each of its sizes, must be a whole number of at least 1"),
    ],
)
def test_refuses(options, message):
    with pytest.raises(gs.InputError, match=message):
        cnn(images(1, 6, 7), 3, **options)


def test_rows_that_are_no_images_need_their_shape():
    rows = RNG.normal(size=(18, 42)), LABELS
    with pytest.raises(gs.InputError, match=r"does not say what its 42 features are: give image = \[planes"):
        cnn(rows, 3)
    assert cnn(rows, 3, image=[1, 6, 7], channels=[2]).dim == cnn(images(1, 6, 7), 3, channels=(2,)).dim
