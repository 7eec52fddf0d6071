"""Data sets: rows of features with a label each, and perhaps a test part; their checks and their scaling."""

import dataclasses
import functools
import hashlib
import warnings
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Real, Shaped

from gossamer.basics.arrays import check_sparse
from gossamer.core import InputError, brief, whole

Sparse = scipy.sparse.csr_array

Dense = Real[np.ndarray, "rows d"]
Features = Any  # Dense or Sparse: checkers of types know too little of SciPy for a union
Labels = Shaped[np.ndarray, " rows"]

MOST_CLASSES = 20
"""Fractions with more distinct values than this are no classes."""

UNEVEN = 1000.0
"""Features whose standard deviations differ by more than this factor hardly share a step size."""

LARGE = 100.0
"""A feature of a larger standard deviation needs a step size far below the usual ones, which go with its square."""

LOOKED_AT = 2**26
"""Larger arrays of features are not looked at before a warning."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Features ``[rows, d]``, one label a row, an optional test part, and optionally who holds each row.

    Features are an array, or a CSR array of SciPy if they were given sparse or came from a LIBSVM file. They are int8
    when every value, the test part's too, is an integer that fits, uint8 if they were given so, else float64. Labels
    and holders are int64 when they are integers, else float64 (labels only) or strings. The arrays are read-only.
    """

    name: str
    features: Features
    labels: Labels
    test_features: Features | None = None
    test_labels: Labels | None = None
    holders: Labels | None = None
    source: str = ""
    holder: str | None = None
    """The table column that `holders` came from, if any."""
    divisor: int = 1
    """The number by which features that are bytes are divided before a model sees them: 255 of pixels."""
    image: tuple[int, int, int] | None = None
    """The shape of rows that are images, plane by plane: planes (1 of grey ones, 3 of colours), height, width."""

    def __post_init__(self) -> None:
        if (self.test_features is None) != (self.test_labels is None):
            raise InputError("a test part needs both test_features and test_labels, but only one of them was given.")
        parts: dict[str, Any] = {}
        for check, keys in ((matrix, ("features", "test_features")), (values, ("labels", "test_labels", "holders"))):
            parts |= {key: check(getattr(self, key), key) for key in keys if getattr(self, key) is not None}
        for key, other in (("labels", "features"), ("test_labels", "test_features"), ("holders", "features")):
            if key in parts and len(parts[key]) != (rows := parts[other].shape[0]):
                raise InputError(f"{key} has {len(parts[key])} values, but {other} has {rows} rows. They must agree.")
        if "test_features" in parts:
            columns, tested = parts["features"].shape[1], parts["test_features"].shape[1]
            if tested != columns:
                raise InputError(
                    f"test_features has {tested} columns, but features has {columns}. Train and test rows need the "
                    "same columns."
                )
            if (parts["labels"].dtype.kind == "U") != (parts["test_labels"].dtype.kind == "U"):
                raise InputError("labels are numbers in one part and text in the other: use one kind in both.")
            for key in ("features", "labels"):
                parts[key], parts[f"test_{key}"] = _unify(parts[key], parts[f"test_{key}"])
        if "holders" in parts and parts["holders"].dtype.kind == "f":
            raise InputError("holders must be integers or strings, one name for each agent, but are fractions.")
        if whole("divisor", self.divisor) > 1 and parts["features"].dtype != np.uint8:
            raise InputError(
                f"divisor = {self.divisor} is for features that are bytes, but these are {parts['features'].dtype}."
            )
        if self.image is not None:
            object.__setattr__(self, "image", check_image(self.image, self.name, parts["features"].shape[1]))
        for key, array in parts.items():
            object.__setattr__(self, key, _read_only(array))

    def __repr__(self) -> str:
        test = "" if self.test_features is None else f", test_rows={self.test_features.shape[0]}"
        labels = "real labels" if self.continuous else f"classes={len(self.classes)}"
        return f"Dataset({self.name!r}, rows={self.rows}, dim={self.dim}, {labels}{test})"

    @property
    def rows(self) -> int:
        return self.features.shape[0]

    @property
    def dim(self) -> int:
        return self.features.shape[1]

    @functools.cached_property
    def classes(self) -> Shaped[np.ndarray, " classes"]:
        """Return the labels that occur in the training part, sorted."""
        return np.unique(self.labels)

    @functools.cached_property
    def continuous(self) -> bool:
        """True if labels look like the targets of a regression: fractions, and too many distinct ones to be classes.

        Too many are more than `MOST_CLASSES` or, of few rows, more than half as many as there are rows.
        """
        return self.labels.dtype.kind == "f" and len(self.classes) > min(MOST_CLASSES, max(2, self.rows // 2))

    @functools.cached_property
    def sha256(self) -> str:
        """Return the hex digest of every array's type, shape and numbers, and of the divisor.

        Of sparse features the places and values of their non-zeros count. Names and sources do not.
        """
        digest = hashlib.sha256(b"" if self.divisor == 1 else f"divisor {self.divisor}\n".encode())
        for key in ("features", "labels", "test_features", "test_labels", "holders"):
            array = getattr(self, key)
            if array is None:
                digest.update(f"{key} none\n".encode())
                continue
            digest.update(f"{key} {array.dtype.newbyteorder('<').str} {array.shape}\n".encode())
            parts = [array]
            if isinstance(array, Sparse):  # in 64 bits, since SciPy chooses the type of indices by their number
                parts = [array.indptr.astype(np.int64), array.indices.astype(np.int64), array.data]
            for part in parts:
                digest.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).view(np.uint8).data)
        return digest.hexdigest()


def from_arrays(features: Any, labels: Any, test: Any = None, holders: Any = None, name: str = "arrays") -> Dataset:
    """Return the data set of array-likes or SciPy's sparse matrices; `test` is a pair (features, labels)."""
    test_features, test_labels = (None, None) if test is None else pair(test, "test")
    return Dataset(name, features, labels, test_features, test_labels, holders, source="arrays given by the caller")


def pair(value: Any, where: str) -> tuple[Any, Any]:
    """Return the two members of a pair (features, labels)."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InputError(f"{where} must be a pair (features, labels), but is {type(value).__name__}.")
    return value[0], value[1]


def matrix(given: Any, what: str) -> Features:
    """Return a finite, non-empty matrix in the smallest type that holds it exactly.

    A sparse matrix stays sparse, as a CSR array with columns in order, each once, and no zero stored.
    """
    sparse = scipy.sparse.issparse(given)
    try:
        array: Any = given if sparse else np.asarray(given)
        if array.dtype.kind in "OSU":
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be a matrix of numbers [rows, d]: {error}.") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} must be a matrix of numbers [rows, d], but its type is {array.dtype}.")
    if array.ndim != 2:
        raise InputError(f"{what} must be a matrix [rows, d], but has shape {array.shape}.")
    if 0 in array.shape:
        raise InputError(f"{what} needs at least one row and one column, but has shape {array.shape}.")
    if sparse:
        array = check_sparse(array, what)
        if not array.has_canonical_format or not array.data.all():
            array = array.copy()  # the caller's matrix stays as it is
            array.sum_duplicates()
            array.eliminate_zeros()
    return _shrink(array, array.data if sparse else array, what)


def _shrink(array: Any, numbers: Any, what: str) -> Features:
    """Return a matrix in the smallest type that holds its numbers exactly; raise InputError if one is not finite."""
    if numbers.dtype.kind == "f" and not (finite := np.isfinite(numbers)).all():
        at = int(np.argmin(finite))
        if numbers is array:
            row, column = np.unravel_index(at, array.shape)
        else:
            row, column = np.searchsorted(array.indptr, at, side="right") - 1, array.indices[at]
        raise InputError(
            f"{what}: row {row}, column {column} (from 0) is {numbers.flat[at]}. Drop the row or fill in a number."
        )
    if array.dtype == np.uint8 and numbers is array:
        return array  # pixels, which as numbers would take eight times the memory
    return array.astype(np.int8 if fits_int8(numbers) else np.float64, copy=False)


def values(given: Any, what: str) -> Labels:
    """Return one value for each row: int64 if all are integers, else float64 or strings."""
    array = np.asarray(given)
    if array.ndim != 1:
        raise InputError(f"{what} must be one value for each row, but has shape {array.shape}.")
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
        array = array.astype(str)
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind in "biu":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind != "f":
        raise InputError(f"{what} must all be numbers or all be strings, but are {array.dtype}.")
    finite = np.isfinite(array)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InputError(f"{what}: row {row} (from 0) is {array[row]}. Drop the row or fill in a value.")
    whole = np.abs(array).max(initial=0) < 2**53 and (array == np.rint(array)).all()
    return array.astype(np.int64 if whole else np.float64, copy=False)


def fits_int8(array: np.ndarray) -> bool:
    """Return True if every value is an integer from −128 to 127."""
    if array.dtype in (np.int8, np.bool_) or not array.size:
        return True
    if not -128 <= array.min() <= array.max() <= 127:
        return False
    return array.dtype.kind in "iu" or bool((array == array.astype(np.int8)).all())


def check_image(given: Any, name: str, features: int) -> tuple[int, int, int]:
    """Return the planes, height and width of an image; raise InputError if they are not so many pixels."""
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        raise InputError(f"image must be (planes, height, width), but is {brief(given)}.")
    planes, height, width = (whole("image, each of its sizes,", size) for size in given)
    if planes * height * width != features:
        raise InputError(
            f"image = ({planes}, {height}, {width}) is {planes * height * width:,} pixels, but {name} has {features:,} "
            "features."
        )
    return planes, height, width


def _unify(train: Any, test: Any) -> tuple[Any, Any]:
    """Return both arrays in one type, and both sparse if one of them is."""
    # one program evaluates both parts, so that they need one form and type
    if isinstance(train, Sparse) != isinstance(test, Sparse):
        train, test = Sparse(train), Sparse(test)
    if train.dtype.kind == "U":
        return train, test
    wide = np.promote_types(train.dtype, test.dtype)
    return train.astype(wide, copy=False), test.astype(wide, copy=False)


def _read_only(array: Any) -> Any:
    """Return a view that cannot be written; the caller's own array stays writable."""
    if isinstance(array, Sparse):
        parts = tuple(_read_only(part) for part in (array.data, array.indices, array.indptr))
        sealed = Sparse(parts, shape=array.shape)
        sealed.has_canonical_format = True  # so that no user of it sorts arrays that cannot be written
        return sealed
    view = array.view()
    view.flags.writeable = False
    return view


def standardise(data: Dataset) -> Dataset:
    """Return the data with each feature less its mean, divided by its standard deviation, both over the training rows.

    A constant feature, such as a column of ones, stays as it is. The test part is scaled by the same numbers.
    """
    if isinstance(data.features, Sparse):
        raise InputError(f"scale = true would fill the zeros of {data.name}, which is sparse. Scale it before, or not.")
    features = data.features / data.divisor
    mean, spread = features.mean(0), features.std(0)
    mean, spread = np.where(spread > 0, mean, 0.0), np.where(spread > 0, spread, 1.0)
    tested = None if data.test_features is None else (data.test_features / data.divisor - mean) / spread
    return dataclasses.replace(data, features=(features - mean) / spread, test_features=tested, divisor=1)


def warn_of_uneven(data: Dataset) -> None:
    """Warn if features differ in scale so much, or are so large, that no usual step size suits them."""
    features = data.features
    if isinstance(features, Sparse) or features.dtype != np.float64 or features.size > LOOKED_AT:
        return
    spreads = features.std(0)
    spreads = spreads[spreads > 0]
    if spreads.size and spreads.max() > min(LARGE, UNEVEN * spreads.min()):
        warnings.warn(
            f"the features of {data.name} have standard deviations from {spreads.min():.3g} to {spreads.max():.3g}, so "
            "hardly any step size suits them all. scale = true in the problem brings each to mean 0 and deviation 1.",
            stacklevel=4,
        )
