"""Judge the paper's theory by bounds that a machine proves, and write docs/proofs.md from docs/templates/proofs.txt.

python docs/proofs.py             all of it
python docs/proofs.py floors      some of `theorem`, `corollary`, `floors`, `phases` and `momentum`, anew, and the page
python docs/proofs.py page        only the figure and the page, from what was stored
"""

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import drawing
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from tables import table

import gossamer as gs
from gossamer import theory
from gossamer.report.styles import AMBER, BLUE, COLORS, SKY, VERMILION
from gossamer.theory.theorem import Form
from gossamer.worst import LyapunovBound, NotProven
from gossamer.worst.certificate import ask

HERE = Path(__file__).parent
ASSETS = HERE / "assets" / "proofs"
FOUND = ASSETS / "found.json"

BIAS, VARIANCE, ROUNDS = 0.01, 1.0, 1e3
"""σ_f², σ², and ηLT, where Theorem 1 is judged; L = Δ = ζ₀² = ζ² = 1, M_f = 0."""
FORM: Form = "printed"
TWICE = 2.0
"""A floor of at most so many times σ_f² is wanted of the largest steps."""
ANY, MOST = 1e3, 10.0
"""A ζ² so large that a floor of at most MOST σ_f² leaves it a constant of 1/100: in effect the bound is without ζ²."""
LONG = (10**5, 10**6, 10**7, 10**8)
"""The T at which Corollary 1 is judged on the ring of 20."""
RELATIVE = (1 / 256, 0.1, 0.3, 0.6, 0.9)
"""M_f, where floors are compared with their closed form."""
RATIOS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""ηL/ρ, where D-PSGD's floor is."""
ETAS = np.geomspace(0.05, 4.0, 27)
"""η in units of ρ/L, in the phase diagram."""
LAMBDAS = np.geomspace(0.02, 1.0, 14)
PHASES = ("proved, with ζ²/100 at most", "proved, with more of ζ²", "open", "diverges on quadratics")
PHASE_COLORS = (COLORS[BLUE], COLORS[SKY], COLORS[AMBER], COLORS[VERMILION])
GAPS, HORIZONS = (0.05, 0.2, 0.5, 1.0), (10**2, 10**3, 10**4, 10**5, 10**6)
"""ρ of two agents, and T, where momentum tracking is compared."""
METHODS = {"Biased-DMT": gs.BiasedDMT(eta=0.25, lam=0.5), "GT-DSGD": gs.GTDSGD(eta=0.25), "GNSD": gs.GNSD(eta=0.25)}


def two(gap: float, sign: float = 1.0) -> gs.networks.Network:
    """Return two agents with this gap, whose other eigenvalue has this sign."""
    w = sign * (1 - gap)
    return gs.networks.from_matrix(np.array([[1 + w, 1 - w], [1 - w, 1 + w]]) / 2)


def networks() -> dict[str, gs.networks.Network]:
    """Return the networks on which Theorem 1 is judged."""
    ring, complete = gs.networks.ring, gs.networks.complete
    return {"two agents, w = ½": two(0.5), "ring of 5": ring(5), "complete, 20": complete(20), "ring of 20": ring(20)}


def constants(network: gs.networks.Network, absolute: float = BIAS, variance: float = VARIANCE) -> theory.Constants:
    """Return the numbers of a problem with L = Δ = ζ₀² = ζ² = 1; ‖∇F(x⁰)‖² is at most 2LΔ."""
    return theory.Constants(
        network.agents, float(network.gap or 0), 1.0, 1.0, 0.0, absolute, variance, 1.0, 1.0, gradients_at_start=3.0
    )


def in_short(found: LyapunovBound) -> dict[str, Any]:
    """Return what is stored of a bound."""
    numbers = {name: getattr(found.rule, name) for name in ("eta", "lam") if hasattr(found.rule, name)}
    return numbers | found.constants | {"bound": found.bound(), "floor": found.floor, "seconds": found.seconds}


def measure_theorem(found: dict[str, Any]) -> None:
    """Compare the terms of Theorem 1, at its own largest λ and η, with the best that is proved there."""
    rows = {}
    for name, network in networks().items():
        c = constants(network)
        lam = theory.lam_limit(c, FORM)
        eta = theory.eta_limit(c, lam, FORM)
        steps, rule = ROUNDS / eta, gs.BiasedDMT(eta=eta, lam=lam)
        told = theory.bound(c, eta, lam, steps, FORM)
        quiet = gs.certificate(rule, network, bias=(0, BIAS), steps=steps)
        noisy = gs.certificate(rule, network, bias=(0, BIAS), noise=VARIANCE, steps=steps)
        began = time.monotonic()
        start = gs.BiasedDMT(eta=0.3 * c.gap, lam=0.5)
        largest = gs.largest_step(start, network, bias=(0, 1), heterogeneity=ANY, floor=1.01 * TWICE)
        rows[name] = {
            "gap": c.gap,
            "eta": eta,
            "lam": lam,
            "theorem": {
                "bias": told.bias / BIAS,
                "noise": told.noise / VARIANCE,
                "start": told.transient * eta * steps,
                "quiet": told.total - told.noise,
                "total": told.total,
            },
            "quiet": in_short(quiet),
            "noisy": in_short(noisy),
            "largest": in_short(largest) | {"seconds": time.monotonic() - began},
        }
        print(name, rows[name], flush=True)
    found["theorem"] = rows


def measure_corollary(found: dict[str, Any]) -> None:
    """Compare Corollary 1 on the ring of 20 with the best bound that is proved, at its own λ, η and at the best."""
    network, rows = gs.networks.ring(20), []
    c = constants(network, absolute=0.0)
    for steps in LONG:
        eta, lam = theory.corollary(c, steps)
        asked = {"noise": VARIANCE, "steps": steps}
        row: dict[str, Any] = {"steps": steps, "eta": eta, "lam": lam}
        row["conditions"] = {form: theory.bound(c, eta, lam, steps, form).applies for form in ("printed", "repaired")}
        row["repaired"] = theory.bound(c, eta, lam, steps, "repaired").total
        row["theorem"] = theory.best_bound(c, steps, "repaired").total
        try:
            row["there"] = in_short(gs.certificate(gs.BiasedDMT(eta=eta, lam=min(lam, 1.0)), network, **asked))
        except NotProven:
            row["there"] = None
        best = gs.best_step(gs.BiasedDMT(eta=min(0.02, 4 * math.sqrt(40 / steps)), lam=0.05), network, **asked)
        row["best"] = in_short(best)
        row["optimum"] = math.sqrt(2 * VARIANCE / (network.agents * steps))
        rows.append(row)
        print(row, flush=True)
    found["corollary"] = rows


def measure_floors(found: dict[str, Any]) -> None:
    """Compare proved floors with closed forms."""
    biased, d_psgd = [], []
    for relative in RELATIVE:
        one = gs.certificate(gs.BiasedDMT(eta=0.02, lam=0.1), two(0.5), bias=(relative, 1.0), steps=1e6)
        biased.append({"relative": relative} | in_short(one))
    for ratio in RATIOS:
        one = gs.certificate(gs.DPSGD(eta=0.5 * ratio), two(0.5), steps=1e6)
        d_psgd.append({"ratio": ratio} | in_short(one))
    found["floors"] = {"biased": biased, "d_psgd": d_psgd}
    print(found["floors"], flush=True)


def panels() -> dict[str, gs.networks.Network]:
    """Return the networks of the phase diagram."""
    return {"two agents, w = ½": two(0.5), "two agents, w = −½": two(0.5, -1), "ring of 5": gs.networks.ring(5)}


def phase(rule: Any, network: gs.networks.Network) -> int:
    """Return the index in PHASES of a setting."""
    deadline = time.monotonic() + 60
    for heterogeneity, floor, kind in ((ANY, MOST, 0), (1.0, math.inf, 1)):
        asked = ask(rule, network, bias=(0, 1), heterogeneity=heterogeneity, steps=1e4 / rule.eta)
        try:
            if asked.attempt(rule, deadline).floor <= floor:
                return kind
        except NotProven:
            pass
    return 2 if gs.diverging(rule, network) is None else 3


def measure_phases(found: dict[str, Any]) -> None:
    """Find what is proved, what diverges and what is open, over η/ρ and λ."""
    found["phases"] = {}
    for name, network in panels().items():
        gap = float(network.gap or 0)
        kinds = {
            "Biased-DMT": [[phase(gs.BiasedDMT(eta=gap * e, lam=lam), network) for e in ETAS] for lam in LAMBDAS],
            "GT-DSGD": [[phase(gs.GTDSGD(eta=gap * e), network) for e in ETAS]],
            "D-PSGD": [[phase(gs.DPSGD(eta=gap * e), network) for e in ETAS]],
        }
        found["phases"][name] = kinds
        print(name, {k: np.bincount(np.ravel(v), minlength=4).tolist() for k, v in kinds.items()}, flush=True)


def measure_momentum(found: dict[str, Any]) -> None:
    """Compare the best proved bounds of methods, each at its own best step sizes, by ρ and T."""
    rows = []
    for gap in GAPS:
        for steps in HORIZONS:
            row: dict[str, Any] = {"gap": gap, "steps": steps}
            for name, rule in METHODS.items():
                row[name] = in_short(gs.best_step(rule, two(gap), noise=VARIANCE, steps=steps))
            rows.append(row)
        print(rows[-1], flush=True)
    found["momentum"] = rows


def drawn_phases(found: dict[str, Any]) -> Figure:
    """Draw the phase diagram: a panel for each network, and below it the methods without λ."""
    kinds = found["phases"]
    figure = Figure(figsize=(9.2, 3.6), layout="constrained", dpi=200)
    maps, strips = figure.subplots(2, len(kinds), sharex=True, height_ratios=[5, 1.3])
    colors = ListedColormap(PHASE_COLORS)
    edges_x, edges_y = _edges(ETAS), _edges(LAMBDAS)
    for k, (name, of) in enumerate(kinds.items()):
        upper, lower = maps[k], strips[k]
        upper.pcolormesh(edges_x, edges_y, np.array(of["Biased-DMT"]), cmap=colors, vmin=-0.5, vmax=3.5)
        upper.set(xscale="log", yscale="log", title=name)
        both = np.concatenate([of["D-PSGD"], of["GT-DSGD"]])
        lower.pcolormesh(edges_x, [0, 1, 2], both, cmap=colors, vmin=-0.5, vmax=3.5)
        lower.set_yticks([0.5, 1.5], ["D-PSGD", "GT-DSGD"] if k == 0 else ["", ""])
        lower.set_xlabel(r"$\eta L / \rho$")
        lower.minorticks_off()
        lower.set_xticks([0.1, 0.3, 1, 3], ["0.1", "0.3", "1", "3"])
    maps[0].set_ylabel("Biased-DMT\n" + r"$\lambda$ (GNSD: 1)")
    handles = [Patch(facecolor=color, label=name) for color, name in zip(PHASE_COLORS, PHASES, strict=True)]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def _edges(centres: np.ndarray) -> np.ndarray:
    half = math.sqrt(centres[1] / centres[0])
    return np.append(centres / half, centres[-1] * half)


def number(value: float | None) -> str:
    """Return a number in three digits."""
    return "none" if value is None else f"{value:.3g}"


def page(found: dict[str, Any]) -> str:
    """Return the page."""
    theorem, corollary, momentum = found["theorem"], found["corollary"], found["momentum"]
    floors = found["floors"]
    n = number
    return (
        (HERE / "templates" / "proofs.txt")
        .read_text(encoding="utf-8")
        .format(
            bias=f"{BIAS:g}",
            variance=f"{VARIANCE:g}",
            rounds=f"{ROUNDS:,.0f}",
            theorem=table(
                [
                    *("network", "ρ", "λ, η of the theorem", "σ_f²: theorem / proved", "σ²: theorem / proved"),
                    *("start, times Δ/(ηT)", "total, σ² = 0", "total, σ² = 1"),
                ],
                [
                    (
                        name,
                        n(r["gap"]),
                        f"{n(r['lam'])}, {n(r['eta'])}",
                        f"{n(r['theorem']['bias'])} / {r['quiet']['bias']:.4g}",
                        f"{n(r['theorem']['noise'])} / {n(r['noisy']['noise'])}",
                        f"{n(r['theorem']['start'])} / {n((r['quiet']['excess'] + r['quiet']['start']) * r['eta'])}",
                        f"{n(r['theorem']['quiet'])} / {n(r['quiet']['bound'])}",
                        f"{n(r['theorem']['total'])} / {n(r['noisy']['bound'])}",
                    )
                    for name, r in theorem.items()
                ],
            ),
            steps=table(
                ["network", "theorem's largest η", "proved", "times as large", "in units of ρ/L", "its floor"],
                [
                    (
                        name,
                        n(r["eta"]),
                        n(r["largest"]["eta"]),
                        f"{r['largest']['eta'] / r['eta']:,.0f}",
                        n(r["largest"]["eta"] / r["gap"]),
                        f"{r['largest']['bias']:.3g} σ_f²",
                    )
                    for name, r in theorem.items()
                ],
            ),
            looser_bias=n(max(r["theorem"]["bias"] / r["quiet"]["bias"] for r in theorem.values())),
            looser_noise=" to ".join(
                f"{v:,.0f}" for v in _ends(r["theorem"]["noise"] / r["noisy"]["noise"] for r in theorem.values())
            ),
            larger=" to ".join(f"{v:,.0f}" for v in _ends(r["largest"]["eta"] / r["eta"] for r in theorem.values())),
            corollary=table(
                [
                    *("T", "Corollary 1's η, λ", "its conditions", "repaired theorem there", "best proof there"),
                    *("best η, λ", "best proof", "√(2LΔσ²/(nT))"),
                ],
                [
                    (
                        f"{r['steps']:,}",
                        f"{n(r['eta'])}, {n(r['lam'])}",
                        "hold" if r["conditions"]["repaired"] else "do not hold",
                        n(r["repaired"]),
                        n(r["there"]["bound"]) if r["there"] else "none",
                        f"{n(r['best']['eta'])}, {n(r['best']['lam'])}",
                        n(r["best"]["bound"]),
                        n(r["optimum"]),
                    )
                    for r in corollary
                ],
            ),
            above="; ".join(f"{r['best']['bound'] / r['optimum'] - 1:.0%} at T = {r['steps']:,}" for r in corollary),
            floors=table(
                ["M_f", "proved constant of σ_f²", "1/(1 − M_f)", "proved constant of ζ²", "M_f/(1 − M_f)"],
                [
                    (
                        n(r["relative"]),
                        f"{r['bias']:.4f}",
                        f"{1 / (1 - r['relative']):.4f}",
                        f"{r['heterogeneity']:.4f}",
                        f"{r['relative'] / (1 - r['relative']):.4f}",
                    )
                    for r in floors["biased"]
                ],
            ),
            d_psgd=table(
                ["r = ηL/ρ", "proved constant of ζ²", "r²/(1 − r²)"],
                [
                    (f"{r['ratio']:g}", f"{r['heterogeneity']:.5f}", f"{r['ratio'] ** 2 / (1 - r['ratio'] ** 2):.5f}")
                    for r in floors["d_psgd"]
                ],
            ),
            picture=drawing.picture("What is proved, what diverges and what is open", "assets/proofs/phases.png"),
            phases=table(
                ["network", "method", *PHASES],
                [
                    (network, method, *(f"{v:.0%}" for v in np.bincount(np.ravel(of), minlength=4) / np.size(of)))
                    for network, kinds in found["phases"].items()
                    for method, of in kinds.items()
                ],
            ),
            momentum=table(
                ["ρ", "T", *METHODS, "Biased-DMT's λ", "GNSD / Biased-DMT", "GT-DSGD / Biased-DMT"],
                [
                    (
                        f"{r['gap']:g}",
                        f"{r['steps']:,}",
                        *(n(r[name]["bound"]) for name in METHODS),
                        n(r["Biased-DMT"]["lam"]),
                        *(f"{r[name]['bound'] / r['Biased-DMT']['bound']:.3f}" for name in ("GNSD", "GT-DSGD")),
                    )
                    for r in momentum
                ],
            ),
            opened=sum(of.count(2) for kinds in found["phases"].values() for rows in kinds.values() for of in rows),
            drawn=sum(len(of) for kinds in found["phases"].values() for rows in kinds.values() for of in rows),
            over_gnsd=sum(r["GNSD"]["bound"] > 1.01 * r["Biased-DMT"]["bound"] for r in momentum),
            over_gt=sum(r["GT-DSGD"]["bound"] > 1.01 * r["Biased-DMT"]["bound"] for r in momentum),
            under_gt=sum(1.01 * r["GT-DSGD"]["bound"] < r["Biased-DMT"]["bound"] for r in momentum),
            cells=len(momentum),
            slowest=f"{max(r[k]['seconds'] for r in theorem.values() for k in ('quiet', 'noisy')):.1f}",
            largest_slowest=f"{max(r['largest']['seconds'] for r in theorem.values()):.0f}",
        )
    )


def _ends(values: Any) -> tuple[float, float]:
    known = [*values]
    return min(known), max(known)


def main() -> None:
    parts = {
        "theorem": measure_theorem,
        "corollary": measure_corollary,
        "floors": measure_floors,
        "phases": measure_phases,
        "momentum": measure_momentum,
    }
    wanted = sys.argv[1:] or list(parts)
    ASSETS.mkdir(parents=True, exist_ok=True)
    found = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}
    for name, measure in parts.items():
        if name in wanted:
            measure(found)
            FOUND.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if set(parts) <= set(found):
        drawing.save(drawn_phases(found), ASSETS / "phases.png")
        (HERE / "proofs.md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
