"""Made-up studies, in which every claim of the paper holds unless something is changed."""

from dataclasses import replace

import numpy as np
import polars as pl
from scipy import stats

from gossamer.papers import installed
from gossamer.results.result import Result
from gossamer.results.study import Study

PAPER = installed()["biased-dmt"]
CLAIMS, judge = PAPER.claims, PAPER.judge

ROUNDS = np.unique(np.concatenate([np.arange(0, 200, 2), np.arange(200, 1001, 10)]))
Z = np.linspace(-1, 1, 6)
"""What makes six replicates differ; the interval of a mean of c + s·Z is c ± half(parts)·s."""

METHODS = {
    "biased-dmt": {},
    "biased-dsgd": {"loss": 0.35, "speed": 150},
    "dsgdm": {"loss": 0.34, "speed": 150},
    "gt-dsgd": {"loss": 0.31, "speed": 150},
    "gnsd": {"loss": 0.31, "speed": 150},
    "momentum-tracking": {"loss": 0.31},
    "centralized-sgd": {"loss": 0.31},
}
TARGET = "[tuning]\ntarget = 0.36\n"
HORIZONS = {"T = 2,000": 9.0, "T = 8,000": 8.0, "T = 32,000": 7.0}
"""How often the error of methods without tracking is the floor, at each horizon."""
BIAS = {0: 0.0, 1: 1e-4, 2: 4e-4, 3: 9e-4, 4: 1.6e-3, 5: 2.5e-3}
GAPS = {"complete": 1.0, "exponential": 0.5, "torus": 0.3, "ring": 0.03, "path": 0.008}
START_GAPS = {"complete": 1.0, "exponential": 0.5, "torus": 0.3, "random": 0.1, "ring": 0.03, "path": 0.008}
SPREADS = {"mixed:0": 0.01, "mixed:0.25": 0.1, "mixed:0.5": 1.0, "mixed:0.75": 3.0, "mixed:1": 10.0}
STABLE = {"biased-dmt": 2.5, "gt-dsgd": 0.15, "gnsd": 0.1, "momentum-tracking": 0.25}


def half(parts=1):
    """How wide an interval of values Z is, in a claim of so many parts on the whole page."""
    return stats.t.ppf(1 - 0.05 / len(CLAIMS) / parts / 2, len(Z) - 1) * Z.std(ddof=1) / np.sqrt(len(Z))


def curves(floor=1e-3, loss=0.3, speed=100, wobble=0.01, loss_wobble=1e-4, speed_wobble=0.0, seeds=Z, rounds=ROUNDS,
           consensus=1e-3, drift=0.0, stationarity=1e-4):  # fmt: skip
    """Made-up metrics, [seeds, rounds]: the seeds' logarithms (of floor and speed) or values (of loss) differ by Z."""
    z, t = np.asarray(seeds)[:, None], rounds[None]
    early, end = np.exp(-t / (speed * np.exp(speed_wobble * z))), loss + loss_wobble * z
    return {
        "loss": end + (0.7 - end) * early,
        "grad_norm_sq": floor * np.exp(wobble * z + drift * t / 1000),
        "stationarity": stationarity * np.exp(wobble * z + drift * t / 1000),
        "consensus": consensus * np.exp(wobble * z) * np.ones_like(early),
    }


def result(runs, bias_sq=None, seeds=None, rounds=ROUNDS, setting="eta=1", replicates=None, first=0):
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
                **{paid: (when + first).astype(float) for paid in ("queries", "bytes_sent", "messages", "seconds")},
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


def tuning(tops, variant="", step=1.05, seeds=Z, lam=0.1):
    """A grid of step sizes for each method, the middle one chosen; those up to a method's top are stable."""
    rows = []
    for replicate in range(len(seeds)):
        for algorithm, top in tops.items():
            etas = [0.05 * step**k for k in range(120)]
            for eta in etas:
                low = 0.3 + 0.001 * abs(np.log(eta / etas[10]))
                value = low if eta <= top else 0.6
                rows.append(
                    (variant, replicate, algorithm, f"eta={eta:g}", eta, lam, "loss", value, 0, 0, eta == etas[10])
                )
    names = [
        "variant",
        "replicate",
        "algorithm",
        "setting",
        "eta",
        "lam",
        "criterion",
        "value",
        "diverged",
        "stage",
    ]
    return pl.DataFrame(rows, orient="row", schema=[*names, "chosen"])


def fig1(seeds=Z, **changed):
    """The world of the paper, in which every claim on figure 1 holds, with changes by algorithm."""
    options = {name: method | changed.get(name.replace("-", "_"), {}) for name, method in METHODS.items()}
    return study({"": result({name: curves(seeds=seeds, **method) for name, method in options.items()}, 1e-3)})


def descent(seeds=Z, spread=0.0, lam=0.06, **changed):
    """Rounds to a target; `spread` is how much worse the criterion is beside the chosen step size."""
    names = ("biased-dmt", "gnsd", "gt-dsgd", "biased-dsgd", "dsgdm")
    options = {name: METHODS[name] | {"loss": 0.3} | changed.get(name.replace("-", "_"), {}) for name in names}
    grids = tuning(dict.fromkeys(names, 1.0), seeds=seeds, lam=lam)
    grids = grids.with_columns(value=pl.when("chosen").then("value").otherwise(pl.col("value") * (1 + spread)))
    runs = result({name: curves(seeds=seeds, **method) for name, method in options.items()})
    return Study("made up", "", TARGET, {"": runs}, grids, {})


def horizon(seeds=Z, tracked=1.0, **changed):
    """Errors over the floor by horizon; `changed` has, by algorithm, others, and the wobble of the last."""
    results = {}
    for number, (name, ratio) in enumerate(HORIZONS.items()):
        runs = {"biased-dmt": curves(1e-3 * tracked, seeds=seeds)}
        for algorithm in ("biased-dsgd", "dsgdm", "dsgdm-gossip"):
            ratios, wobble = changed.get(algorithm.replace("-", "_"), ([], 0.01))
            over = ratios[number] if ratios else ratio
            runs[algorithm] = curves(1e-3 * over, seeds=seeds, wobble=wobble if number == 2 else 0.01)
        results[name] = result(runs, 1e-3)
    return study(results)


def sensitivity(seeds=Z, consensus=None, **tops):
    values = {"biased-dmt": 1e-3, "gt-dsgd": 2e-3, "gnsd": 6e-3} | (consensus or {})
    runs = result({name: curves(seeds=seeds, consensus=value) for name, value in values.items()})
    chosen = {name: tops.get(name.replace("-", "_"), top) for name, top in STABLE.items()}
    spec = '[[algorithm]]\nname = "biased-dmt"\nlam = 0.1\n'
    return Study("made up", "", spec, {"": runs}, tuning(chosen, seeds=seeds), {})


def fig2(seeds=Z, **changed):
    results = {}
    for reading in ("once", "redrawn"):
        for k, size in BIAS.items():
            variant = f"{reading}-{k}" if k else "unbiased"
            options = {"floor": 1e-4 + size, "speed": 100 - 2 * k, "stationarity": 1e-4} | changed.get(f"step{k}", {})
            results[variant] = result(
                {"biased-dmt": curves(seeds=seeds, **options)}, changed.get("bias", {}).get(k, size)
            )
        options = {"speed": 90} | changed.get("minus", {})
        results[f"{reading}-5-minus"] = result({"biased-dmt": curves(seeds=seeds, **options)}, 2.5e-3)
    return study(results)


def sweep(values, fact, power=0.0, wobble=0.0, speed_power=0.0, speed_wobble=0.0, seeds=Z, setting="eta=1",
          rounds=ROUNDS, **options):  # fmt: skip
    """Floors (and speeds) that go with a power of a fact of the variant; the power of seed s is off by wobble·Z_s."""
    results = {}
    for variant, x in values.items():
        log = np.log(x)
        metrics = curves(1e-3 * x**power, speed=100 * x**speed_power, wobble=wobble * log, seeds=seeds,
                         speed_wobble=speed_wobble * log, loss_wobble=0.0, rounds=rounds,
                         stationarity=1e-3 * x**power, **options)  # fmt: skip
        # a bias far below the rest, so that floors are those of ‖∇F + ē‖²
        results[variant] = result({"biased-dmt": metrics}, 1e-12, setting=setting, rounds=rounds)
    return study(results, {variant: {fact: x} for variant, x in values.items()})


def speedup(noise=-1.0, wobble=0.02, seeds=Z):
    """Noise that falls with a power of n."""
    results = {}
    for graph in ("ring", "exponential"):
        for n in (4, 8, 16, 32):
            noisy = result({"biased-dmt": curves(seeds=seeds)})
            size = np.sqrt(1e-3 * n ** (noise + wobble * np.asarray(seeds)))
            states = {("biased-dmt", "eta=1"): np.tile(size[:, None, None], (1, 2, 1))}
            results[f"{graph}-{n} noisy"] = Result(noisy.table, states, noisy.seeds, None, {})
            still = {("biased-dmt", "eta=1"): np.zeros((1, 2, 1))}
            results[f"{graph}-{n} exact"] = Result(noisy.table, still, [0], None, {})
    return study(results)


def corollary(power=-0.5, wobble=0.02, seeds=Z, gap=1.0):
    """Errors that fall with a power of n and of T."""
    results, facts = {}, {}
    sizes = {"complete": (4, 8, 16, 32), "exponential": (4, 8, 16)}
    for graph, agents, steps in (
        *((kind, n, 25_600) for kind in sizes for n in sizes[kind]),
        *(("complete", 8, steps) for steps in (6_400, 102_400)),
    ):
        name, x = f"{graph}-{agents}, T = {steps:,}", agents * steps / 1e5
        rounds = np.linspace(0, steps, 101).astype(int)
        metrics = curves(1e-3 * x**power, wobble=wobble * np.log(x), seeds=seeds, rounds=rounds)
        results[name] = result({"biased-dmt": metrics}, rounds=rounds)
        facts[name] = {"agents": agents, "gap": gap}
    return study(results, facts)


def topology(seeds=Z, **powers):
    return sweep(GAPS, "gap", **({"wobble": 0.01} | powers), seeds=seeds)


def start(seeds=Z, saved=0.8, gossips=0, speed_power=0.0, speed_wobble=1e-5):
    """Rounds to a target: cold about as many as on the complete graph, times a power of ρ; a warm start saves a share
    of the difference, at the price of so many gossips."""
    results, facts = {}, {}
    for graph, gap in START_GAPS.items():
        excess = 0.0 if graph == "complete" else 1e-3 * (1 - np.log(gap)) + gap**speed_power - 1
        for kind, share in {"cold": 1.0, "warm": 1 - saved, "mean": 1 - saved}.items():
            metrics = curves(speed=100 * (1 + share * excess), speed_wobble=speed_wobble * np.log(gap), seeds=seeds,
                             loss_wobble=0.0)  # fmt: skip
            paid = gossips if kind == "warm" and graph != "complete" else 0
            results[f"{graph} {kind}"] = result({"biased-dmt": metrics}, first=paid)
            facts[f"{graph} {kind}"] = {"gap": gap}
    return Study("made up", "", TARGET, results, None, facts)


def heterogeneity(absolute=(0.0, 0.01), relative=(1.0, 0.02), seeds=Z):
    parts = {}
    for bias, (power, wobble) in {"absolute": absolute, "relative": relative}.items():
        spreads = {f"{bias} {split}": x for split, x in SPREADS.items()}
        parts[bias] = sweep(spreads, "heterogeneity_at_end", power, wobble, seeds=seeds)
    return study(
        parts["absolute"].results | parts["relative"].results, parts["absolute"].facts | parts["relative"].facts
    )


def study(results, facts=None, tuning=None):
    return Study("made up", "", "", results, tuning, facts or {})


WORLDS = {
    "fig1": fig1,
    "descent": descent,
    "horizon": horizon,
    "sensitivity": sensitivity,
    "fig2": fig2,
    "heterogeneity": heterogeneity,
    "speedup": speedup,
    "corollary": corollary,
    "topology": topology,
    "start": start,
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
