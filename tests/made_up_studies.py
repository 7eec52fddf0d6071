"""Made-up studies, in which every claim of the paper holds unless something is changed."""

import numpy as np
import polars as pl
from scipy import stats

from gossamer.claims import judge
from gossamer.results import Result
from gossamer.study import Study

ROUNDS = np.arange(0, 1001, 10)
Z = np.linspace(-1, 1, 5)
"""What makes five seeds differ; the 95 % interval of a mean of c + s·Z is c ± HALF·s."""
HALF = stats.t.ppf(0.975, 4) * Z.std(ddof=1) / np.sqrt(5)

METHODS = {
    "biased-dmt": {},
    "biased-dsgd": {"floor": 1e-2, "loss": 0.35, "speed": 150},
    "dsgdm": {"floor": 2e-2, "loss": 0.34, "speed": 150},
    "gt-dsgd": {"floor": 1.5e-3, "loss": 0.31, "speed": 150},
    "gnsd": {"loss": 0.31},
    "momentum-tracking": {"loss": 0.31},
    "centralized-sgd": {"floor": 1.1e-3, "loss": 0.31},
}
BIAS = {0: 0.0, 1: 1e-4, 2: 4e-4, 3: 9e-4, 4: 1.6e-3, 5: 2.5e-3}
GAPS = {"complete": 1.0, "exponential": 0.5, "torus": 0.3, "ring": 0.03, "path": 0.008}
SPREADS = {"iid": 0.01, "dirichlet:1": 0.1, "dirichlet:0.1": 1.0, "dirichlet:0.01": 3.0, "by-label": 10.0}


def curves(floor=1e-3, loss=0.3, speed=100, wobble=0.01, loss_wobble=1e-3, speed_wobble=0.0, seeds=Z, rounds=ROUNDS):
    """Made-up metrics, [seeds, rounds]: the seeds' logarithms (of floor and speed) or values (of loss) differ by Z."""
    z, t = np.asarray(seeds)[:, None], rounds[None]
    early, end = np.exp(-t / (speed * np.exp(speed_wobble * z))), loss + loss_wobble * z
    return {"loss": end + (0.7 - end) * early, "grad_norm_sq": floor * np.exp(wobble * z) * np.ones_like(early)}


def result(runs, bias_sq=None, seeds=None, rounds=ROUNDS):
    """A result with these metrics by algorithm, and biases of two agents that differ but have this mean."""
    seeds = list(range(len(next(iter(runs.values()))["loss"]))) if seeds is None else seeds
    size = len(seeds) * len(rounds)
    when = np.tile(rounds, len(seeds))
    frames = [
        pl.DataFrame(
            {
                "algorithm": [name] * size,
                "setting": ["eta=1"] * size,
                "seed": np.repeat(seeds, len(rounds)),
                "round": when,
                "status": ["ok"] * size,
                **{metric: values.ravel() for metric, values in metrics.items()},
                **{paid: when for paid in ("queries", "bytes_sent", "messages")},
            }
        )
        for name, metrics in runs.items()
    ]
    states = {(name, "eta=1"): np.zeros((len(seeds), 2, 3)) for name in runs}
    biases = None
    if bias_sq is not None:
        mean = np.sqrt(np.broadcast_to(bias_sq, len(seeds)))[:, None, None] * np.array([0.6, 0.0, 0.8])
        biases = mean + np.array([[1.0], [-1.0]])
    return Result(pl.concat(frames), states, seeds, biases, {})


def fig1(seeds=Z, bias=1e-3, **changed):
    """The world of the paper, in which every claim on figure 1 holds, with changes by algorithm."""
    options = {name: own | changed.get(name.replace("-", "_"), {}) for name, own in METHODS.items()}
    return study({"": result({name: curves(seeds=seeds, **own) for name, own in options.items()}, bias)})


def fig2(seeds=Z, **changed):
    results = {}
    for reading in ("once", "redrawn"):
        for k, size in BIAS.items():
            variant = f"{reading}-{k}" if k else "unbiased"
            own = {"floor": 1e-4 + size, "speed": 100 - 5 * k, "loss": 0.3 + 0.01 * k}
            own |= changed.get(f"step{k}", {})
            results[variant] = result({"biased-dmt": curves(seeds=seeds, **own)}, size)
    return study(results)


def sweep(values, fact, power=0.0, wobble=0.0, speed_power=0.0, speed_wobble=0.0, seeds=Z, **own):
    """Floors (and speeds) that go with a power of a fact of the variant; the power of seed s is off by wobble·Z_s."""
    results = {}
    for variant, x in values.items():
        log = np.log(x)
        metrics = curves(1e-3 * x**power, speed=100 * x**speed_power, wobble=wobble * log, seeds=seeds,
                         speed_wobble=speed_wobble * log, loss_wobble=0.0, **own)  # fmt: skip
        results[variant] = result({"biased-dmt": metrics})
    return study(results, {variant: {fact: x} for variant, x in values.items()})


def speedup(power=-0.5, wobble=0.02, seeds=Z):
    sizes = {f"{graph}-{n}": n for graph in ("ring", "exponential") for n in (4, 16, 64)}
    return sweep(sizes, "agents", power, wobble, seeds=seeds)


def topology(seeds=Z, **powers):
    return sweep(GAPS, "gap", **({"wobble": 0.01} | powers), seeds=seeds)


def heterogeneity(absolute=(0.0, 0.01), relative=(0.5, 0.1), seeds=Z):
    parts = {}
    for bias, (power, wobble) in {"absolute": absolute, "relative": relative}.items():
        parts[bias] = sweep(
            {f"{bias} {split}": x for split, x in SPREADS.items()}, "heterogeneity", power, wobble, seeds=seeds
        )
    return study(
        parts["absolute"].results | parts["relative"].results, parts["absolute"].facts | parts["relative"].facts
    )


def study(results, facts=None):
    return Study("made up", "", "", results, None, facts or {})


WORLDS = {"fig1": fig1, "fig2": fig2, "speedup": speedup, "topology": topology, "heterogeneity": heterogeneity}


def words(experiment, world):
    return [verdict.verdict for verdict in judge({experiment: world})]


def without(world, algorithm="", variant=""):
    """The study without an algorithm or a variant."""
    kept = {name: one for name, one in world.results.items() if not variant or name != variant}
    tables = {name: one.table.filter(pl.col("algorithm") != algorithm) for name, one in kept.items()}
    return study({name: replaced(one, tables[name]) for name, one in kept.items()}, world.facts)


def replaced(one, table):
    return Result(table, one.states, one.seeds, one.biases, one.manifest)


def changed(world, variant, change):
    return study({**world.results, variant: change(world.results[variant])}, world.facts)


def diverged(algorithm):
    """A change after which the first seed of an algorithm ends at half of its rounds."""
    first = (pl.col("algorithm") == algorithm) & (pl.col("seed") == 0)
    lost = pl.when(first & (pl.col("round") == 500)).then(pl.lit("diverged")).otherwise(pl.col("status"))
    return lambda one: replaced(one, one.table.filter(~first | (pl.col("round") <= 500)).with_columns(status=lost))
