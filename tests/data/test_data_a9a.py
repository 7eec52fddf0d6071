import hashlib
from importlib import resources

import numpy as np
import pytest

from gossamer.data import load_a9a, split
from gossamer.data.datasets import A9A_BLOCKS as BLOCKS


@pytest.mark.parametrize(
    ("part", "sha256"),
    [
        ("", "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
        ("test_", "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9"),
    ],
)
def test_text_is_libsvms_byte_for_byte(part, sha256):
    data, digest = load_a9a(), hashlib.sha256()
    for row, label in zip(getattr(data, f"{part}features"), getattr(data, f"{part}labels"), strict=True):
        ones = "".join(f"{column}:1 " for column in np.flatnonzero(row) + 1)
        digest.update(f"{label:+d} {ones}\n".encode())
    assert digest.hexdigest() == sha256


def test_shape_and_type():
    data = load_a9a()
    assert data.test_features is not None
    assert data.features.shape == (32_561, 123)
    assert data.test_features.shape == (16_281, 123)
    assert data.features.dtype == np.int8
    assert [(data.labels == label).sum() for label in (-1, 1)] == [24_720, 7_841]
    assert data.classes.tolist() == [-1, 1]


def test_each_row_sets_at_most_one_column_of_a_block():
    blocks = np.split(load_a9a().features, np.cumsum(list(BLOCKS.values()))[:-1], axis=1)
    assert max(block.sum(1).max() for block in blocks) == 1


def test_rank_is_108():
    features = load_a9a().features.astype(float)
    assert np.linalg.matrix_rank(features.T @ features, hermitian=True) == 108


def test_sorted_over_20_agents_one_is_mixed():
    data = load_a9a()
    positives = [(data.labels[rows] == 1).mean() for rows in split(data, 20)]
    assert positives[:15] == [0.0] * 15
    assert 0 < positives[15] < 1
    assert positives[16:] == [1.0] * 4


def test_embedded_files_are_small_and_attributed():
    package = resources.files("gossamer.data")
    assert sum(len(package.joinpath(f"a9a.{part}.xz").read_bytes()) for part in ("train", "test")) < 300_000
    notice = package.joinpath("ATTRIBUTION.md").read_text(encoding="utf-8")
    for text in (notice, load_a9a().source):
        assert "10.24432/C5XW20" in text
        assert "CC BY 4.0" in text
