"""Made-up studies, in which every claim of the paper holds unless something is changed."""

from dataclasses import replace

import numpy as np
import polars as pl
from scipy import stats

from gossamer.paper.claims import CLAIMS, judge
from gossamer.results.result import Result
from gossamer.results.study import TUNED, Study

ROUNDS = np.unique(np.concatenate([np.arange(0, 200, 2), np.arange(200, 1001, 10)]))
Z = np.linspace(-1, 1, 6)
"""What makes six replicates differ; the interval of a mean of c + s·Z is c ± half(parts)·s."""

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
SPREADS = {"mixed:0": 0.01, "mixed:0.25": 0.1, "mixed:0.5": 1.0, "mixed:0.75": 3.0, "mixed:1": 10.0}
RING_GAPS = {4: 0.667, 8: 0.195, 16: 0.0507, 32: 0.0128}
STABLE = {"biased-dmt": 2.5, "gt-dsgd": 1.0, "gnsd": 0.25}


def half(parts=1):
    """How wide an interval of values Z is, in a claim of so many parts on the whole page."""
    return stats.t.ppf(1 - 0.05 / len(CLAIMS) / parts / 2, len(Z) - 1) * Z.std(ddof=1) / np.sqrt(len(Z))


def curves(floor=1e-3, loss=0.3, speed=100, wobble=0.01, loss_wobble=1e-4, speed_wobble=0.0, seeds=Z, rounds=ROUNDS,
           consensus=1e-3, drift=0.0):  # fmt: skip
    """Made-up metrics, [seeds, rounds]: the seeds' logarithms (of floor and speed) or values (of loss) differ by Z."""
    z, t = np.asarray(seeds)[:, None], rounds[None]
    early, end = np.exp(-t / (speed * np.exp(speed_wobble * z))), loss + loss_wobble * z
    return {
        "loss": end + (0.7 - end) * early,
        "grad_norm_sq": floor * np.exp(wobble * z + drift * t / 1000),
        "consensus": consensus * np.exp(wobble * z) * np.ones_like(early),
    }


def result(runs, bias_sq=None, seeds=None, rounds=ROUNDS, setting="eta=1", replicates=None):
    """A result with these metrics by algorithm, and biases of two agents that differ but have this mean."""
    seeds = list(range(len(next(iter(runs.values()))["loss"]))) if seeds is None else seeds
    size = len(seeds) * len(rounds)
    when = np.tile(rounds, len(seeds))
    frames = [
        pl.DataFrame(
            {
                "algorithm": [name] * size,
                "setting": [setting] * size,
                "replicate": np.repeat(seeds if replicates is None else replicates, len(rounds)),
                "seed": np.repeat(seeds, len(rounds)),
                "round": when,
                "status": ["ok"] * size,
                **{metric: values.ravel() for metric, values in metrics.items()},
                **{paid: when for paid in ("queries", "bytes_sent", "messages")},
            }
        )
        for name, metrics in runs.items()
    ]
    states = {(name, setting): np.zeros((len(seeds), 2, 3)) for name in runs}
    biases = None
    if bias_sq is not None:
        mean = np.sqrt(np.broadcast_to(bias_sq, len(seeds)))[:, None, None] * np.array([0.6, 0.0, 0.8])
        biases = mean + np.array([[1.0], [-1.0]])
    return Result(pl.concat(frames), states, seeds, biases, {})


def both(first, second):
    """Two results of one variant, such as tuned and given settings."""
    return Result(pl.concat([first.table, second.table]), first.states | second.states, first.seeds, first.biases, {})


def tuning(tops, variant="", step=1.05, seeds=Z):
    """A grid of step sizes for each method, the middle one chosen; those up to a method's top are stable."""
    rows = []
    for replicate in range(len(seeds)):
        for algorithm, top in tops.items():
            etas = [0.05 * step**k for k in range(120)]
            for eta in etas:
                low = 0.3 + 0.001 * abs(np.log(eta / etas[10]))
                value = low if eta <= top else 0.6
                rows.append((variant, replicate, algorithm, f"eta={eta:g}", eta, "loss", value, 0, 0, eta == etas[10]))
    names = ["variant", "replicate", "algorithm", "setting", "eta", "criterion", "value", "diverged", "extension"]
    return pl.DataFrame(rows, orient="row", schema=[*names, "chosen"])


def fig1(seeds=Z, bias=1e-3, step=1.05, **changed):
    """The world of the paper, in which every claim on figure 1 holds, with changes by algorithm."""
    options = {name: method | changed.get(name.replace("-", "_"), {}) for name, method in METHODS.items()}
    runs = result({name: curves(seeds=seeds, **method) for name, method in options.items()}, bias)
    grids = tuning(dict.fromkeys(METHODS, 1.0), "by loss", step, seeds)
    return study({"by loss": runs, "by gradient": runs}, tuning=grids)


def sensitivity(seeds=Z, consensus=None, **tops):
    values = {"biased-dmt": 1e-3, "gt-dsgd": 2e-3, "gnsd": 6e-3} | (consensus or {})
    runs = result({name: curves(seeds=seeds, consensus=value) for name, value in values.items()})
    chosen = {name: tops.get(name.replace("-", "_"), top) for name, top in STABLE.items()}
    return study({"": runs}, tuning=tuning(chosen, seeds=seeds))


def fig2(seeds=Z, **changed):
    results = {}
    for reading in ("once", "redrawn"):
        for k, size in BIAS.items():
            variant = f"{reading}-{k}" if k else "unbiased"
            options = {"floor": 1e-4 + size, "speed": 100 - 8 * k, "loss": 0.3 + 0.01 * k}
            options |= changed.get(f"step{k}", {})
            results[variant] = result({"biased-dmt": curves(seeds=seeds, **options)}, size)
        options = {"speed": 80} | changed.get("minus", {})
        results[f"{reading}-5-minus"] = result({"biased-dmt": curves(seeds=seeds, **options)}, 2.5e-3)
    return study(results)


def sweep(values, fact, power=0.0, wobble=0.0, speed_power=0.0, speed_wobble=0.0, seeds=Z, setting="eta=1",
          rounds=ROUNDS, **options):  # fmt: skip
    """Floors (and speeds) that go with a power of a fact of the variant; the power of seed s is off by wobble·Z_s."""
    results = {}
    for variant, x in values.items():
        log = np.log(x)
        metrics = curves(1e-3 * x**power, speed=100 * x**speed_power, wobble=wobble * log, seeds=seeds,
                         speed_wobble=speed_wobble * log, loss_wobble=0.0, rounds=rounds, **options)  # fmt: skip
        results[variant] = result({"biased-dmt": metrics}, setting=setting, rounds=rounds)
    return study(results, {variant: {fact: x} for variant, x in values.items()})


def speedup(noise=-1.0, wobble=0.02, power=-0.5, seeds=Z, rounds=25_600):
    """Noise that falls with a power of n, and errors of the corollary that do."""
    results, facts = {}, {}
    results["without noise"] = result({"biased-dmt": curves(seeds=seeds[:1])})
    for graph in ("ring", "exponential"):
        for n in (4, 8, 16, 32):
            noisy = result({"biased-dmt": curves(seeds=seeds)})
            size = np.sqrt(1e-3 * n ** (noise + wobble * np.asarray(seeds)))
            states = {("biased-dmt", "eta=1"): np.tile(size[:, None, None], (1, 2, 1))}
            results[f"{graph}-{n} noisy"] = Result(noisy.table, states, noisy.seeds, None, {})
            still = {("biased-dmt", "eta=1"): np.zeros((1, 2, 1))}
            results[f"{graph}-{n} exact"] = Result(noisy.table, still, [0], None, {})
            facts[f"{graph}-{n} noisy"] = {"gap": RING_GAPS[n]}
    for graph, sizes in {"complete": (4, 8, 16, 32), "exponential": (4, 8, 16)}.items():
        agents = {f"corollary {graph}-{n}": n for n in sizes}
        results |= sweep(
            agents, "agents", power, wobble, seeds=seeds, rounds=np.linspace(0, rounds, 101).astype(int)
        ).results
        facts |= {name: {"agents": n, "gap": 1.0} for name, n in agents.items()}
    settings = "".join(
        f'[[variant]]\nname = "{name}"\nalgorithm = {{ eta = {1 if name == "without noise" else 0.03} }}\n'
        f"run = {{ steps = {rounds} }}\n"
        for name in results
    )
    return Study("made up", "", settings, results, None, facts)


def topology(seeds=Z, **powers):
    options = {"wobble": 0.01} | powers
    fixed = sweep(GAPS, "gap", **options, seeds=seeds)
    tuned = sweep(GAPS, "gap", **options, seeds=seeds, setting=f"{TUNED} 6 replicates")
    results = {name: both(tuned.results[name], fixed.results[name]) for name in GAPS}
    grids = pl.concat([tuning({"biased-dmt": 1.0}, name, 1.01, seeds) for name in GAPS])
    return Study("made up", "", "[tuning]\ntarget = 0.35", results, grids, fixed.facts)


def heterogeneity(absolute=(0.0, 0.01), relative=(0.5, 0.1), seeds=Z):
    parts = {}
    for bias, (power, wobble) in {"absolute": absolute, "relative": relative}.items():
        parts[bias] = sweep(
            {f"{bias} {split}": x for split, x in SPREADS.items()}, "heterogeneity", power, wobble, seeds=seeds
        )
    return study(
        parts["absolute"].results | parts["relative"].results, parts["absolute"].facts | parts["relative"].facts
    )


def study(results, facts=None, tuning=None):
    return Study("made up", "", "", results, tuning, facts or {})


WORLDS = {
    "fig1": fig1,
    "sensitivity": sensitivity,
    "fig2": fig2,
    "speedup": speedup,
    "topology": topology,
    "heterogeneity": heterogeneity,
}


def words(experiment, world):
    return [verdict.verdict for verdict in judge({experiment: world})]


def without(world, algorithm="", variant=""):
    """The study without an algorithm or a variant."""
    kept = {name: runs for name, runs in world.results.items() if not variant or name != variant}
    tables = {name: runs.table.filter(pl.col("algorithm") != algorithm) for name, runs in kept.items()}
    return replace(world, results={name: replaced(runs, tables[name]) for name, runs in kept.items()})


def replaced(runs, table):
    return Result(table, runs.states, runs.seeds, runs.biases, runs.manifest)


def changed(world, variant, change):
    return replace(world, results={**world.results, variant: change(world.results[variant])})


def everywhere(world, change):
    return replace(world, results={name: change(runs) for name, runs in world.results.items()})


def diverged(algorithm):
    """A change after which the first seed of an algorithm ends at half of its rounds."""
    first = (pl.col("algorithm") == algorithm) & (pl.col("seed") == 0)
    lost = pl.when(first & (pl.col("round") == 500)).then(pl.lit("diverged")).otherwise(pl.col("status"))
    return lambda runs: replaced(runs, runs.table.filter(~first | (pl.col("round") <= 500)).with_columns(status=lost))
