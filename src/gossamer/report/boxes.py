"""The parts of a study that the page's script draws: their switches, places and hints."""

from typing import Any

from gossamer.report import curves as curve_data
from gossamer.report import sections
from gossamer.report.markup import Markup, joined, table, tag
from gossamer.report.names import variants_shown
from gossamer.results.study import Study

HINT = (
    "Lines are means over replicates, geometric on a logarithmic axis; bands are 95 % intervals. Untick a method to "
    "hide it; drag to zoom, double-click to see all, also what diverged beyond the axis."
)

FLOOR = (
    " Dotted: the level ‖ē‖² at which the bias alone keeps ‖∇F‖² once a tracking method has settled; ē is the agents' "
    "mean bias as it was drawn."
)

PAID = (
    "What an agent has paid when the mean curve has come to the target and stays there, between measured rounds on a "
    "straight line; the least of a column is bold. It opens with a target that all methods "
    "kept in their last quarter, but at least half way."
)

STEPS = (
    "Each method's end by step size, with its other hyper-parameters at their best; bands are 95 % intervals. Heavy, "
    "and shaded below: the step sizes around the best that stay near the best end of all methods in every replicate."
)

RANKS = (
    "The profile is the share of variants in which a method ends within a factor τ of the best. Ranks are means over "
    "variants, with 95 % intervals over replicates."
)

MARKS = (
    "★ chosen, × diverged for some seed, (+k) or an open dot: added by the k-th extension of the grid. "
    "What is empty was not tried; the worst quarter has one colour."
)


def curves(number: int, study: Study, drawn: dict[str, Any]) -> Markup:
    """The curves of a study, with switches, a legend and the table of targets."""
    if not drawn["metrics"]:
        return tag("p", "No metric was measured along these runs.", class_="note")
    switches = [
        _switch("variant", "Show", _views(drawn)) if len(drawn["variants"]) > 1 else None,
        _switch("metric", "Metric", [metric["title"] for metric in drawn["metrics"]]),
        _choice(number, "Against", [axis["short"] for axis in drawn["axes"]]),
        tag("label", tag("input", type="checkbox", name="log"), "logarithmic axis", class_="tick"),
    ]
    return tag(
        "div",
        tag("div", *switches, class_="switches"),
        tag("div", class_="plot", id=f"curves-{number}", role="img", aria_label="Curves of the chosen metric"),
        tag("fieldset", class_="legend", aria_label="Methods"),
        tag("p", HINT + (FLOOR if curve_data.floors(study) else ""), class_="hint"),
        _targets(drawn),
        class_="curves",
        data_study=number,
    )


def _views(drawn: dict[str, Any]) -> list[str]:
    """What the curves can show, as the script numbers it: every variant, and methods that several variants have."""
    shared = [
        f"all variants: {style['label']}"
        for k, style in enumerate(drawn["methods"])
        if sum(variant["methods"][k] is not None for variant in drawn["variants"]) > 1
    ]
    return [*(variant["label"] for variant in drawn["variants"]), *shared]


def _targets(drawn: dict[str, Any]) -> Markup:
    slider = tag("input", type="range", name="target", min=0, max=200, value=180, autocomplete="off")
    head = ["Until", *(axis["short"] for axis in drawn["axes"])]
    return tag(
        "div",
        tag("h3", "What it costs to come to a target"),
        tag("label", "Target", slider, tag("output")),
        table(head, [], [False, *(True for _ in drawn["axes"])]),
        tag("p", PAID, class_="hint"),
        class_="targets",
    )


def sensitivity(number: int, study: Study, given: list[dict[str, Any]]) -> Markup | None:
    """Ends by step size; None where step sizes were not compared by a metric."""
    if not given:
        return None
    shown = variants_shown(study)
    variants = [shown.get(str(entry["variant"]), str(entry["variant"])) for entry in given]
    switch = tag("div", _switch("steps-variant", "Variant", variants), class_="switches") if len(variants) > 1 else None
    plot = tag("div", class_="plot", id=f"steps-{number}", role="img", aria_label="Ends of the methods by step size")
    drawn = tag("div", switch, plot, tag("p", class_="key"), class_="sensitivity", data_study=number)
    return joined(tag("h3", "How sensitive methods are to the step size"), drawn, tag("p", STEPS, class_="hint"))


def profile(number: int, given: dict[str, Any] | None) -> Markup | None:
    """The ranks and the profile of `steps.profile`, if there is one."""
    if given is None:
        return None
    plot = tag("div", class_="plot", id=f"profile-{number}", role="img", aria_label="Performance profile")
    rows = [
        [method["label"], _rank(method["rank"], method["half"]), f"{method['best']} of {given['variants']}"]
        for method in sorted(given["methods"], key=lambda method: method["rank"])
    ]
    return joined(
        tag("h3", f"Over all {given['variants']} variants"),
        tag("p", f"By the end of {given['metric']}. {RANKS}", class_="hint"),
        table(["Method", "Mean rank", "Best in"], rows, [False, True, True]),
        tag("div", plot, tag("p", class_="key"), class_="profile", data_study=number),
    )


def _rank(mean: float, half: float | None) -> str:
    return f"{mean:.2f}" if half is None else f"{mean:.2f} ± {half:.2f}"


def tuning(number: int, study: Study, grids: list[dict[str, Any]]) -> Markup | None:
    """The grids that were tried and what was chosen, folded; None where nothing was tuned."""
    if not grids:
        return None
    shown = variants_shown(study)
    variants = [shown.get(name, name) for name in dict.fromkeys(str(grid["variant"]) for grid in grids)]
    switches = [
        _switch("tuned-variant", "Variant", variants) if len(variants) > 1 else None,
        _switch("tuned-method", "Method", list(dict.fromkeys(grid["algorithm"] for grid in grids))),
    ]
    drawn = tag(
        "div",
        tag("div", *switches, class_="switches"),
        tag("div", class_="plot", id=f"tuning-{number}", role="img", aria_label="The settings that were tried"),
        tag("p", MARKS, class_="hint"),
        class_="tuning",
        data_study=number,
    )
    return sections.opened("Tuning: all settings that were tried", joined(drawn, sections.choices(study)))


def _choice(number: int, title: str, options: list[str]) -> Markup:
    """A row of buttons, exactly one of them pressed."""
    buttons = [
        tag(
            "label",
            tag(
                "input", type="radio", name=f"x-{number}", value=k, data_axis=k, autocomplete="off",
                checked="" if k == 0 else None,
            ),
            option,
        )
        for k, option in enumerate(options)
    ]  # fmt: skip
    return tag("fieldset", tag("legend", title), *buttons, class_="choice")


def _switch(name: str, title: str, options: list[str]) -> Markup:
    chosen = [tag("option", option, value=number) for number, option in enumerate(options)]
    return tag("label", title, tag("select", *chosen, name=name, autocomplete="off"))
