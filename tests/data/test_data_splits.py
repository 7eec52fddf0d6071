import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gossamer as gs
from gossamer.core import InputError
from gossamer.data import SPLITS, from_arrays, load, split
from tests.table import table

DRAWN = ["by-label", "iid", "dirichlet:0.1", "dirichlet:1e-8", "dirichlet:1e9", "labels:1", "labels:2", "labels:3"]
DRAWN += [f"mixed:{share}" for share in (0, 0.25, 0.5, 0.999, 1)]


def labelled(labels, holders=None):
    return from_arrays(np.zeros((len(labels), 1)), labels, holders=holders)


def assert_partition(parts, rows):
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(rows))
    assert all((np.diff(part) > 0).all() for part in parts)


def mixes(data, parts):
    """The share of each class in each agent's rows."""
    return np.array([(data.labels[part][:, None] == data.classes).mean(0) for part in parts])


@settings(deadline=None)  # the machine may be shared
@given(
    labels=st.lists(st.integers(-2, 2), min_size=1, max_size=60),
    agents=st.integers(1, 12),
    how=st.sampled_from(DRAWN),
    sizes=st.sampled_from(["equal", "as-they-fall"]),
    seed=st.integers(0, 2**32),
)
def test_every_split_is_a_partition(labels, agents, how, sizes, seed):
    data = labelled(labels)
    assume(agents <= data.rows)
    may_fail = how.startswith("labels") or (sizes == "as-they-fall" and how not in ("by-label", "mixed:1"))
    try:
        parts = split(data, agents, how, sizes=sizes, seed=seed)
    except InputError:
        if not may_fail:
            raise
        return
    assert len(parts) == agents
    assert_partition(parts, data.rows)
    lengths = [part.size for part in parts]
    assert min(lengths) >= 1
    if sizes == "equal":
        assert max(lengths) - min(lengths) <= 1
    if how.startswith("labels"):
        assert max(len(set(data.labels[part])) for part in parts) <= int(how[-1])


def test_by_label_keeps_file_order_within_a_label():
    parts = split(labelled([1, 0, 1, 0, 1]), 2)
    assert [part.tolist() for part in parts] == [[0, 1, 3], [2, 4]]
    text = split(labelled(["b", "a", "b", "a"]), 2)
    assert [part.tolist() for part in text] == [[1, 3], [0, 2]]


@pytest.mark.parametrize("how", ["iid", "mixed:0.5", "dirichlet:1", "labels:2"])
@pytest.mark.parametrize("sizes", ["equal", "as-they-fall"])
def test_seed_decides(how, sizes):
    data = load("digits")
    first, again, other = (split(data, 10, how, sizes=sizes, seed=seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@settings(deadline=None)
@given(
    labels=st.lists(st.integers(-2, 2), min_size=12, max_size=60),
    agents=st.integers(1, 12),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_mixed_sorts_its_share_of_the_rows(labels, agents, share, seed):
    """Each agent holds its consecutive part of the sorted rows, whatever comes on top of it."""
    data = labelled(labels)
    order = np.random.default_rng(seed).permutation(data.rows)
    ranked = np.sort(data.labels[order[: round(share * data.rows)]])
    for part, whole in zip(
        np.array_split(ranked, agents), split(data, agents, f"mixed:{share}", seed=seed), strict=True
    ):
        for value, count in zip(*np.unique(part, return_counts=True), strict=True):
            assert (data.labels[whole] == value).sum() >= count


@pytest.mark.parametrize("sizes", ["equal", "as-they-fall"])
@pytest.mark.parametrize(("share", "end"), [("0", "iid"), ("1", "by-label")])
def test_mixed_ends_in_the_splits_it_mixes(share, end, sizes):
    data = load("digits")
    for mixed, pure in zip(
        split(data, 7, f"mixed:{share}", sizes=sizes, seed=5), split(data, 7, end, sizes=sizes, seed=5), strict=True
    ):
        np.testing.assert_array_equal(mixed, pure)


def spread(how):
    problem = gs.problems.logistic("a9a", agents=20, split=how)
    return float(problem.heterogeneity(problem.start))


def test_mixed_goes_evenly_from_alike_to_sorted():
    """Gradients differ in proportion to S, so that the root of the heterogeneity rises by equal steps."""
    roots = np.sqrt([spread(f"mixed:{share}") for share in (0, 0.25, 0.5, 0.75, 1)])
    np.testing.assert_allclose(np.diff(roots[1:]), roots[-1] / 4, rtol=0.05)
    assert roots[0] < roots[-1] / 20
    assert roots[-1] == np.sqrt(spread("by-label"))


def test_dirichlet_with_equal_sizes_stays_far_from_sorted():
    """As the split's description says: below A = 1 little changes, and agents differ far less than sorted."""
    wide, narrow, sorted_ = spread("dirichlet:1"), spread("dirichlet:0.01"), spread("by-label")
    assert wide < narrow < 1.25 * wide
    assert narrow < sorted_ / 4


@pytest.mark.parametrize("sizes", ["equal", "as-they-fall"])
def test_dirichlet_differs_more_for_smaller_a(sizes):
    data = labelled(np.repeat(np.arange(5), 400))

    def spread(a):
        parts = [split(data, 5, f"dirichlet:{a}", sizes=sizes, seed=seed) for seed in range(4, 20)]
        return np.mean([np.abs(mixes(data, part) - 0.2).sum(1).mean() for part in parts])

    spreads = [spread(a) for a in ("0.7", "3", "30", "1e6")]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[0] > 0.5
    assert spreads[-1] < 0.02


def test_dirichlet_equal_stays_uneven_when_shares_underflow():
    data = load("digits")
    largest = [mixes(data, split(data, 50, "dirichlet:1e-5", seed=seed)).max(1).mean() for seed in range(5)]
    assert np.mean(largest) > 0.8


def test_dirichlet_as_they_fall_has_the_right_mean_and_variance():
    labels, agents, a = np.zeros(1000), 4, 2.0
    shares = np.array([split_sizes(labels, agents, f"dirichlet:{a}", seed) for seed in range(400)]) / 1000
    np.testing.assert_allclose(shares.mean(0), 1 / agents, atol=0.03)
    np.testing.assert_allclose(shares.var(0), (1 / agents) * (1 - 1 / agents) / (agents * a + 1), rtol=0.25)


def split_sizes(labels, agents, how, seed):
    return [part.size for part in split(labelled(labels), agents, how, sizes="as-they-fall", seed=seed)]


@pytest.mark.parametrize("sizes", ["equal", "as-they-fall"])
@pytest.mark.parametrize(("agents", "k"), [(10, 2), (10, 3), (5, 2), (25, 4), (7, 10)])
def test_each_agent_sees_k_labels_and_every_label_is_held(sizes, agents, k):
    data = load("digits")
    try:
        held = mixes(data, split(data, agents, f"labels:{k}", sizes=sizes)) > 0
    except InputError:
        assert (agents, k, sizes) == (5, 2, "equal")  # ten labels in five pairs: no row has a second place to go
        return
    assert held.sum(1).tolist() == [k] * agents
    assert held.any(0).all()


def test_frequent_labels_get_more_agents():
    data = load("a9a")
    negatives = sum(data.labels[part][0] == -1 for part in split(data, 20, "labels:1", sizes="as-they-fall"))
    assert negatives == 15


def test_iid_sizes_as_they_fall_vary_but_equal_ones_do_not():
    data = load("digits")
    assert len({part.size for part in split(data, 10, "iid", sizes="as-they-fall")}) > 2
    assert {part.size for part in split(data, 10, "iid")} == {143, 144}


@pytest.mark.parametrize("agents", [None, 3])
@pytest.mark.parametrize("sizes", ["equal", "as-they-fall"])
def test_column_gives_each_value_an_agent_in_order(agents, sizes):
    data = labelled([0, 1, 0, 1, 1, 0], holders=["c", "a", "b", "a", "a", "c"])
    parts = split(data, agents, "column:site", sizes=sizes)
    assert [part.tolist() for part in parts] == [[1, 3, 4], [2], [0, 5]]


def test_column_must_be_the_one_that_was_loaded(tmp_path):
    (tmp_path / "t.csv").write_text("x,label,site,ward\n1,0,9,2\n1,0,8,1\n")
    data = load(tmp_path / "t.csv", holder="site")
    assert [part.tolist() for part in split(data, None, "column:site")] == [[1], [0]]
    with pytest.raises(InputError, match="loaded with holder='site', so it cannot be split by 'ward'"):
        split(data, None, "column:ward")


@table(
    ("agents", "how", "options", "message"),
    [
        (9, "by-label", {}, "9 agents cannot share 6 rows: that is 3 more than there are rows. Use at most 6"),
        (0, "by-label", {}, "the number of agents must be a whole number of at least 1, but is 0"),
        (2.0, "iid", {}, "but is 2.0"),
        (None, "iid", {}, "the number of agents must be a whole number of at least 1, but is None"),
        (2, "by-lable", {}, "unknown split 'by-lable': did you mean 'by-label'"),
        (2, "dirichlet", {}, "unknown split 'dirichlet': did you mean 'dirichlet:A'"),
        (2, "labels:", {}, "unknown split 'labels:': did you mean 'labels:K'"),
        (2, "iid:3", {}, "unknown split 'iid:3': did you mean 'iid'"),
        (2, "iid", {"sizes": "eqal"}, "unknown sizes 'eqal': did you mean 'equal'"),
        (2, "iid", {"seed": -1}, "the seed of a split must be a whole number of at least 0, but is -1"),
        (2, "dirichlet:0", {}, r"A in 'dirichlet:0' must be a number in \(0, ∞\), but is 0"),
        (2, "dirichlet:inf", {}, "A in 'dirichlet:inf'"),
        (2, "dirichlet:x", {}, "A in 'dirichlet:x'"),
        (2, "mixed", {}, "unknown split 'mixed': did you mean 'mixed:S'"),
        (2, "mixed:1.5", {}, r"S in 'mixed:1.5' must be a number in \[0, 1\], but is 1.5. It is the share of the rows"),
        (2, "mixed:-0.1", {}, "S in 'mixed:-0.1'"),
        (2, "mixed:nan", {}, "S in 'mixed:nan'"),
        (2, "labels:4", {}, "K in 'labels:4', the labels of an agent, must be a whole number of at most 3, but is 4"),
        (2, "labels:0", {}, "K in 'labels:0'"),
        (2, "labels:1.5", {}, "K in 'labels:1.5'"),
        (2, "labels:1", {}, "at most 2 labels, but there are 3. Use K of at least 2"),
        (3, "labels:1", {}, 'no dealing of labels:1 over 3 agents .* Use a larger K, or sizes="as-they-fall"'),
        (6, "dirichlet:1e-9", {"sizes": "as-they-fall"}, "leaves agent . and . more of 6 with no row: use a larger A"),
        (2, "column:site", {}, "does not say who holds a row, .* Load a table with holder='site'"),
        (3, [[0], [1]], {}, "split has 2 lists of rows, one for each agent, but agents=3"),
        (None, [], {}, "split has no lists of rows: give one for each agent"),
        (None, [[0], []], {}, "the rows of agent 1 must be"),
        (None, [[0], [0.5]], {}, r"the rows of agent 1 must be whole numbers, one at least, but are \[0\.5\]"),
        (None, [[0], ["a"]], {}, "the rows of agent 1 must be numbers"),
        (None, [[0], [True, False]], {}, "the rows of agent 1 must be numbers"),
        (None, [[0], [[1, 2]]], {}, "the rows of agent 1 must be whole numbers"),
        (None, [[0], [1, 6]], {}, "agent 1 has row 6, but the rows of arrays are 0 to 5"),
        (None, [[0], [-1]], {}, "agent 1 has row -1, but"),
        (None, [[0, 3], [1], [3, 3]], {}, r"row 3 is held 3 times, by agents \[0, 2, 2\]: leave it in one list"),
    ],
)
def test_bad_requests_are_named(agents, how, options, message):
    with pytest.raises(InputError, match=message):
        split(labelled([0, 0, 0, 1, 1, 2]), agents, how, **options)


def test_lists_of_rows_are_sorted_and_may_leave_rows_out():
    parts = split(labelled([0, 0, 0, 1, 1, 2]), 2, [np.array([4, 1]), (2,)])
    assert [part.tolist() for part in parts] == [[1, 4], [2]]


def test_column_with_another_number_of_agents():
    with pytest.raises(InputError, match="column 'site' of arrays has 2 values, one for each agent, but agents=3"):
        split(labelled([0, 1, 1], holders=[5, 5, 6]), 3, "column:site")


def test_every_form_is_described():
    assert {form.partition(":")[0] for form in SPLITS} == {"by-label", "iid", "mixed", "dirichlet", "labels", "column"}
