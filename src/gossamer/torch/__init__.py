"""Train for real: the rules of Gossamer as a PyTorch optimizer, one agent to a process of torch.distributed."""

from gossamer.core import MissingPackage as MissingTorch

try:
    import torch.distributed as _distributed  # noqa: F401
except ImportError as missing:
    raise MissingTorch(
        f"gossamer.torch needs PyTorch, but {missing.name!r} is not installed. Install what it needs with "
        "`pip install -e '.[torch]'` in the clone; the rest of Gossamer works without it."
    ) from missing

from gossamer.logs import CSVLog
from gossamer.torch.checkpoint import mean_model, resume, save, written
from gossamer.torch.exchange import Counters
from gossamer.torch.faults import NeighborLost, NotFinite
from gossamer.torch.mesh import decentralize
from gossamer.torch.optimizer import Decentralized
from gossamer.torch.sampler import SplitSampler

__all__ = [
    "CSVLog",
    "Counters",
    "Decentralized",
    "MissingTorch",
    "NeighborLost",
    "NotFinite",
    "SplitSampler",
    "decentralize",
    "mean_model",
    "resume",
    "save",
    "written",
]
