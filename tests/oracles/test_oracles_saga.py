"""Mini-batches corrected by a table of gradients: SAGA. `examples/saga.toml` has GT-SAGA."""

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer.oracles import minibatch, saga
from tests.oracles.sites import DIM, FLAT, POINTS, PROBLEM, SIZES, ask, at
from tests.table import table

BATCH, AGENT = 4, 1


@jax.jit
def sample_gradients(site, rows, x):
    """Of each of these samples of the agent alone, with the regulariser."""
    return jax.vmap(lambda row: site.problem.batch_gradient(site.agent, row[None], x))(rows)


def test_answers_are_those_of_a_table_in_numpy():
    """Rows that are drawn twice in a batch among them; two points on one sample are corrected alike."""
    table, state, seen = np.zeros((SIZES[AGENT], DIM)), None, set()
    for t in range(25):
        x, other = POINTS[t % 3] + 0.1 * t, POINTS[1]
        with jax.enable_x64(True):
            site = at(AGENT, seed=t)
            rows = np.asarray(minibatch(BATCH).draw(site, ())[0])
            (found, second), state = ask(minibatch(BATCH) | saga(), site, x, other, state=state)
            fresh, there = (np.asarray(sample_gradients(site, rows, point)) for point in (x, other))
        expected = (fresh - table[rows]).mean(0) + table.mean(0)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
        np.testing.assert_allclose(second - found, (there - fresh).mean(0), atol=1e-13)
        table[rows] = fresh
        seen |= {len(set(rows.tolist()))}
    assert min(seen) < BATCH


@table(
    ("make", "told"),
    [
        (lambda: gs.oracles.exact() | saga(), r"cannot stand around Exact: begin with oracles.minibatch\(…\)"),
        (lambda: ran(saga(), PROBLEM), "cannot stand around Exact"),
        (lambda: minibatch(2) | gs.oracles.clip(1.0) | saga(), "cannot stand around Clip"),
        (lambda: ran(minibatch(2) | saga(), FLAT), "needs a problem made of samples"),
    ],
)
def test_refuses(make, told):
    with pytest.raises(gs.InputError, match=told):
        make()


def ran(oracle, problem):
    gs.simulate(gs.GNSD(eta=0.1), problem, gs.networks.complete(3), oracle, steps=1)
