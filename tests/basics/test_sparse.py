"""Sparse matrices whose arrays are damaged, at every door at which one enters."""

import numpy as np
import pytest
import scipy.sparse as sp

import gossamer as gs
from gossamer.basics.sparse import checked
from gossamer.core import InputError
from gossamer.data import Dataset, from_arrays, write_libsvm

DENSE = np.array([[0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5], [0.5, 0.0, 0.5, 0.0], [0.0, 0.5, 0.0, 0.5]])
LABELS = np.array([0, 1, 0, 1])


def damaged(form, **arrays):
    """A matrix of this form, some of whose arrays were replaced after it was made."""
    matrix = sp.csr_array(DENSE).asformat(form)
    for name, array in arrays.items():
        setattr(matrix, name, np.asarray(array))
    return matrix


INDICES, INDPTR = [0, 2, 1, 3, 0, 2, 1, 3], [0, 2, 4, 6, 8]
FAULTS = {
    "a column too large": (damaged("csr", indices=[0, 4, *INDICES[2:]]), "the index 4 in row 0 is not in 0 … 3"),
    "a column far off": (damaged("csr", indices=[*INDICES[:7], 10**6]), "the index 1000000 in row 3 is not in 0 … 3"),
    "a column below 0": (damaged("csr", indices=[*INDICES[:3], -1, *INDICES[4:]]), "the index -1 in row 1 is not in"),
    "no whole columns": (
        damaged("csr", indices=np.array(INDICES) + 0.5),
        "its indices must be a list of whole numbers",
    ),
    "fewer indices": (damaged("csr", indices=INDICES[:6]), "it has 6 indices, but 8 values"),
    "fewer values": (damaged("csr", data=np.ones(5)), "it has 8 indices, but 5 values"),
    "a short indptr": (damaged("csr", indptr=INDPTR[:4]), "its indptr has 4 numbers, but 4 rows need 5"),
    "a late indptr": (damaged("csr", indptr=[1, *INDPTR[1:]]), "its indptr must begin at 0, but begins at 1"),
    "a falling indptr": (damaged("csr", indptr=[0, 6, 4, 6, 8]), "its indptr falls from 6 to 4 at row 1"),
    "an indptr too far": (damaged("csr", indptr=[0, 2, 4, 6, 90]), "its indptr ends at 90, but there are 8 values"),
    "a row of CSC too large": (damaged("csc", indices=[0, 2, 1, 3, 0, 9, 1, 3]), "the index 9 in column 2 is not in"),
    "an indptr of CSC": (damaged("csc", indptr=[0, 9, 4, 6, 8]), "its indptr falls from 9 to 4 at column 1"),
    "a block of BSR": (damaged("bsr", indices=[7] * len(damaged("bsr").indices)), "the index 7 in row 0 is not in 0 …"),
    "a row of COO": (damaged("coo", row=[0, 0, 1, 1, 2, 2, 3, 4]), "the row 4 of entry 7 is not in 0 … 3"),
    "a column of COO": (damaged("coo", col=[-2, *INDICES[1:]]), "the col -2 of entry 0 is not in 0 … 3"),
    "fewer columns of COO": (damaged("coo", col=INDICES[:7]), "its col must be 8 whole numbers, one for each value"),
    "a column of LIL": (damaged("lil"), "the index 50 in row 1 is not in 0 … 3"),
    "values of LIL": (damaged("lil"), "row 1 has 2 columns, but 3 values"),
    "diagonals": (damaged("dia", offsets=[-2, 0, 2, 1]), "it has 4 offsets, but its data have shape"),
}
FAULTS["a column of LIL"][0].rows[1] = [1, 50]  # pyright: ignore[reportAttributeAccessIssue]
FAULTS["values of LIL"][0].data[1] = [1.0, 2.0, 3.0]


@pytest.mark.parametrize("fault", FAULTS)
def test_damage_is_refused_with_its_place(fault):
    matrix, told = FAULTS[fault]
    with pytest.raises(InputError, match=f"features: the sparse matrix is damaged: {told}.* Make it anew from its"):
        from_arrays(matrix, LABELS)


def saved(tmp_path):
    matrix = FAULTS["a column far off"][0]
    parts = {"indices": matrix.indices, "indptr": matrix.indptr, "data": matrix.data}
    np.savez(tmp_path / "w.npz", **parts, format=b"csr", shape=matrix.shape, _is_array=True)
    return tmp_path / "w.npz"


DOORS = {
    "features": lambda bad, _: from_arrays(bad, LABELS),
    "a problem": lambda bad, _: gs.problems.logistic((bad, LABELS), agents=2, split="iid"),
    "a test part": lambda bad, _: from_arrays(sp.csr_array(DENSE), LABELS, test=(bad, LABELS)),
    "a LIBSVM file": lambda bad, path: write_libsvm(bad, LABELS, path / "out"),
    "a mixing matrix": lambda bad, _: gs.networks.from_matrix(bad),
    "a network of a run": lambda bad, _: gs.networks.of(bad, 4),
    "a directed network": lambda bad, _: gs.networks.from_matrices(row=bad),
    "a sequence": lambda bad, _: gs.networks.sequence([bad]),
    "a check": lambda bad, _: gs.networks.check_connected(bad),
    "weights of links": lambda bad, _: gs.networks.metropolis(bad),
    "a file of weights": lambda _, path: gs.networks.from_file(saved(path)),
}


@pytest.mark.parametrize("door", DOORS)
def test_damage_is_refused_at_every_door(door, tmp_path):
    with pytest.raises(InputError, match="damaged: the index 1000000 in row 3 is not in 0 … 3"):
        DOORS[door](FAULTS["a column far off"][0], tmp_path)


def test_features_that_their_owner_changed_later_are_refused_before_a_kernel_reads_them():
    given = sp.csr_array(np.kron(np.eye(40), [[1.0, 0.5]]))
    data = Dataset("changed", given, np.arange(40) % 2)
    data.features.indices.base[3] = 10**6
    with pytest.raises(InputError, match="features: the sparse matrix is damaged: the index 1000000 in row 1 is not"):
        gs.problems.logistic(data, agents=2, split="iid")


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
def test_a_sound_matrix_of_any_form_keeps_its_entries(form):
    np.testing.assert_array_equal(checked(sp.csr_array(DENSE).asformat(form), "it").toarray(), DENSE)


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
