"""Features on one scale: means and deviations are those of the training rows, for both parts."""

import warnings

import numpy as np
import pytest
import scipy.sparse

from gossamer.core import InputError
from gossamer.data import Dataset, from_arrays
from gossamer.data.dataset import standardise
from gossamer.problems import logistic

ROWS = np.random.default_rng(0).normal([40.0, 42_000.0], [15.0, 9_000.0], (50, 2))
FEATURES = np.column_stack([ROWS, np.ones(50)])
LABELS = np.arange(50) % 2


def test_the_test_part_is_scaled_by_the_training_part_and_ones_stay():
    data = standardise(from_arrays(FEATURES[:30], LABELS[:30], test=(FEATURES[30:], LABELS[30:])))
    np.testing.assert_allclose(data.features[:, :2].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(data.features[:, :2].std(0), 1)
    assert (data.features[:, 2] == 1).all()
    assert (data.test_features[:, 2] == 1).all()
    expected = (ROWS[30:] - ROWS[:30].mean(0)) / ROWS[:30].std(0)
    np.testing.assert_allclose(data.test_features[:, :2], expected)


def test_pixels_are_divided_first():
    pixels = np.array([[0, 255], [255, 255], [0, 255]], np.uint8)
    data = standardise(Dataset("pixels", pixels, np.array([0, 1, 0]), divisor=255))
    assert data.divisor == 1
    np.testing.assert_allclose(data.features[:, 1], 1.0)


def test_a_problem_scales_if_asked_and_warns_if_not():
    split = {"agents": 2, "split": "iid"}
    for units in ([1, 1, 1], [0.001, 0.01, 1]):  # large, and uneven
        with pytest.warns(UserWarning, match=r"from .* to .*, so hardly any step size .* scale = true"):
            logistic((FEATURES * units, LABELS), **split)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert logistic((FEATURES, LABELS), scale=True, **split).smoothness < 2
    with pytest.raises(InputError, match="scale must be True or False, but is 1"):
        logistic((FEATURES, LABELS), scale=1, **split)
    with pytest.raises(InputError, match="which is sparse"):
        logistic((scipy.sparse.csr_array(FEATURES), LABELS), scale=True, **split)
