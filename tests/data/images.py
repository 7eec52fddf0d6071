"""Images in files, as those of MNIST and CIFAR-10 are."""

import gzip
from pathlib import Path

import numpy as np


def idx(array, kind=8):
    """An array as the bytes of an IDX file."""
    array = np.asarray(array, np.uint8)
    return bytes([0, 0, kind, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()


def write_idx(folder, rows=30, test_rows=10, side=4, classes=3, zipped=True, seed=0):
    """Four files of images whose brightness goes with their class, in a directory that is made; its path."""
    draw = np.random.default_rng(seed)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", rows), ("t10k", test_rows)):
        labels = np.arange(count) % classes
        bright = (195 * labels // max(1, classes - 1)).astype(np.uint8)
        pixels = draw.integers(0, 60, (count, side, side), np.uint8) + bright[:, None, None]
        for what, array in (("images-idx3", pixels), ("labels-idx1", labels)):
            name, content = f"{part}-{what}-ubyte", idx(array)
            (folder / (f"{name}.gz" if zipped else name)).write_bytes(gzip.compress(content, 1) if zipped else content)
    return folder


def write_cifar10(folder, batches=2, rows=3, seed=0):
    """Files of CIFAR-10's binary version, in a directory that is made; its path, images and labels of the batches."""
    draw, folder = np.random.default_rng(seed), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    records = draw.integers(0, 256, (batches + 1, rows, 3073), dtype=np.uint8)
    records[:, :, 0] %= 10
    for number, own in enumerate(records[:-1], 1):
        (folder / f"data_batch_{number}.bin").write_bytes(own.tobytes())
    (folder / "test_batch.bin").write_bytes(records[-1].tobytes())
    train = records[:-1].reshape(-1, 3073)
    return folder, train[:, 1:], train[:, 0]
