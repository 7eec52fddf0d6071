"""Studies for reports: a tiny real run, and made-up tuning, facts and verdicts."""

from dataclasses import replace
from functools import cache

import networkx as nx
import polars as pl

import gossamer as gs
from gossamer.results.study import Study
from tests import plain

HOSTILE = "<img src=x onerror=alert(1)>"
BREAKOUT = "</script><script>window.hacked=1</script>"


@cache
def result(steps=40, every=2, seeds=3):
    """Two methods that converge and one that diverges."""
    problem, _ = plain.heterogeneous()
    rules = [gs.BiasedDMT(0.05, 0.3), gs.DSGT(0.05), gs.DPSGD(50.0)]
    oracle = gs.oracles.additive_bias(mean=0.1, std=0.2, redraw=True)
    return gs.simulate(
        rules,
        problem,
        plain.irregular(),
        oracle,
        steps=steps,
        every=every,
        seeds=seeds,
        dtype="float64",
        progress=False,
    )


def with_columns(given, **columns):
    """The result with columns more."""
    return replace(given, table=given.table.with_columns(**columns))


def tuning(variants):
    """A grid of η and λ for one method, with an extension and a diverged column; a line of η for another."""
    rows = []
    for variant in variants:
        for stage, eta in [(0, 0.01), (0, 0.1), (0, 1.0), (1, 0.001)]:
            for lam in (0.05, 0.3, 1.0):
                value = None if eta == 1.0 else abs(eta - 0.05) + 0.01 / lam
                rows.append((variant, "biased-dmt", eta, lam, value, 2 if eta == 1.0 else 0, stage))
            rows.append((variant, "dsgt", eta, None, None if eta == 1.0 else eta + 0.5, int(eta == 1.0), stage))
    frame = pl.DataFrame(
        rows, orient="row", schema=["variant", "algorithm", "eta", "lam", "value", "diverged", "stage"]
    )
    setting = pl.when(pl.col("lam").is_null()).then(pl.format("eta={}", "eta"))
    setting = setting.otherwise(pl.format("eta={}, lam={}", "eta", "lam")).alias("setting")
    best = (pl.col("value") == pl.col("value").min().over("variant", "algorithm")).fill_null(False).alias("chosen")
    return frame.select(
        "variant",
        pl.lit(0, pl.Int64).alias("replicate"),
        "algorithm",
        setting,
        "eta",
        "lam",
        pl.lit("loss").alias("criterion"),
        "value",
        "diverged",
        "stage",
        best,
    )


def facts(agents=8, edges=None):
    links = [[i, j] for i, j in nx.cycle_graph(agents).edges] if edges is None else edges
    counts = [[10 * (agent + 1), 5, 0 if agent % 2 else 40] for agent in range(agents)]
    return {
        "agents": agents, "network": "ring", "gap": 0.0976, "links": len(links), "smoothness": 3.21,
        "heterogeneity": 1.5, "classes": [-1, 1, "both"], "counts": counts, "bias_sq": 0.0123,
        "criterion": "mean loss of the last tenth", "edges": links,
    }  # fmt: skip


def study(variants=("ring", "complete"), name="bias", title="Bias on two networks"):
    seconds = {f"seconds{end}": 0.2 * pl.col("round") for end in ("", "_low", "_high")}
    base = with_columns(result(), **seconds)
    found = {"ring": facts(), "complete": facts(edges=[list(edge) for edge in nx.complete_graph(8).edges])}
    return Study(
        name=name,
        title=title,
        spec='[problem]\nname = "quadratic"  # a < b & c\n',
        results={
            variant: with_columns(base, loss=pl.col("loss") * (1 + number)) for number, variant in enumerate(variants)
        },
        tuning=tuning(variants),
        facts={variant: found.get(variant, facts()) for variant in variants},
    )


VERDICTS = [
    {"experiment": "bias", "claim": "DMT stops at 2‖ē‖²", "paper": "≤ 0.025", "measured": 0.0201234,
     "interval": [0.018, 0.0223], "level": 0.95, "verdict": "holds"},
    {"experiment": "bias", "claim": "DSGT is faster & 100% safe", "paper": "yes", "measured": "never",
     "interval": None, "level": None, "verdict": "does not hold"},
    {"experiment": "other", "claim": "A third", "paper": "yes", "measured": 1.0, "interval": [0.5, 2.0], "level": 0.95,
     "verdict": "undecided"},
]  # fmt: skip
