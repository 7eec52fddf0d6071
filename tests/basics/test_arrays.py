"""Sparse matrices whose arrays are damaged, at every door at which one enters."""

import numpy as np
import pytest
import scipy.sparse as sp

import gossamer as gs
from gossamer.basics.arrays import check_sparse
from gossamer.core import InputError
from gossamer.data import Dataset, from_arrays
from tests.table import table

DENSE = np.array([[0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5], [0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5]])
LABELS = np.array([0, 1, 0, 1])
INDICES, INDPTR = [0, 2, 1, 3, 0, 2, 1, 3], [0, 2, 4, 6, 8]


def damaged(form, **arrays):
    """A matrix of this form, some of whose arrays were replaced after it was made."""
    matrix = sp.csr_array(DENSE).asformat(form)
    for name, array in arrays.items():
        setattr(matrix, name, np.asarray(array))
    return matrix


FAR = damaged("csr", indices=[*INDICES[:7], 10**6])
FAULTS = {
    "a column far off": FAR,
    "a column below 0": damaged("csr", indices=[*INDICES[:3], -1, *INDICES[4:]]),
    "fewer indices": damaged("csr", indices=INDICES[:6]),
    "a short indptr": damaged("csr", indptr=INDPTR[:4]),
    "a falling indptr": damaged("csr", indptr=[0, 6, 4, 6, 8]),
    "an indptr too far": damaged("csr", indptr=[0, 2, 4, 6, 90]),
    "a row of CSC too large": damaged("csc", indices=[0, 2, 1, 3, 0, 9, 1, 3]),
    "a block of BSR": damaged("bsr", indices=[7] * len(damaged("bsr").indices)),
}


@table("fault", FAULTS)
def test_damage_is_refused(fault):
    with pytest.raises(InputError, match=r"features: the sparse matrix is damaged: .* Make it anew from its entries"):
        check_sparse(FAULTS[fault], "features")


def write_npz(folder):
    parts = {"indices": FAR.indices, "indptr": FAR.indptr, "data": FAR.data}
    np.savez(folder / "w.npz", **parts, format=b"csr", shape=FAR.shape, _is_array=True)
    return folder / "w.npz"


DOORS = {
    "features": lambda _: from_arrays(FAR, LABELS),
    "a problem": lambda _: gs.problems.logistic((FAR, LABELS), agents=2, split="iid"),
    "a test part": lambda _: from_arrays(sp.csr_array(DENSE), LABELS, test=(FAR, LABELS)),
    "a mixing matrix": lambda _: gs.networks.from_matrix(FAR),
    "a directed network": lambda _: gs.networks.from_matrices(row=FAR),
    "weights of links": lambda _: gs.networks.metropolis(FAR),
    "a file of weights": lambda folder: gs.networks.from_file(write_npz(folder)),
}


@table("door", DOORS)
def test_damage_is_refused_at_every_door(door, tmp_path):
    with pytest.raises(InputError, match="damaged"):
        DOORS[door](tmp_path)


def test_features_that_their_owner_changed_later_are_refused_before_a_kernel_reads_them():
    given = sp.csr_array(np.kron(np.eye(40), [[1.0, 0.5]]))
    data = Dataset("changed", given, np.arange(40) % 2)
    data.features.indices.base[3] = 10**6
    with pytest.raises(InputError, match="features: the sparse matrix is damaged"):
        gs.problems.logistic(data, agents=2, split="iid")


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
def test_a_sound_matrix_of_any_form_keeps_its_entries(form):
    np.testing.assert_array_equal(check_sparse(sp.csr_array(DENSE).asformat(form), "it").toarray(), DENSE)


def test_entries_out_of_order_or_twice_are_put_in_order_whatever_the_matrix_says_of_itself():
    matrix = sp.csr_array(DENSE)
    assert matrix.has_canonical_format  # SciPy keeps this answer
    matrix.indices[:2] = [1, 1]
    matrix.indices[2:4] = [3, 1]
    made = from_arrays(matrix, LABELS).features
    np.testing.assert_array_equal(made.toarray()[:2], [[0, 1, 0, 0], [0, 0.5, 0, 0.5]])
    assert np.array_equal(made.indices[:3], [1, 1, 3])


def test_what_stands_behind_the_last_entry_is_no_part_of_a_matrix():
    matrix = damaged("csr", indices=[*INDICES, 77], data=[*[0.5] * 8, np.nan])
    np.testing.assert_array_equal(from_arrays(matrix, LABELS).features.toarray(), DENSE)
