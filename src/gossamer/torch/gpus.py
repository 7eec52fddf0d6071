"""GPUs: the host runs ahead of them, and must neither wait for them nor free what they still read.

A message by NCCL is done in the order of a stream. ``work.wait()`` makes the current stream wait for it and returns at
once; with a timeout it would stop the host instead. So a message that never comes is noticed by NCCL's own watchdog,
after the timeout of the process group, which ends the process: no error names the rank.

No GPU was at hand when this was written. What is tested is the same code with tensors on a CPU.
"""

import torch
from torch import Tensor

from gossamer.core import InputError

OFTEN, SELDOM = 3, 100
"""On a GPU parameters are compared with what the rule wrote in so many first steps, and then in each so many-th."""


def check_device(device: torch.device) -> None:
    """Refuse parameters on another GPU than the current one: NCCL would hang."""
    if device.type == "cuda" and device.index != (current := torch.cuda.current_device()):
        raise InputError(
            f"the parameters are on {device}, but the current GPU of this process is cuda:{current}, and NCCL would "
            'hang: call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) first, and make the model there.'
        )


def keep_for_stream(tensors: list[Tensor]) -> None:
    """Let the memory of tensors be used again only after what the current stream does with them."""
    for a in tensors:
        if a.is_cuda:
            a.record_stream(torch.cuda.current_stream(a.device))


class LateFlag:
    """Whether something was so, read one step later: nobody waits for the device by then."""

    def __init__(self) -> None:
        self._parts: list[Tensor] = []
        self._told: Tensor | None = None
        self._ready: torch.cuda.Event | None = None

    def put(self, flag: Tensor) -> None:
        """Note one more flag of this step."""
        self._parts.append(flag.detach())

    def turn(self) -> bool:
        """Whether a flag of the last step was true; those of this step are read at the next turn."""
        if self._ready is not None:
            self._ready.synchronize()
        was = self._told is not None and bool(self._told)
        self._told = self._ready = None
        if self._parts:
            this = torch.stack(self._parts).any()
            self._told = torch.empty((), dtype=torch.bool, pin_memory=this.is_cuda)
            self._told.copy_(this, non_blocking=True)
            if this.is_cuda:
                self._ready = torch.cuda.Event()
                self._ready.record()
        self._parts = []
        return was


def looks(step: int, device: torch.device) -> bool:
    """Whether to compare all parameters in this step: always on a CPU, now and then where the host would wait."""
    return device.type != "cuda" or step <= OFTEN or step % SELDOM == 0
