"""Train for real: the rules of Gossamer as a PyTorch optimizer, one agent to a process of torch.distributed."""

from gossamer.logs import CSVLog
from gossamer.torch.available import MissingTorch  # first of these: it says what to install
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
