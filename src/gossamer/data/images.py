"""Directories of images: MNIST and its kind in IDX files, and CIFAR-10's binary version.

Pixels stay bytes, 0 to 255, until a model takes them: `Dataset.divisor` then makes numbers from 0 to 1 of them.
"""

import os
from pathlib import Path

import numpy as np

from gossamer.core import InputError
from gossamer.data import cifar
from gossamer.data.dataset import Dataset
from gossamer.data.files import SYSTEM, VARIABLE, first_file, not_here, own_folders
from gossamer.data.idx import read_idx

WHITE = 255
GZIPPED = ("", ".gz")
BATCHES = "data_batch_*.bin"
NESTED = "cifar-10-batches-bin"
"""What the archive of CIFAR-10 unpacks to."""

HOLDS = (
    "train-images-idx3-ubyte and train-labels-idx1-ubyte, perhaps with t10k-images-idx3-ubyte and "
    "t10k-labels-idx1-ubyte (each plain or .gz), or data_batch_1.bin and so on of CIFAR-10"
)


def load_fashion_mnist() -> Dataset:
    """Images of clothes: 60,000 + 10,000 rows, 784 features in [0, 1], 10 classes; you bring the files.

    They are 28 × 28 pixels. H. Xiao, K. Rasul and R. Vollgraf, 2017, arXiv 1708.07747.
    """
    way = "On Debian and Ubuntu `apt-get install dataset-fashion-mnist` brings it. Else put"
    return _known("fashion-mnist", "H. Xiao et al., 2017, arXiv 1708.07747, MIT licence", way)


def load_mnist() -> Dataset:
    """Handwritten digits: 60,000 + 10,000 rows, 784 features in [0, 1], 10 classes; you bring the files.

    They are 28 × 28 pixels. Y. LeCun, C. Cortes and C. J. C. Burges, 1998.
    """
    return _known("mnist", "Y. LeCun, C. Cortes and C. J. C. Burges, 1998", "Put")


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
    return _whole(read_images(found, name, "A. Krizhevsky, 2009"), 50_000, cifar.IMAGE)


def _known(name: str, source: str, way: str) -> Dataset:
    looked = [folder / name for folder in (*own_folders(), SYSTEM)]
    found = next((folder for folder in looked if _idx(folder, "train-images", 3)), None)
    if found is None:
        raise not_here(
            name,
            looked,
            f"{way} its four files (train-images-idx3-ubyte.gz and so on) into a directory {name} inside one that "
            f"{VARIABLE} names in the environment, or give the path of their directory as the data.",
        )
    return _whole(read_images(found, name, source), 60_000, (1, 28, 28))


def _whole(data: Dataset, rows: int, image: tuple[int, int, int]) -> Dataset:
    """The data set, if it is the one that its name promises."""
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
    """The images in a directory, with those of the test part if there are any."""
    place = Path(os.path.expanduser(folder))
    batches = sorted(place.glob(BATCHES))
    if _idx(place, "train-images", 3):
        (features, labels), test = _labelled(place, "train"), None
        if _idx(place, "t10k-images", 3) or _idx(place, "t10k-labels", 1):
            test = _labelled(place, "t10k")
        image = (1, *features.shape[1:])
    elif batches:
        (features, labels), tested = cifar.read_cifar10(batches), place / "test_batch.bin"
        test = cifar.read_cifar10([tested]) if tested.is_file() else None
        image = cifar.IMAGE
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
    """Refuse a file that holds but a part of images and labels."""
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
    """Refuse CIFAR-10 in Python's version, beside or inside a folder."""
    for place in (folder, folder / "cifar-10-batches-py", folder.parent / "cifar-10-batches-py"):
        if (place / "data_batch_1").is_file() or (place / "batches.meta").is_file():
            raise InputError(
                f"{place} holds the Python version of CIFAR-10: these are pickles, which can run any code when they "
                "are read, so they are not. Take the binary version, cifar-10-binary.tar.gz."
            )
