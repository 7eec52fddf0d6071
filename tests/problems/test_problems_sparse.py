"""Problems on sparse data are those on the same data as a matrix."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import gossamer as gs
from gossamer.core import InputError
from gossamer.problems import least_squares, logistic, softmax
from gossamer.problems.linear import SMALL_GRAM
from tests import sparse

DRAW = np.random.default_rng(0)
MATRIX: Any = sparse.drawn((60, 300), 0.02, DRAW)
TESTED: Any = sparse.drawn((20, 300), 0.02, DRAW)
LABELS, TEST_LABELS = DRAW.integers(0, 2, 60), DRAW.integers(0, 2, 20)


def test_smoothness_of_many_columns_and_rows_needs_no_square_matrix():
    sizes = 2 * SMALL_GRAM, 3 * SMALL_GRAM
    matrix = sparse.drawn(sizes, 0.003, np.random.default_rng(1))
    problem = least_squares((matrix, DRAW.normal(size=sizes[0])), 1, split="iid")
    largest = np.linalg.norm(matrix.toarray(), 2) ** 2 / sizes[0]
    assert problem.smoothness == pytest.approx(largest, rel=1e-7)


def test_a_run_from_a_libsvm_file_is_the_run_on_the_matrix(tmp_path):
    file = tmp_path / "rows.libsvm"
    sparse.write_libsvm(MATRIX, LABELS, file)
    wide = sp.csr_array((MATRIX.data, MATRIX.indices, MATRIX.indptr), shape=(60, MATRIX.indices.max() + 1))
    finals = []
    for data in (file, (wide.toarray(), LABELS)):
        problem = logistic(data, 3, split="iid")
        result = gs.simulate(
            gs.BiasedDMT(eta=0.5, lam=0.2),
            problem,
            gs.networks.ring(3),
            gs.oracles.minibatch(4),
            steps=20,
            every=20,
            dtype="float64",
        )
        finals.append(result.table["loss"].to_numpy())
    np.testing.assert_allclose(finals[0], finals[1], rtol=1e-12)


def test_the_inputs_of_an_agent_are_there_dense_and_sparse():
    problem = logistic((MATRIX, LABELS), 3, split="iid")
    assert isinstance(problem.sparse_inputs(2), sp.csr_array)
    np.testing.assert_array_equal(problem.sparse_inputs(2).toarray(), problem.own_inputs(2))
    wide = logistic(
        (sp.csr_array(([1.0, 2.0], ([0, 1], [0, 20_000_000])), shape=(60_000, 20_000_001)), np.arange(60_000) % 2), 1
    )
    with pytest.raises(InputError, match=r"60,000 × 20,000,001 inputs of agent 0 needs about .* take sparse_inputs"):
        wide.own_inputs(0)


@pytest.mark.parametrize("kind", [logistic, softmax, least_squares])
def test_a_model_that_is_too_large_is_refused(kind):
    columns = 2**40
    wide = sp.csr_array(([1.0], ([0], [columns - 1])), shape=(4, columns))
    with pytest.raises(InputError, match=r"a model of 1,099,511,627,776 features.* needs about .* of memory"):
        kind((wide, [0, 1, 0, 1]), 2)
