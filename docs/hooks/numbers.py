r"""Numbers that the code computes: ``{{ NAME }}`` in a page becomes the number of that name, as text or LaTeX."""

import functools
import math
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mkdocs.exceptions import PluginError

import gossamer as gs
from gossamer import networks, paper, theory
from gossamer.theory.theorem import Form

MARK = re.compile(r"\{\{ ([\w.-]+) \}\}")
TESTS = Path(__file__).parents[2] / "tests"
GRID, PLAIN = TESTS / "theory" / "theory_grid.py", TESTS / "plain.py"
FORMS: tuple[Form, ...] = ("printed", "repaired")


def on_page_markdown(markdown: str, page, config, files) -> str:
    return MARK.sub(lambda found: number(found[1], page.file.src_path), markdown)


def number(name: str, page: str) -> str:
    if name not in NUMBERS:
        raise PluginError(f"{page}: there is no number {name!r}; docs/hooks/numbers.py has {', '.join(NUMBERS)}")
    return NUMBERS[name]()


def gap(agents: int) -> float:
    """The spectral gap of a ring."""
    rho = networks.ring(agents).gap
    assert rho is not None
    return rho


@functools.cache
def ring(smoothness: float = 1.0) -> theory.Constants:
    """The ring of 20."""
    return theory.Constants(agents=20, gap=gap(20), smoothness=smoothness, excess=1.0)


def largest(c: theory.Constants, form: Form) -> tuple[float, float]:
    """The largest λ that the theorem allows, and the largest η at that λ."""
    lam = theory.lam_limit(c, form)
    return lam, theory.eta_limit(c, lam, form)


def corollary_falls() -> float:
    """A₃ over η, as printed, on the ring of 20 at the fewest rounds that Corollary 1 allows."""
    eta, lam = theory.corollary(ring(), theory.steps_limit(ring(), "printed"))
    return theory.descent(ring(), eta, lam, "printed").A3 / eta


def corollary_misses() -> float:
    """By which factor Corollary 1's step misses its condition there."""
    eta, lam = theory.corollary(ring(), theory.steps_limit(ring(), "printed"))
    checked = theory.conditions(ring(), eta, lam, "printed")
    return max(one.missed_by for one in checked if not one.holds and one.missed_by is not None)


@functools.cache
def ring_limits() -> tuple[int, int]:
    """The largest ring with ρ ≥ ½, and the smallest on which A₃ < 0 with the weights of Corollary 1."""
    gaps = {n: gap(n) for n in range(3, 40)}
    fails = [n for n, rho in gaps.items() if _third(n, rho) < 0]
    return max(n for n, rho in gaps.items() if rho >= 0.5), min(fails)


def _third(n: int, rho: float) -> float:
    lam = rho / (4 * math.sqrt(n))
    return theory.coefficients(n, rho, 1.0, 0.0, lam / 16, lam).A3


@functools.cache
def grid() -> dict[str, float]:
    """What the tests' grid of settings gives for the theorem as printed, in units of η."""
    _, lam, eta, a = runpy.run_path(str(GRID))["on_the_grid"]("printed")
    return {"settings": lam.size, **{name: (getattr(a, name) / eta).min() for name in ("A1", "Am", "A3")}}


@functools.cache
def practical() -> dict[str, float]:
    """The setting of the reproduction's longest runs on the paper's problem, and how far beyond the theorem it is."""
    parts = paper.spec_of("fig2").parts()
    chosen = next(each.fixed for each in parts.candidates if each.name == "biased-dmt")
    smoothness = parts.problem.smoothness
    assert smoothness is not None
    lam, eta = largest(ring(smoothness), "repaired")
    over = {"lam.over": chosen["lam"] / lam, "eta.over": chosen["eta"] / eta}
    return {"eta": chosen["eta"], "lam": chosen["lam"], "L": smoothness, **over}


@functools.cache
def quadratics() -> tuple[Any, Any]:
    """Different quadratics of 8 agents, and a network: those of the tests."""
    made = runpy.run_path(str(PLAIN))
    return made["heterogeneous"]()[0], made["irregular"]()


def floor(oracle: Any, eta: float) -> float:
    """‖∇F‖² where Biased-DMT ends on them."""
    rule = gs.BiasedDMT(eta=eta, lam=0.3)
    result = gs.simulate(rule, *quadratics(), oracle, steps=4000, dtype="float64", progress=False)
    return float(result.final("grad_norm_sq")["biased-dmt"][0])


@functools.cache
def local(steps: int) -> dict[str, float]:
    """What local training does to them: by its closed form, and in a run."""
    problem, eta = quadratics()[0], 0.05
    eye = np.eye(problem.dim)
    P = (eye - np.linalg.matrix_power(eye - eta * problem.A, steps)) / (steps * eta)
    settled = np.linalg.solve(P.sum(0), np.einsum("nde,ne->d", P, problem.b))
    relative = float((np.linalg.norm(P @ np.linalg.inv(problem.A) - eye, 2, axis=(1, 2)) ** 2).max())
    return {
        "relative": relative,
        "run": floor(gs.oracles.local_training(steps, eta), 0.05),
        "closed": float((problem.gradient(settled) ** 2).sum()),
        "bound": relative / (1 - relative) * problem.heterogeneity(settled),
    }


def feedback(name: str) -> Any:
    """The largest coordinate of every gradient, without a memory or with one."""
    top = gs.compressors.top_k(1)
    return gs.oracles.compressed(top) if name == "plain" else gs.oracles.error_feedback(top, name)  # pyright: ignore


def digits(value: float, places: int = 3) -> str:
    """That many significant digits, and powers of ten in LaTeX where there would be many zeros."""
    if value and not 1e-3 <= abs(value) < 1e7:
        power = math.floor(math.log10(abs(value)))
        return rf"{value / 10**power:.{places - 1}f} \cdot 10^{{{power}}}"
    whole = round(value, places - 1 - math.floor(math.log10(abs(value)))) if value else 0.0
    return f"{whole:,.0f}" if abs(whole) >= 10 ** (places - 1) else f"{whole:.{places}g}"


def _named() -> dict[str, Callable[[], str]]:
    made: dict[str, Callable[[], str]] = {
        "ring20.gap": lambda: digits(ring().gap, 5),
        "ring20.kappa": lambda: digits(theory.kappa_of(ring(), "repaired"), 4),
        "ring20.A3": lambda: digits(corollary_falls()),
        "ring20.missed": lambda: digits(corollary_misses()),
        "ring20.speedup": lambda: digits(2.25 * 20**5 / ring().gap ** 4, 2),
        "rings.half": lambda: str(ring_limits()[0]),
        "rings.fail": lambda: str(ring_limits()[1]),
        "grid.settings": lambda: f"{grid()['settings']:,}",
    }
    for form in FORMS:
        made |= {
            f"ring20.{form}.lam": lambda form=form: digits(largest(ring(), form)[0]),
            f"ring20.{form}.eta": lambda form=form: digits(largest(ring(), form)[1]),
            f"ring20.{form}.rounds": lambda form=form: f"{math.ceil(theory.steps_limit(ring(), form)):,}",
        }
    for name in ("A1", "Am", "A3"):
        made[f"grid.{name}"] = lambda name=name: digits(grid()[name])
    for name in ("eta", "lam", "L", "lam.over", "eta.over"):
        made[f"practical.{name}"] = lambda name=name: digits(practical()[name])
    for steps in (2, 5, 10):
        for name in ("relative", "run", "closed", "bound"):
            made[f"local.{steps}.{name}"] = lambda steps=steps, name=name: digits(local(steps)[name])
    for name in ("plain", "classic", "ef21"):
        for how, eta in {"wide": 0.1, "narrow": 0.01}.items():
            made[f"feedback.{name}.{how}"] = lambda name=name, eta=eta: digits(floor(feedback(name), eta), 2)
    return made


NUMBERS = _named()
