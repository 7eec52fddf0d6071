"""Whether PyTorch is there, asked before anything else of this package is imported."""

from gossamer.core import InputError


class MissingTorch(InputError, ImportError):
    """PyTorch, or what comes with it, is not installed."""


try:
    import torch.distributed as _distributed  # noqa: F401
except ImportError as missing:
    raise MissingTorch(
        f"gossamer.torch needs PyTorch, but {missing.name!r} is not installed. Install what it needs with "
        '`pip install "gossamer[torch]"`; the rest of Gossamer works without it.'
    ) from missing
