"""Images: directories of IDX files (MNIST and its kind), and CIFAR-10's binary version.

Pixels stay bytes, 0 to 255, until a model takes them: `Dataset.divisor` then makes numbers from 0 to 1 of them.

An IDX file has a magic number, the sizes, and the bytes. The magic number is two zero bytes, a byte for the type (8 for
unsigned bytes) and the number of sizes that follow, each of four bytes, the highest first. A record of CIFAR-10 is a
label byte and 3,072 bytes: the red, green and blue of 32 × 32 pixels.
"""

import gzip
import math
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from gossamer.core import InputError
from gossamer.data.dataset import Dataset
from gossamer.data.files import VARIABLE, dataset_folders, existing_file

UNSIGNED_BYTES = b"\0\0\x08"
GZIP = b"\x1f\x8b"

CIFAR_IMAGE, CIFAR_RECORD, CIFAR_CLASSES = (3, 32, 32), 1 + 3 * 32 * 32, 10

WHITE = 255
BATCHES = "data_batch_*.bin"
HOLDS = (
    "train-images-idx3-ubyte and train-labels-idx1-ubyte, perhaps with t10k-images-idx3-ubyte and "
    "t10k-labels-idx1-ubyte (each plain or .gz), or data_batch_1.bin and so on of CIFAR-10"
)


def load_fashion_mnist() -> Dataset:
    """Images of clothes: 60,000 + 10,000 rows, 784 features in [0, 1], 10 classes; you bring the files.

    They are 28 × 28 pixels. H. Xiao, K. Rasul and R. Vollgraf, 2017, arXiv 1708.07747.
    """
    way = "On Debian and Ubuntu `apt-get install dataset-fashion-mnist` brings it. Else put"
    return _load_mnist("fashion-mnist", "H. Xiao et al., 2017, arXiv 1708.07747, MIT licence", way)


def load_mnist() -> Dataset:
    """Handwritten digits: 60,000 + 10,000 rows, 784 features in [0, 1], 10 classes; you bring the files.

    They are 28 × 28 pixels. Y. LeCun, C. Cortes and C. J. C. Burges, 1998.
    """
    return _load_mnist("mnist", "Y. LeCun, C. Cortes and C. J. C. Burges, 1998", "Put")


def load_cifar_10() -> Dataset:
    """Photographs: 50,000 + 10,000 rows, 3,072 features in [0, 1], 10 classes; you bring the files.

    They are 32 × 32 pixels in three colours. A. Krizhevsky, 2009.
    """
    way = (
        f"Unpack its binary version, cifar-10-binary.tar.gz, move its files into a directory cifar-10 inside one that "
        f"{VARIABLE} names in the environment, or give the path of what it unpacks to as the data."
    )
    return _load_known("cifar-10", "A. Krizhevsky, 2009", way, 50_000, CIFAR_IMAGE)


def _load_mnist(name: str, source: str, way: str) -> Dataset:
    way += (
        f" its four files (train-images-idx3-ubyte.gz and so on) into a directory {name} inside one that {VARIABLE} "
        "names in the environment, or give the path of their directory as the data."
    )
    return _load_known(name, source, way, 60_000, (1, 28, 28))


def _load_known(name: str, source: str, way: str, rows: int, image: tuple[int, int, int]) -> Dataset:
    """Load a data set from the first directory of its name that is there; raise InputError if its size is wrong."""
    looked = dataset_folders(name)
    found = next((folder for folder in looked if folder.is_dir()), None)
    if found is None:
        raise InputError(
            f"{name} does not come with Gossamer, and is not on this machine (looked in: "
            f"{' and '.join(map(str, looked))}). {way}"
        )
    data = read_images(found, name, source)
    tested = 0 if data.test_features is None else data.test_features.shape[0]
    if (data.rows, tested, data.image) != (rows, 10_000, image) or len(data.classes) != 10:
        shown = " × ".join(map(str, data.image or ()))
        raise InputError(
            f"{data.source} holds {data.rows:,} + {tested:,} images of {shown} in {len(data.classes)} classes, but "
            f"{name} has {rows:,} + 10,000 of {' × '.join(map(str, image))} in 10. Give the path of its directory as "
            "the data if this is what you want."
        )
    return data


def read_images(folder: str | os.PathLike[str], name: str = "", source: str = "") -> Dataset:
    """Read the images in a directory, with those of the test part if there are any."""
    place = Path(os.path.expanduser(folder))
    batches = sorted(place.glob(BATCHES))
    test_images = test_labels = None
    if _find_idx(place, "train-images", 3):
        images, labels = _read_part(place, "train")
        image = (1, *images.shape[1:])
        if _find_idx(place, "t10k-images", 3) or _find_idx(place, "t10k-labels", 1):
            test_images, test_labels = _read_part(place, "t10k")
    elif batches:
        image = CIFAR_IMAGE
        images, labels = _read_cifar10(batches)
        if (place / "test_batch.bin").is_file():
            test_images, test_labels = _read_cifar10([place / "test_batch.bin"])
    elif (place / "data_batch_1").is_file():
        raise InputError(
            f"{place} holds the Python version of CIFAR-10: these are pickles, which can run any code when they are "
            "read, so they are not. Take the binary version, cifar-10-binary.tar.gz."
        )
    else:
        raise InputError(f"{folder} is a directory, but not of images: those hold {HOLDS}. Else give one of its files.")
    if test_images is not None and test_images.shape[1:] != images.shape[1:]:
        sizes, test_sizes = (" × ".join(map(str, part.shape[1:])) for part in (images, test_images))
        raise InputError(f"{folder}: training images are {sizes}, but test images {test_sizes}. They must agree.")
    return Dataset(
        name or place.name or str(place),
        images.reshape(len(images), -1),
        labels,
        None if test_images is None else test_images.reshape(len(test_images), -1),
        test_labels,
        source=f"{source}; files in {place}".removeprefix("; "),
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


def _find_idx(folder: Path, part: str, sizes: int) -> Path | None:
    # both spellings are about: train-images-idx3-ubyte and train-images.idx3-ubyte
    names = (f"{part}{mark}idx{sizes}-ubyte{suffix}" for mark in "-." for suffix in ("", ".gz"))
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_part(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Read the images and the labels of the part "train" or "t10k"."""
    arrays = []
    for what, sizes in (("images", 3), ("labels", 1)):
        file = _find_idx(folder, f"{part}-{what}", sizes)
        if file is None:
            raise InputError(f"{folder} has no file {part}-{what}-idx{sizes}-ubyte, plain or .gz: add it.")
        arrays.append(read_idx(file))
        if arrays[-1].ndim != sizes:
            raise InputError(f"{file} should state {sizes} sizes, but states {arrays[-1].ndim}. Is it another file?")
    if len(arrays[0]) != len(arrays[1]):
        raise InputError(
            f"{folder}: {part} has {len(arrays[0]):,} images, but {len(arrays[1]):,} labels. They must agree: take "
            "both from the same data set."
        )
    return arrays[0], arrays[1]


def read_idx(path: str | os.PathLike[str]) -> UInt8[np.ndarray, "..."]:
    """Read the unsigned bytes of an IDX file, gzipped or not, as an array of the shape that it states."""
    file = existing_file(path)
    try:
        content = file.read_bytes()
        if content.startswith(GZIP):  # whatever the file is called
            content = gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{file} cannot be read: {error}. It may be cut short: copy or unpack it again.") from None
    if not content.startswith(UNSIGNED_BYTES) or len(content) < 4:
        begins = content[:4].hex(" ") or "nothing"
        raise InputError(f"{file} is not an IDX file of unsigned bytes: it begins with {begins}, not with 00 00 08.")
    start = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    # the sizes that a file states are not believed before its length agrees
    wanted, found = math.prod(shape), len(content) - start
    if wanted != found or not wanted:
        raise InputError(
            f"{file} states {' × '.join(map(str, shape))} = {wanted:,} bytes, but holds {max(0, found):,}: it is "
            "empty, cut short or no IDX file. Copy or unpack it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _read_cifar10(batches: Sequence[Path]) -> tuple[UInt8[np.ndarray, "rows d"], UInt8[np.ndarray, " rows"]]:
    """Read the images, a row of 3,072 bytes each, and the labels of files in CIFAR-10's binary format."""
    parts = []
    for file in batches:
        content = np.fromfile(file, np.uint8)
        if not content.size or content.size % CIFAR_RECORD:
            raise InputError(
                f"{file} has {content.size:,} bytes, which is no whole number of records of {CIFAR_RECORD:,}: it is "
                "cut short, or not of CIFAR-10's binary version. Unpack cifar-10-binary.tar.gz again."
            )
        parts.append(content.reshape(-1, CIFAR_RECORD))
        if (parts[-1][:, 0] >= CIFAR_CLASSES).any():
            raise InputError(f"{file} has the label {parts[-1][:, 0].max()}, but those of CIFAR-10 are 0 to 9.")
    records = np.concatenate(parts)
    return records[:, 1:], records[:, 0]
