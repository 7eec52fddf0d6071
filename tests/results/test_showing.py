"""What a prompt and a notebook show: one line about each thing, and tables in which nothing acts."""

import re
from html.parser import HTMLParser

import numpy as np

import gossamer as gs
from gossamer.basics.html import panel, tag
from gossamer.basics.table import Table
from gossamer.experiments.audit import Audit
from gossamer.oracles import measure
from gossamer.papers.verdicts import Verdict, Verdicts
from gossamer.results.study import Study
from tests.results.side_by_side import made_up
from tests.table import table

HOSTILE = '<script>alert(1)</script><img src=x onerror="a()">&'

QUADRATIC = gs.problems.quadratic(np.eye(2), np.arange(8.0).reshape(4, 2))
RING = gs.networks.ring(4)
ROWS = {"gnsd": [1.0, 1.1], HOSTILE: [1.2, 1.3]}


class Tags(HTMLParser):
    """The elements and attributes of a page, and whether each element is closed."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes, self.open = set(), set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def harmless(text):
    """Only elements that show something, all closed, with no script, no link and no colour of their own for text."""
    page = Tags(text)
    assert page.open == []
    assert not page.names & {"script", "img", "link", "iframe", "a", "style", "object"}
    assert not {name for name in page.attributes if name.startswith("on")} | (page.attributes & {"src", "href"})
    assert "url(" not in text
    assert not re.search(r"(?<![-\w])(color|background)\s*:(?! inherit)", text)
    return text


def lone_study(result):
    return Study("s", HOSTILE, "", {"": result}, None)


@table(
    ("thing", "line"),
    [
        (gs.BiasedDMT(eta=0.1, lam=0.05), "BiasedDMT(eta=0.1, lam=0.05)"),
        (gs.BiasedDMT(eta=1 / 3, lam=1), "BiasedDMT(eta=0.3333333333333333, lam=1.0)"),
        (gs.DPSGD(gs.schedules.constant(0.1)), "DPSGD(eta=constant(0.1))"),
        (gs.DPSGD(abs), "DPSGD(eta=abs)"),
        (
            gs.BEER(eta=0.1, gamma=0.2, compressor=gs.compressors.top_k(share=0.1)),
            "BEER(eta=0.1, gamma=0.2, compressor=top_k(share=0.1))",
        ),
        (gs.compressors.qsgd(4), "qsgd(levels=4)"),
        (gs.oracles.exact(), "Exact()"),
        (
            gs.oracles.minibatch(64) | gs.oracles.additive_bias(mean=0.002, std=0.005) | gs.oracles.top_k(share=0.1),
            "MiniBatch(batch=64, replace=True) | AdditiveBias(mean=0.002, std=0.005, redraw=False) | "
            "Compressed(compressor=top_k(share=0.1))",
        ),
        (
            gs.oracles.additive_bias(mean=np.zeros(300), std=0.1),
            "AdditiveBias(mean=array[300], std=0.1, redraw=False)",
        ),
        (QUADRATIC, "Quadratic(4 agents, d = 2)"),
        (RING, "ring(4): 4 agents, 4 links, ρ = 0.667"),
        (made_up(dict(list(ROWS.items())[:1])), "Result(gnsd; 2 seeds, 10 rounds; ring, 4 agents; made up)"),
        (
            gs.concat({"a": made_up(ROWS), "b": made_up(ROWS)}),
            f"Study('side-by-side'; 2 variants: a, b; gnsd, {HOSTILE})",
        ),
        (Audit([]), "Audit(0 findings)"),
        (
            Verdict("fig1", "it is faster", "Section V", "yes", "it may not", "2 times", (1.5, 2.5), 0.95, "holds"),
            "Verdict(fig1, 'it is faster': holds)",
        ),
    ],
)  # fmt: skip
def test_everything_is_one_line(thing, line):
    assert repr(thing) == line


def test_long_lines_name_the_first_few_and_count_the_rest():
    losses = {f"rule-{number}": [1.0, 2.0] for number in range(9)}
    assert repr(made_up(losses)).startswith("Result(rule-0, rule-1, rule-2, 6 more; 2 seeds")


def test_a_rule_may_have_a_line_of_its_own():
    @gs.rule("mine")
    class Mine:
        """Mine."""

        eta: gs.StepSize

        def init(self, x, agent):
            return gs.State(x=x)

        def step(self, s, agent):
            return s

        def __repr__(self):
            return "mine!"

    assert repr(Mine(0.1)) == "mine!"


def test_plans_certificates_and_measurements_are_one_line_and_in_full_in_a_notebook():
    plan = gs.theory.plan(QUADRATIC, RING, steps=1000, trial=False)
    assert re.fullmatch(
        r"Plan\(ring\(4\), n=4, rho=0\.6667: printed bound [\d.e+-]+, repaired bound [\d.e+-]+\)", repr(plan)
    )
    assert "Theorem 1" in harmless(plan._repr_html_())
    found = gs.theory.certify(gs.BiasedDMT(0.002, 0.08), QUADRATIC, RING, steps=5)
    assert repr(found).startswith("Certificate(exact, eta=0.002, lam=0.08, 5 rounds: ")
    assert "least slack" in harmless(found._repr_html_())
    measured = measure(gs.oracles.exact(), QUADRATIC, np.zeros(2))
    assert repr(measured) == "Measured(M_f=0, sigma_f_sq=0, sigma_sq=0; 1 point, 4 agents)"


def test_results_studies_and_summaries_are_tables_in_a_notebook():
    result = made_up(ROWS)
    study = gs.concat({HOSTILE: result, "b": made_up(ROWS, network="torus")}, title=HOSTILE)
    for thing in (result, result.summary(), study, study.summary(), lone_study(result)):
        page = harmless(thing._repr_html_())
        assert "1.05 ± 0.6" in page
        assert "&lt;script&gt;alert(1)" in page
        assert len(page) < 10_000
    assert "network differs" in study._repr_html_()


def test_verdicts_are_a_list_and_a_table():
    word = Verdict("fig1", HOSTILE, "Section V", "yes", "it may not", "2 times", (1.5, 2.5), 0.95, "holds")
    other = Verdict("fig2", "c", "Section V", "yes", "it may not", "none", None, None, "undecided")
    verdicts = Verdicts([word, word, other])
    assert verdicts == [word, word, other]
    assert repr(verdicts) == "Verdicts(3 claims: 2 holds, 1 undecided)"
    assert "2 times" in harmless(verdicts._repr_html_())
    assert repr(Verdicts()) == "Verdicts(0 claims: none)"


def test_html_is_escaped_unless_it_was_made_by_a_tag():
    page = panel(HOSTILE, Table([HOSTILE], [[HOSTILE], [tag("b", HOSTILE)]]).html(), None)
    assert harmless(page).count("&lt;script&gt;") == 4
    assert page.count("<b>") == 1
    assert tag("p", title='"><script>') == '<p title="&quot;&gt;&lt;script&gt;"></p>'
