"""Images: directories of IDX files (MNIST and its kind), and CIFAR-10's binary version.

Pixels stay bytes, 0 to 255, until a model takes them: `Dataset.divisor` then makes numbers from 0 to 1 of them.

An IDX file has a magic number, the sizes, and the bytes. The magic number is two zero bytes, a byte for the type (8 for
unsigned bytes) and one for how many sizes follow, each of four bytes, the highest first. No more is read than the sizes
say, so that a small file cannot unpack to a large one. A record of CIFAR-10 is a label byte and 3,072 bytes: the red,
green and blue of 32 × 32 pixels.
"""

import gzip
import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from gossamer.basics.sizes import refuse_beyond_memory
from gossamer.core import InputError
from gossamer.data.dataset import Dataset
from gossamer.data.files import SYSTEM, VARIABLE, existing_file, first_file, not_here, own_folders

UNSIGNED_BYTES = 8
GZIP = b"\x1f\x8b"
MOST_SIZES = 4
RATIO = 1100
"""A factor by which gzip cannot shrink anything."""

CIFAR_IMAGE, CIFAR_RECORD, CIFAR_CLASSES = (3, 32, 32), 1 + 3 * 32 * 32, 10

WHITE = 255
GZIPPED = ("", ".gz")
BATCHES = "data_batch_*.bin"
NESTED = "cifar-10-batches-bin"
"""The directory that the archive of CIFAR-10 unpacks to."""

HOLDS = (
    "train-images-idx3-ubyte and train-labels-idx1-ubyte, perhaps with t10k-images-idx3-ubyte and "
    "t10k-labels-idx1-ubyte (each plain or .gz), or data_batch_1.bin and so on of CIFAR-10"
)


def load_fashion_mnist() -> Dataset:
    """Images of clothes: 60,000 + 10,000 rows, 784 features in [0, 1], 10 classes; you bring the files.

    They are 28 × 28 pixels. H. Xiao, K. Rasul and R. Vollgraf, 2017, arXiv 1708.07747.
    """
    way = "On Debian and Ubuntu `apt-get install dataset-fashion-mnist` brings it. Else put"
    return _load_known("fashion-mnist", "H. Xiao et al., 2017, arXiv 1708.07747, MIT licence", way)


def load_mnist() -> Dataset:
    """Handwritten digits: 60,000 + 10,000 rows, 784 features in [0, 1], 10 classes; you bring the files.

    They are 28 × 28 pixels. Y. LeCun, C. Cortes and C. J. C. Burges, 1998.
    """
    return _load_known("mnist", "Y. LeCun, C. Cortes and C. J. C. Burges, 1998", "Put")


def load_cifar_10() -> Dataset:
    """Photographs: 50,000 + 10,000 rows, 3,072 features in [0, 1], 10 classes; you bring the files.

    They are 32 × 32 pixels in three colours. A. Krizhevsky, 2009.
    """
    name = "cifar-10"
    looked = [folder / inner for folder in own_folders() for inner in (name, f"{name}/{NESTED}", NESTED)]
    found = next((folder for folder in looked if any(folder.glob(BATCHES))), None)
    if found is None:
        for folder in looked:
            _refuse_pickles(folder)
        raise not_here(
            name,
            looked,
            f"Unpack its binary version, cifar-10-binary.tar.gz, in a directory that {VARIABLE} names in the "
            "environment, or give the path of what it unpacks to as the data.",
        )
    return _check_known(read_images(found, name, "A. Krizhevsky, 2009"), 50_000, CIFAR_IMAGE)


def _load_known(name: str, source: str, way: str) -> Dataset:
    looked = [folder / name for folder in (*own_folders(), SYSTEM)]
    found = next((folder for folder in looked if _idx(folder, "train-images", 3)), None)
    if found is None:
        raise not_here(
            name,
            looked,
            f"{way} its four files (train-images-idx3-ubyte.gz and so on) into a directory {name} inside one that "
            f"{VARIABLE} names in the environment, or give the path of their directory as the data.",
        )
    return _check_known(read_images(found, name, source), 60_000, (1, 28, 28))


def _check_known(data: Dataset, rows: int, image: tuple[int, int, int]) -> Dataset:
    """Return the data set; raise InputError if it is not the one that its name promises."""
    tested = 0 if data.test_features is None else data.test_features.shape[0]
    if (data.rows, tested, data.image) != (rows, 10_000, image) or len(data.classes) != 10:
        shown = " × ".join(map(str, data.image or ()))
        raise InputError(
            f"{data.source} holds {data.rows:,} + {tested:,} images of {shown} in {len(data.classes)} classes, but "
            f"{data.name} has {rows:,} + 10,000 of {' × '.join(map(str, image))} in 10. Give the path of its directory "
            "as the data if this is what you want."
        )
    return data


def read_images(folder: str | os.PathLike[str], name: str = "", source: str = "") -> Dataset:
    """Read the images in a directory, with those of the test part if there are any."""
    place = Path(os.path.expanduser(folder))
    batches = sorted(place.glob(BATCHES))
    if _idx(place, "train-images", 3):
        (features, labels), test = _labelled(place, "train"), None
        if _idx(place, "t10k-images", 3) or _idx(place, "t10k-labels", 1):
            test = _labelled(place, "t10k")
        image = (1, *features.shape[1:])
    elif batches:
        (features, labels), tested = _read_cifar10(batches), place / "test_batch.bin"
        test = _read_cifar10([tested]) if tested.is_file() else None
        image = CIFAR_IMAGE
    else:
        _refuse_pickles(place)
        raise InputError(f"{folder} is a directory, but not of images: those hold {HOLDS}. Else give one of its files.")
    if test is not None and test[0].shape[1:] != features.shape[1:]:
        sizes = (" × ".join(map(str, part.shape[1:])) for part in (features, test[0]))
        raise InputError(
            f"{folder}: training images are {next(sizes)}, but test images {next(sizes)}. They must agree."
        )
    flat, flat_test = (None if part is None else part.reshape(len(part), -1) for part in (features, test and test[0]))
    origin = f"{source}; files in {place}" if source else f"files in {place}"
    tested_labels = test[1] if test else None
    return Dataset(
        *(name or place.name or str(place), flat, labels, flat_test, tested_labels),
        source=origin,
        divisor=WHITE,
        image=image,
    )


def refuse_one_of_many(file: Path) -> None:
    """Raise InputError for a file that holds only a part of the images and labels."""
    if "-ubyte" in file.name or file.match(BATCHES) or file.name == "test_batch.bin":
        raise InputError(
            f"{file} is one of several files of a data set of images: give their directory, {file.parent}."
        )
    if file.name.endswith((".tar", ".tar.gz", ".tgz", ".zip")):
        raise InputError(f"{file} is an archive: unpack it, and give a file or the directory that comes out.")


def _idx(folder: Path, part: str, sizes: int) -> Path | None:
    return first_file(folder, (f"{part}-idx{sizes}-ubyte", f"{part}.idx{sizes}-ubyte"), GZIPPED)


def _labelled(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    images, labels = (_existing(folder, f"{part}-{what}", sizes) for what, sizes in (("images", 3), ("labels", 1)))
    pixels, classes = read_idx(images), read_idx(labels)
    for file, array, sizes in ((images, pixels, 3), (labels, classes, 1)):
        if array.ndim != sizes:
            raise InputError(
                f"{file} states {array.ndim} sizes, but {file.name} should state {sizes}. Is it another file?"
            )
    if len(pixels) != len(classes):
        raise InputError(
            f"{images} holds {len(pixels):,} images, but {labels} {len(classes):,} labels. They must agree: take both "
            "from the same data set."
        )
    return pixels, classes


def _existing(folder: Path, part: str, sizes: int) -> Path:
    file = _idx(folder, part, sizes)
    if file is None:
        raise InputError(
            f"{folder} has no file {part}-idx{sizes}-ubyte, plain or .gz, beside its images or labels: add it."
        )
    return file


def _refuse_pickles(folder: Path) -> None:
    """Raise InputError if CIFAR-10 is there in Python's version, beside or inside a folder."""
    for place in (folder, folder / "cifar-10-batches-py", folder.parent / "cifar-10-batches-py"):
        if (place / "data_batch_1").is_file() or (place / "batches.meta").is_file():
            raise InputError(
                f"{place} holds the Python version of CIFAR-10: these are pickles, which can run any code when they "
                "are read, so they are not. Take the binary version, cifar-10-binary.tar.gz."
            )


def read_idx(path: str | os.PathLike[str]) -> UInt8[np.ndarray, "..."]:
    """Read the unsigned bytes of an IDX file, gzipped or not, as an array of the shape that it states."""
    file = existing_file(path)
    try:
        with open(file, "rb") as start:
            gzipped = start.read(2) == GZIP
        with gzip.open(file) if gzipped else open(file, "rb") as stream:
            return _read_array(stream, file, RATIO * file.stat().st_size if gzipped else file.stat().st_size)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{file} cannot be read: {error}. It may be cut short: copy or unpack it again.") from None


def _read_array(stream: Any, file: Path, largest: int) -> UInt8[np.ndarray, "..."]:
    """Read the array in a stream that cannot hold more than `largest` bytes."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise InputError(f"{file} is not an IDX file: it begins with {magic.hex(' ') or 'nothing'}, not with 00 00.")
    kind, count = magic[2:]
    if kind != UNSIGNED_BYTES or not 1 <= count <= MOST_SIZES:
        raise InputError(
            f"{file} is an IDX file of the type {kind:#04x} with {count} sizes, but only unsigned bytes (0x08) with 1 "
            f"to {MOST_SIZES} are read."
        )
    header = stream.read(4 * count)
    if len(header) < 4 * count:
        raise InputError(f"{file} is cut short within its {count} sizes: copy or unpack it again.")
    shape = tuple(int.from_bytes(header[at : at + 4], "big") for at in range(0, 4 * count, 4))
    wanted, said = math.prod(shape), " × ".join(f"{size:,}" for size in shape)
    if not wanted:
        raise InputError(f"{file} states the sizes {said}, so it holds nothing.")
    if wanted > largest:
        raise InputError(
            f"{file} states {said} bytes, more than a file of its size can hold: it is cut short or no IDX file."
        )
    refuse_beyond_memory(f"{file} with its {said} bytes", wanted, "use a smaller file")
    values = np.frombuffer(stream.read(wanted), np.uint8).copy()  # so that it can be written
    if values.size < wanted:
        raise InputError(
            f"{file} is cut short: it states {said} = {wanted:,} bytes, but holds {values.size:,}. Copy or unpack it "
            "again."
        )
    if stream.read(1):
        raise InputError(f"{file} holds more than the {said} = {wanted:,} bytes that it states: it is no IDX file.")
    return values.reshape(shape)


def _read_cifar10(files: Sequence[Path]) -> tuple[UInt8[np.ndarray, "rows d"], UInt8[np.ndarray, " rows"]]:
    """Read the images, a row of 3,072 bytes each, and the labels of files in CIFAR-10's binary format."""
    records = np.concatenate([_read_records(existing_file(file)) for file in files])
    return records[:, 1:], records[:, 0]


def _read_records(file: Path) -> UInt8[np.ndarray, "rows record"]:
    size = file.stat().st_size
    if not size or size % CIFAR_RECORD:
        raise InputError(
            f"{file} has {size:,} bytes, which is no whole number of records of {CIFAR_RECORD:,}: it is cut short, or "
            "not of CIFAR-10's binary version. Unpack cifar-10-binary.tar.gz again."
        )
    records = np.fromfile(file, np.uint8).reshape(-1, CIFAR_RECORD)
    wrong = records[:, 0] >= CIFAR_CLASSES
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{file}, record {row} (from 0): the label is {records[row, 0]}, but those of CIFAR-10 are 0 to 9. "
            "CIFAR-100 has two labels in a record, and is not read."
        )
    return records
