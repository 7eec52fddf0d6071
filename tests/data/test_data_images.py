import gzip
import os

import numpy as np
import pytest

from gossamer.core import InputError
from gossamer.data import Dataset, files, load, read_idx, read_images
from tests.data.images import idx, write_cifar10, write_idx
from tests.table import table

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A directory of the user's own data sets; the system has none."""
    monkeypatch.setenv("GOSSAMER_DATA", f"/nowhere:{tmp_path}")
    monkeypatch.setattr(files, "SYSTEM", tmp_path / "system")
    return tmp_path


def test_idx_is_read_plain_and_gzipped_whatever_it_is_called(tmp_path):
    for name, content in (("plain.gz", idx(PIXELS)), ("zipped", gzip.compress(idx(PIXELS)))):
        (tmp_path / name).write_bytes(content)
        np.testing.assert_array_equal(read_idx(tmp_path / name), PIXELS)


FAULTS = {
    "cut short": (idx(PIXELS)[:-5], "states 2 × 3 × 4 = 24 bytes, but holds 19: it is empty, cut short or no IDX file"),
    "too long": (idx(PIXELS) + b"\0", "states 2 × 3 × 4 = 24 bytes, but holds 25"),
    "empty": (b"", "is not an IDX file of unsigned bytes: it begins with nothing"),
    "text": (b"+1 3:1\n", "it begins with 2b 31 20 33, not with 00 00 08"),
    "floats": (idx(PIXELS, kind=13), "it begins with 00 00 0d 03, not"),
    "no sizes": (b"\0\0\x08\0", "but holds 0"),
    "cut within its sizes": (idx(PIXELS)[:9], "but holds 0"),
    "nothing in it": (idx(PIXELS[:0]), "states 0 × 3 × 4 = 0 bytes, but holds 0"),
    "too large a claim": (b"\0\0\x08\x03" + 3 * (4096).to_bytes(4, "big"), "68,719,476,736 bytes, but holds 0"),
    "zip cut short": (
        gzip.compress(idx(PIXELS))[:-9],
        "cannot be read: .*It may be cut short: copy or unpack it again",
    ),
    "zip damaged": (gzip.compress(idx(PIXELS))[:-8] + bytes(8), "cannot be read: .*CRC"),
}


@table("fault", FAULTS)
def test_idx_that_is_wrong_is_refused(tmp_path, fault):
    content, message = FAULTS[fault]
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_idx(tmp_path / "file")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_directory_of_idx_files(tmp_path, zipped):
    folder = write_idx(tmp_path / "mine", zipped=zipped)
    data = load(folder)
    assert (data.name, data.rows, data.dim, data.image, data.divisor) == ("mine", 30, 16, (1, 4, 4), 255)
    assert data.features.dtype == data.test_features.dtype == np.uint8
    suffix = ".gz" if zipped else ""
    np.testing.assert_array_equal(data.features, read_idx(folder / f"train-images-idx3-ubyte{suffix}").reshape(30, 16))
    np.testing.assert_array_equal(data.test_labels, np.arange(10) % 3)
    assert str(folder) in data.source


def test_names_with_a_dot_and_no_test_part(tmp_path):
    folder = write_idx(tmp_path, zipped=False)
    for file in [*folder.iterdir()]:
        if file.name.startswith("t10k"):
            file.unlink()
        else:
            file.rename(folder / file.name.replace("-idx", ".idx"))
    data = read_images(folder)
    assert data.rows == 30
    assert data.test_features is None


def broken(folder, name, array):
    (folder / name).write_bytes(idx(array))
    (folder / f"{name}.gz").unlink(missing_ok=True)


def test_images_that_do_not_fit_together_are_refused(tmp_path):
    folder = write_idx(tmp_path)
    broken(folder, "train-labels-idx1-ubyte", np.zeros(29))
    with pytest.raises(InputError, match="train has 30 images, but 29 labels"):
        load(folder)
    broken(folder, "train-labels-idx1-ubyte", np.zeros((30, 1)))
    with pytest.raises(InputError, match="train-labels-idx1-ubyte should state 1 sizes, but states 2"):
        load(folder)
    broken(folder, "train-labels-idx1-ubyte", np.zeros(30))
    broken(folder, "t10k-images-idx3-ubyte", np.zeros((10, 5, 4)))
    with pytest.raises(InputError, match="training images are 4 × 4, but test images 5 × 4"):
        load(folder)
    (folder / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(InputError, match=r"has no file t10k-images-idx3-ubyte, plain or \.gz: add it"):
        load(folder)


def test_cifar_s_binary_files(tmp_path):
    folder, pixels, labels = write_cifar10(tmp_path / "photos")
    data = load(str(folder))
    np.testing.assert_array_equal(data.features, pixels)
    np.testing.assert_array_equal(data.labels, labels)
    assert (data.image, data.divisor, data.test_labels.shape) == ((3, 32, 32), 255, (3,))


def test_cifar_s_files_that_are_wrong_are_refused(tmp_path):
    folder, *_ = write_cifar10(tmp_path / "photos")
    whole = (folder / "data_batch_2.bin").read_bytes()
    (folder / "data_batch_2.bin").write_bytes(whole[:-1])
    with pytest.raises(InputError, match="has 9,218 bytes, which is no whole number of records of 3,073"):
        load(folder)
    (folder / "data_batch_2.bin").write_bytes(whole[:3073] + b"\x63" + whole[3074:])
    with pytest.raises(InputError, match="has the label 99, but those of CIFAR-10 are 0 to 9"):
        load(folder)


def test_pickles_are_refused_by_name(own):
    folder = own / "cifar-10"
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(b"\x80\x04.")
    for data in (folder, "cifar-10"):
        with pytest.raises(InputError, match=r"these are pickles, which can run any code .*cifar-10-binary\.tar\.gz"):
            load(data)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("train-images-idx3-ubyte.gz", "one of several files of a data set of images: give their directory, /"),
        ("data_batch_1.bin", "give their directory"),
        ("cifar-10-binary.tar.gz", "is an archive: unpack it"),
    ],
)
def test_one_file_of_many_is_refused(tmp_path, name, message):
    (tmp_path / name).write_bytes(idx(PIXELS))
    with pytest.raises(InputError, match=message):
        load(tmp_path / name)


def test_a_directory_without_images_says_what_it_should_hold(tmp_path):
    with pytest.raises(InputError, match="is a directory, but not of images: those hold train-images-idx3-ubyte and"):
        load(tmp_path)
    folder = write_idx(tmp_path)
    with pytest.raises(InputError, match="test='more' cannot be added to a whole data set"):
        load(folder, test="more")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar-10"])
def test_a_name_says_how_to_get_what_is_not_there(own, name):
    with pytest.raises(InputError) as told:
        load(name)
    assert f"looked in: /nowhere/{name} and " in str(told.value)
    assert "GOSSAMER_DATA names in the environment, or give the path of" in str(told.value)
    assert ("apt-get install dataset-fashion-mnist" in str(told.value)) == (name == "fashion-mnist")
    assert ("cifar-10-binary.tar.gz" in str(told.value)) == (name == "cifar-10")


def test_a_name_is_the_whole_set_and_no_other(own):
    write_idx(own / "mnist")
    with pytest.raises(
        InputError, match=r"holds 30 \+ 10 images of 1 × 4 × 4 in 3 classes, but mnist has 60,000 \+ 10,000"
    ):
        load("mnist")
    folder = write_idx(own / "system" / "fashion-mnist", 60_000, 10_000, 1, 10, zipped=False)
    for part, count in (("train", 60_000), ("t10k", 10_000)):
        file = folder / f"{part}-images-idx3-ubyte"
        file.write_bytes(b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (count, 28, 28)))
        os.truncate(file, 16 + count * 28 * 28)
    data = load("fashion-mnist")
    assert (data.name, data.rows, len(data.test_labels), len(data.classes)) == ("fashion-mnist", 60_000, 10_000, 10)
    write_cifar10(own / "cifar-10")
    with pytest.raises(InputError, match=r"holds 6 \+ 3 images of 3 × 32 × 32 .* but cifar-10 has 50,000 \+ 10,000"):
        load("cifar-10")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"divisor": 0}, "divisor must be a whole number of at least 1, but is 0"),
        ({"divisor": 2, "features": [[0.5, 1]]}, "divisor = 2 is for features that are bytes, but these are float64"),
        ({"image": (1, 2)}, r"image must be \(planes, height, width\), but is \(1, 2\)"),
        ({"image": (1, 2, 2)}, r"image = \(1, 2, 2\) is 4 pixels, but d has 2 features"),
        ({"image": (2, 1, 0.5)}, "image, each of its sizes, must be a whole number"),
    ],
)
def test_bytes_and_images_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        Dataset("d", **({"features": np.array([[3, 200]], np.uint8), "labels": [1]} | options))
