"""What `data` means to a problem: a name, a file, a frame, arrays or a dataset, perhaps scaled."""

from typing import Any

from gossamer.core import InputError, brief
from gossamer.data import Dataset, load
from gossamer.data.scaling import standardised, warn_of_uneven


def loaded(data: Any, split: str, label: str = "label", test: Any = None, scale: bool = False) -> Dataset:
    """The dataset that `data` means, read with the column of its holders where the split names one."""
    named = isinstance(split, str) and split.startswith("column:") and not isinstance(data, Dataset)
    dataset = load(data, label=label, holder=split.removeprefix("column:") if named else None, test=test)
    if not isinstance(scale, bool):
        raise InputError(f"scale must be true or false, but is {brief(scale)}.")
    if scale:
        return standardised(dataset)
    if not isinstance(data, Dataset):  # who makes one has looked at it
        warn_of_uneven(dataset)
    return dataset
