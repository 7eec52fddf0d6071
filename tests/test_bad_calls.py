"""Calls that cannot be: whatever a maker is given, it answers or says what is wrong, and NumPy and JAX never see it."""

import inspect
import math
from itertools import product
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import gossamer as gs
from gossamer import compressors, networks, oracles, problems, schedules
from gossamer.core import InputError, Range, brief, flag, nearest, whole
from tests.table import table

RING = networks.ring(4)
QUADRATIC = problems.quadratic(np.eye(2), [[1.0, 2.0], [0.0, 1.0], [3.0, 1.0], [1.0, 1.0]])
DATA = (np.arange(40.0).reshape(20, 2) % 7, np.arange(20) % 2)
RULE = gs.BiasedDMT(eta=0.1, lam=0.1)
TORUS = Path(__file__).parent / "networks" / "torus16.edges"
ONLINE = Path(__file__).parent / "torch_engine" / "online.csv"

DEEP: list = []
for _ in range(400):
    DEEP = [DEEP]

NEVER = [
    *(-1, 10**5000, math.nan, -math.inf, 1j, "", "often", "a\0", "\ud800", "x" * 5000, b"1"),
    *({"a": 1}, {1, 2}, DEEP, [[1], [1, 2]], ["a"], object(), int, np.array(["a"]), np.array([None]), np.array([1j])),
    *(np.zeros((3, 4, 5)), np.full(2, np.nan), 2 * sp.eye_array(3), nx.Graph(), True),
]
"""What no argument below takes."""

CALLS = [
    (networks.ring, {"agents": 4, "weights": "lazy"}),
    (networks.path, {"agents": 4, "weights": "lazy"}),
    (networks.star, {"agents": 4, "weights": "lazy"}),
    (networks.complete, {"agents": 4}),
    (networks.torus, {"rows": 2, "columns": 2, "weights": "lazy"}),
    (networks.hypercube, {"agents": 4, "weights": "lazy"}),
    (networks.exponential, {"agents": 4}),
    (networks.erdos_renyi, {"agents": 4, "probability": 0.9, "seed": 0, "weights": "lazy"}),
    (networks.random_regular, {"agents": 4, "degree": 2, "seed": 0, "weights": "lazy"}),
    (networks.random_geometric, {"agents": 4, "radius": 0.9, "seed": 0, "weights": "lazy"}),
    (networks.tree, {"agents": 4, "degree": 3, "weights": "lazy"}),
    (networks.spanning_tree, {"agents": 4, "of": "ring", "root": 1, "weights": "lazy"}),
    (networks.hierarchical, {"agents": 4, "cliques": 2, "between": "ring", "weights": "lazy"}),
    (networks.d_equistatic, {"agents": 4, "degree": 2, "seed": 0}),
    (networks.u_equistatic, {"agents": 4, "degree": 2, "seed": 0}),
    (networks.od_equidyn, {"agents": 4, "seed": 0}),
    (networks.ou_equidyn, {"agents": 4, "seed": 0}),
    (networks.base_graph, {"agents": 4, "degree": 1}),
    (networks.k_peer_exponential, {"agents": 4, "degree": 1}),
    (networks.compare, {"agents": 4, "degree": 2, "target": 0.5, "rounds": 2}),
    (RING.effective_neighbors, {"decay": 0.5}),
    (RING.disagreement, {"rounds": 2, "until": 0.5, "start": np.arange(4.0), "seed": 0}),
    (networks.directed_ring, {"agents": 4}),
    (networks.directed_erdos_renyi, {"agents": 4, "probability": 0.9, "seed": 0}),
    (networks.one_peer_exponential, {"agents": 4}),
    (networks.random_matching, {"agents": 4, "seed": 0}),
    (networks.redrawn, {"agents": 4, "probability": 0.5, "seed": 0}),
    (networks.every, {"network": RING, "rounds": 2}),
    (networks.failing, {"network": RING, "links": 0.1, "agents": 0.1, "seed": 0}),
    (
        networks.gilbert_elliott,
        {"network": RING, "to_bad": 0.1, "to_good": 0.2, "loss_good": 0.1, "loss_bad": 0.9, "seed": 0},
    ),
    (networks.availability, {"network": RING, "file": str(ONLINE), "nodes": ["0", "1", "2", "3"]}),
    (networks.deadline, {"network": RING, "clock": gs.clock(), "seconds": 1.0, "bytes": 10.0, "rounds": 5}),
    (networks.asynchronous, {"network": RING}),
    (networks.attacked, {"network": RING, "how": "scale", "agents": [1], "scale": 2.0}),
    (networks.sequence, {"rounds": [RING]}),
    (networks.from_graph, {"graph": nx.path_graph(4), "weights": "lazy"}),
    (networks.from_matrix, {"matrix": np.full((4, 4), 0.25)}),
    (networks.directed, {"graph": nx.DiGraph([(0, 1), (1, 0)])}),
    (networks.make, {"name": "ring", "agents": 4}),
    (networks.of, {"given": "ring", "agents": 4}),
    (networks.from_file, {"file": str(TORUS), "weights": "lazy", "directed": None, "agents": 16}),
    (networks.check_connected, {"matrix": np.full((4, 4), 0.25)}),
    (networks.check_doubly_stochastic, {"matrix": np.full((4, 4), 0.25)}),
    (RING.mix, {"x": np.ones((4, 2)), "t": 0, "over": "W"}),
    (RING.matrix, {"t": 0, "over": "W"}),
    (oracles.minibatch, {"batch": 2}),
    (oracles.relative_bias, {"delta": 0.1}),
    (oracles.clip, {"threshold": 1.0}),
    (oracles.delay, {"rounds": 2}),
    (oracles.zeroth_order, {"method": "sphere", "radius": 0.1, "directions": 2}),
    (oracles.custom, {"function": lambda g, x, site: g}),
    (oracles.compressed, {"compressor": compressors.top_k(1)}),
    (oracles.measure, {"oracle": oracles.exact(), "problem": QUADRATIC, "points": [0.1, 0.2], "seed": 0, "round": 0}),
    (compressors.top_k, {"k": 1}),
    (compressors.rand_k, {"share": 0.5}),
    (compressors.qsgd, {"levels": 2}),
    (compressors.round_linf, {"levels": 2}),
    (problems.quadratic, {"A": np.eye(2), "b": [[1.0, 2.0]], "start": [0.0, 1.0]}),
    (problems.logistic, {"data": DATA, "agents": 4, "split": "iid", "alpha": 0.1, "sizes": "equal"}),
    (problems.softmax, {"data": DATA, "agents": 4, "split": "iid", "alpha": 0.1, "sizes": "equal"}),
    (problems.least_squares, {"data": DATA, "agents": 4, "split": "iid", "alpha": 0.1, "sizes": "equal"}),
    (problems.neural, {"data": DATA, "agents": 4, "split": "iid", "hidden": [3], "seed": 0}),
    (problems.settling_point, {"problem": QUADRATIC, "bias": 0.1, "start": [0.0, 0.0]}),
    (QUADRATIC.solution, {"bias": [0.0, 1.0]}),
    (schedules.constant, {"value": 0.1}),
    (schedules.inverse_sqrt, {"start": 0.1, "offset": 2}),
    (schedules.cosine, {"start": 0.1, "end": 0.01, "steps": 10}),
    (schedules.sqrt_n_over_t, {"agents": 4, "steps": 10, "scale": 1.0}),
    (gs.algorithms.ALGORITHMS["choco-sgd"], {"eta": 0.1, "gamma": 0.1, "compressor": compressors.top_k(1)}),
    (gs.simulate, {"algorithms": RULE, "problem": QUADRATIC, "network": RING, "oracle": oracles.exact(), "steps": 2}),
]

REST = {gs.simulate: {"seeds": 1, "progress": False}}
TAKEN = {("eta", int), ("gamma", int), ("function", int), ("bias", -1), ("scale", -1)}
"""What some take: a class can be called, as a schedule and a function can, and a bias or a scale may be negative."""


@table(("function", "good"), CALLS)
def test_an_argument_of_a_wrong_kind_is_refused(function, good):
    for name, value in product(good, NEVER):
        if (name, value if isinstance(value, (int, type)) else None) in TAKEN:
            continue
        with pytest.raises(InputError) as refused:
            pytest.fail(f"{name}: {function(**good | {name: value} | REST.get(function, {}))!r} is made")
        assert len(str(refused.value)) < 2_000


def test_a_flag_is_true_or_false():
    for make, value in product(
        (compressors.rand_k, oracles.rand_k), (None, 0, 1.5, "1", [], np.array([True]), math.nan)
    ):
        with pytest.raises(InputError, match=r"scaled=…\) must be True or False"):
            make(1, scaled=value)


def test_senseless_seeds_are_refused_before_a_list_of_them_is_made():
    for seeds in (0, -1, 2**31 * 1000, 1.5, None, "12", [], [0, 0], [-1], [2**31], [0.5], [[1]], {}):
        with pytest.raises(InputError, match="seed"):
            gs.simulate(RULE, QUADRATIC, RING, steps=2, seeds=seeds, progress=False)


def test_what_is_no_oracle_is_refused():
    for oracle in ("exact", 3, np.ones(2), RING, oracles.exact):
        with pytest.raises(InputError, match=r"the oracle must be made by gossamer\.oracles"):
            gs.simulate(RULE, QUADRATIC, RING, oracle, steps=2, progress=False)


@table(
    ("make", "size"),
    [
        (networks.path, {"agents": 10**9}),
        (networks.star, {"agents": 10**9}),
        (networks.erdos_renyi, {"agents": 10**6, "probability": 1.0}),
        (networks.random_regular, {"agents": 10**9, "degree": 4}),
        (networks.directed_erdos_renyi, {"agents": 10**6, "probability": 0.5}),
        (networks.random_geometric, {"agents": 10**6, "radius": 0.9}),
        (networks.hierarchical, {"agents": 10**6, "cliques": 1}),
        (networks.tree, {"agents": 10**9}),
    ],
)
def test_graphs_too_large_to_hold_are_refused_at_once(make, size):
    with pytest.raises(InputError, match=r"needs about \d+ [GT]B of memory, .*: use fewer agents or links"):
        make(**size)


def test_layers_too_wide_to_hold_are_refused_at_once():
    with pytest.raises(InputError, match="which has 10,000,600,002 parameters, needs about 240 GB of memory"):
        problems.neural(DATA, 4, hidden=[100_000, 100_000])


def test_a_chance_too_small_to_draw_with_gives_no_graph():
    with pytest.raises(InputError, match="gave no connected graph"):
        networks.erdos_renyi(4, 1e-300)


def test_minus_zero_is_zero():
    assert math.copysign(1, gs.DSGDm(eta=0.1, beta=-0.0).beta) == 1


def test_any_value_is_shown_in_one_short_line():
    for value in NEVER:
        text = brief(value)
        assert len(text) < 200
        assert "\n" not in text
    assert brief(7) == "7"
    assert brief("ring") == "'ring'"
    assert brief(10**5000) == "a whole number of about 5,001 digits"


def test_every_check_takes_what_it_should():
    assert whole("n", np.int64(3)) == 3
    assert whole("n", 0, least=0) == 0
    assert flag("f", np.True_) is True
    assert Range(0, 1, False, False, "").check("x", np.float32(0.5)) == 0.5
    assert nearest(["ring"], ["ring"]) == "choose from ring."


def test_whole_numbers_end_where_a_compiled_program_counts():
    for make in (oracles.minibatch, oracles.delay, compressors.top_k, compressors.qsgd, networks.ring):
        with pytest.raises(InputError, match="of at most 2,147,483,647"):
            make(2**31)


def test_every_maker_of_networks_is_tried():
    """A maker that is added comes into the table."""
    tried = {getattr(function, "__name__", "") for function, _ in CALLS}
    public = {name for name in networks.__all__ if inspect.isfunction(getattr(networks, name))}
    assert public - tried == {"from_matrices", "options", "metropolis", "lazy", "max_degree"}
