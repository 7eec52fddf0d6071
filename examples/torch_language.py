"""A small language model on four processes, each with its own kind of text, by methods that send more and less.

    python examples/torch_language.py [--quick] [--out FILE]

A transformer predicts the next character of text that comes with Python: sources, help pages, names of characters and
calendars. It is trained by AdamW under DistributedDataParallel, by D-PSGD with AdamW inside, and by D-PSGD and
Biased-DMT over 16 local steps of AdamW. Every method tries the same number of settings, on a seed for that alone; then
all train on the same batches, in turns of one run, so that what else the machine does slows all of them.
"""

import argparse
import calendar
import json
import math
import os
import platform
import string
import sys
import sysconfig
import time
import unicodedata
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import gossamer as gs
from gossamer.torch import Decentralized
from gossamer.torch.launch import launch

PROCESSES, LOCAL = 4, 16
CHARACTERS = {character: k for k, character in enumerate(string.printable[:95] + "\n")}
UNKNOWN = len(CHARACTERS)
LENGTH, PAGE = 200_000, 2_000
"""Characters of each kind of text, and of a page of it; every tenth page is held out."""


class Scale(NamedTuple):
    """The sizes of the model and of the run."""

    width: int = 48
    layers: int = 2
    window: int = 48
    batch: int = 8
    steps: int = 480
    tuning_steps: int = 160
    every: int = 48
    rates: tuple[float, ...] = (4e-3, 8e-3, 1.6e-2, 3.2e-2)
    seeds: tuple[int, ...] = (0, 1, 2)


QUICK = Scale(16, 1, 32, 4, steps=32, tuning_steps=16, every=16, rates=(4e-3, 1.6e-2), seeds=(0, 1))
TUNING_SEED = 1000

METHODS = {
    "DDP, AdamW": (None, 1),
    "D-PSGD, AdamW inside": (gs.DPSGD(eta=1.0), 1),
    "D-PSGD, 16 local steps": (gs.DPSGD(eta=1.0), LOCAL),
    "Biased-DMT, 16 local steps": (gs.BiasedDMT(eta=1.0, lam=1.0), LOCAL),
}
"""By name, the rule and the steps of AdamW between two messages."""
OUTER = ({"eta": 1.0, "lam": 1.0}, {"eta": 1.0, "lam": 0.5})
"""What Biased-DMT is tried with, each with the rates in the middle."""


def sources() -> str:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return "".join(file.read_text(encoding="utf-8") for file in files)


def help_pages() -> str:
    return "\n".join(text for _, text in sorted(topics.items()))


def names() -> str:
    return "\n".join(unicodedata.name(chr(k)) for k in range(0x20, 0x3400) if unicodedata.name(chr(k), ""))


def calendars() -> str:
    return "\n".join(calendar.TextCalendar().formatyear(year) for year in range(1900, 2050))


KINDS = {"sources": sources, "help pages": help_pages, "names of characters": names, "calendars": calendars}


class Text(NamedTuple):
    """The text of one process: characters to learn from, and characters that are held out."""

    learned: Tensor
    held: Tensor

    @classmethod
    def of(cls, kind: str) -> "Text":
        text = KINDS[kind]()[:LENGTH]
        codes = torch.tensor([CHARACTERS.get(character, UNKNOWN) for character in text])
        pages = codes.split(PAGE)
        return cls(
            torch.cat([page for k, page in enumerate(pages) if k % 10]),
            torch.cat([page for k, page in enumerate(pages) if not k % 10]),
        )


class LanguageModel(nn.Module):
    """A transformer that says how likely each character is to come next."""

    def __init__(self, scale: Scale):
        super().__init__()
        width = scale.width
        self.characters, self.places = nn.Embedding(UNKNOWN + 1, width), nn.Embedding(scale.window, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(scale.layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, UNKNOWN + 1)
        self.mask: Tensor
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(scale.window), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean cross-entropy of every character of windows, given those before it in its window."""
        h = self.characters(x[:, :-1]) + self.places.weight
        for layer in self.layers:
            h = layer(h, src_mask=self.mask, is_causal=True)
        return nn.functional.cross_entropy(self.head(self.norm(h)).flatten(0, 1), x[:, 1:].flatten())


def windows(text: Tensor, starts: Tensor, scale: Scale) -> Tensor:
    return text[starts[:, None] + torch.arange(scale.window + 1)]


class Setting(NamedTuple):
    """A setting that is tuned: AdamW's rate, and hyper-parameters of the rule."""

    lr: float
    rule: dict[str, float]


class Run:
    """A method in training on this process.

    Args:
        method: its name.
        setting: its rate and hyper-parameters.
        seed: of the model's start and of the batches.
        text: the text of this process.
        scale: how large all is.
        steps: for how many steps it is trained; the rate rises over the first 20th of them and then falls.
    """

    def __init__(self, method: str, setting: Setting, seed: int, text: Text, scale: Scale, steps: int):
        self.text, self.scale = text, scale
        torch.manual_seed(seed)
        self.model = LanguageModel(scale)
        self.forward: nn.Module = self.model
        rule, self.local = METHODS[method]
        adamw = partial(torch.optim.AdamW, lr=setting.lr, weight_decay=0.1)
        if rule is None:
            self.forward = DistributedDataParallel(self.model)
            self.optimizer = inner = adamw(self.model.parameters())
        else:
            rule = type(rule)(**vars(rule) | setting.rule)
            self.optimizer = Decentralized(self.model.parameters(), rule, "ring", inner=adamw, local_steps=self.local)
            inner = self.optimizer.inner
            assert inner is not None
        warm = max(1, steps // 20)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            inner, lambda k: min((k + 1) / warm, 0.55 + 0.45 * math.cos(math.pi * min(k / steps, 1)))
        )
        self.draws = torch.Generator().manual_seed(seed * PROCESSES + dist.get_rank())
        self.seconds, self.steps = 0.0, 0
        self.curve: list[dict[str, Any]] = []
        self.look()

    def turn(self, steps: int) -> None:
        """Train for so many steps by the clock; then, beside it, look at the mean model."""
        dist.barrier()
        began = time.perf_counter()
        for _ in range(steps):
            starts = torch.randint(
                len(self.text.learned) - self.scale.window, (self.scale.batch,), generator=self.draws
            )
            self.optimizer.zero_grad()
            self.forward(windows(self.text.learned, starts, self.scale)).backward()
            self.optimizer.step()
            self.schedule.step()
        if isinstance(self.optimizer, Decentralized):
            self.optimizer.exchange.settle()  # or else messages would travel in the turns of others
        dist.barrier()
        self.seconds += time.perf_counter() - began
        self.steps += steps
        self.look()

    def look(self) -> None:
        """Note the mean model's loss on what is held out of every kind of text, and what was sent until then."""
        if isinstance(self.optimizer, Decentralized):
            with self.optimizer.average_model():
                losses = self.losses()
            sent = self.optimizer.counters.bytes_sent
        else:
            losses, size = self.losses(), sum(p.numel() for p in self.model.parameters())
            sent = self.steps * 2 * 4 * size * (PROCESSES - 1) / PROCESSES  # by a ring all-reduce
        self.curve.append(
            {
                "step": self.steps,
                "loss": sum(losses) / PROCESSES,
                "losses": losses,
                "sent": sent,
                "seconds": self.seconds,
            }
        )

    def losses(self) -> list[float]:
        """Return the loss of each kind of text, on windows that follow each other."""
        starts = torch.arange(0, len(self.text.held) - self.scale.window, 4 * self.scale.window)
        with torch.no_grad():
            mine = self.model(windows(self.text.held, starts, self.scale)).reshape(1)
        parts = [torch.empty_like(mine) for _ in range(PROCESSES)]
        dist.all_gather(parts, mine)
        return [float(part) for part in parts]


def settings(method: str, scale: Scale) -> list[Setting]:
    """Return the settings that a method is tried with: as many as there are rates."""
    if method.startswith("Biased-DMT"):
        half = len(scale.rates) // len(OUTER)
        first = (len(scale.rates) - half) // 2
        return [Setting(lr, dict(outer)) for outer in OUTER for lr in scale.rates[first : first + half]]
    return [Setting(lr, {}) for lr in scale.rates]


def print_once(text: str) -> None:
    if dist.get_rank() == 0:
        print(text, flush=True)


def tune(method: str, text: Text, scale: Scale) -> tuple[Setting, list[dict[str, Any]]]:
    """Return the setting with the least loss at the end, and all that were tried."""
    tried = []
    for setting in settings(method, scale):
        run = Run(method, setting, TUNING_SEED, text, scale, scale.tuning_steps)
        run.turn(scale.tuning_steps)
        tried.append({"lr": setting.lr, "rule": setting.rule, "loss": run.curve[-1]["loss"]})
        print_once(f"tuning {method}: lr {setting.lr:g} {setting.rule or ''}: {tried[-1]['loss']:.4f}")
    best = min(tried, key=lambda one: one["loss"] if math.isfinite(one["loss"]) else math.inf)
    return Setting(best["lr"], best["rule"]), tried


def measure(scale: Scale) -> dict[str, Any]:
    """Tune all methods, then train them in turns, in each of four processes."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    text = Text.of(list(KINDS)[dist.get_rank()])
    found = {method: tune(method, text, scale) for method in METHODS}
    curves: dict[str, list[Any]] = {method: [] for method in METHODS}
    for seed in scale.seeds:
        runs = {name: Run(name, chosen, seed, text, scale, scale.steps) for name, (chosen, _) in found.items()}
        for _ in range(scale.steps // scale.every):
            for run in runs.values():
                run.turn(scale.every)
        for name, run in runs.items():
            curves[name].append(run.curve)
            end = run.curve[-1]
            print_once(f"seed {seed}: {name}: {end['loss']:.4f}, {end['sent'] / 1e6:.1f} MB, {end['seconds']:.1f} s")
    parameters = sum(p.numel() for p in LanguageModel(scale).parameters())
    tuning = {name: {"chosen": chosen._asdict(), "tried": tried} for name, (chosen, tried) in found.items()}
    facts = {"parameters": parameters, "kinds": list(KINDS), "characters": LENGTH, **scale._asdict()}
    facts |= {"python": platform.python_version(), "torch": torch.__version__, "cores": os.cpu_count(), "load": load}
    facts["minutes"] = (time.perf_counter() - began) / 60
    return {"facts": facts, "tuning": tuning, "curves": curves}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller model for seconds")
    parser.add_argument("--out", metavar="FILE", help="write the curves and what was tuned there, as JSON")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        return launch(PROCESSES, __file__, sys.argv[1:], prefix=False)
    dist.init_process_group("gloo")
    found = measure(QUICK if options.quick else Scale())
    if dist.get_rank() == 0 and options.out:
        Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        Path(options.out).write_text(json.dumps(found, indent=1), encoding="utf-8")
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
