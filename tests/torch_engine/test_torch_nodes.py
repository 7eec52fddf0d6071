"""Gossip across nodes of several processes each, against the simulator's answer for the nodes."""

import re

import numpy as np
import pytest
import torch.distributed as dist

import gossamer as gs
from gossamer.torch import Decentralized, mean_model
from tests.table import table
from tests.torch_engine import forked, nodes
from tests.torch_engine.small import weight


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("nodes")


@pytest.fixture(scope="module")
def ranks(folder):
    return forked.run(nodes.trained, 4, str(folder))


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_two_nodes_of_two_do_what_the_simulator_does_with_two_agents(way, ranks):
    expected = nodes.simulated()
    for rank, found in enumerate(ranks):
        np.testing.assert_allclose(found[way], expected[rank // 2], rtol=1e-12, atol=1e-12)
        assert found[f"{way}, place"] == (rank // 2, 2)


def test_processes_of_a_sharded_node_send_their_shards_alone(ranks):
    """Three numbers of six; and four bytes of meetings to save, which the counters saw."""
    for found in ranks:
        assert 2 * (found["fsdp, sent"] - 4) == found["ddp, sent"] - 4 > 0


def test_the_mean_model_of_nodes(folder, ranks):
    mean = (ranks[0]["ddp"] + ranks[2]["ddp"]) / 2
    np.testing.assert_allclose(mean_model(folder / "ddp")["x"], mean, rtol=1e-12)
    np.testing.assert_allclose(mean_model(folder / "fsdp")["x"], mean, rtol=1e-12)


def test_a_group_must_hold_this_process():
    Decentralized([weight()], gs.DPSGD(0.1))  # joins a world of one
    with pytest.raises(gs.InputError, match=r"process_group must be a group of torch\.distributed that this process"):
        Decentralized([weight()], gs.DPSGD(0.1), process_group=dist.GroupMember.NON_GROUP_MEMBER)


@pytest.fixture(scope="module")
def told():
    return forked.run(nodes.refused, 4)


@table(
    ("what", "message"),
    [
        ("two dimensions", r"mesh must be one dimension of a DeviceMesh, .*\[.across.\], but is DeviceMesh"),
        ("a group", r"mesh must be one dimension of a DeviceMesh, .*, but is <torch"),
        ("parameters", r"model must be the module that is trained, but is <generator"),
        ("ddp over all", r"the model is wrapped in DistributedDataParallel over ranks \d, \d, .* process_group=mesh"),
        ("ddp across", r"'0' is wrapped in DistributedDataParallel over ranks \d, \d, which gossip with each other"),
        ("sharded across", r"parameter 'weight' is sharded or kept alike over ranks \d, \d, .* mesh=mesh\[.within.\]"),
        ("sharded within, copied across", r"parameter 'weight' is sharded or kept alike over ranks \d, \d, which"),
        ("another device", r"the mesh is of cpu, but parameters are on meta: move the model first"),
    ],
)
def test_what_cannot_gossip_over_a_dimension_is_refused_on_every_rank(what, message, told):
    for of_rank in told:
        assert re.search(message, of_rank[what])


def test_a_process_that_is_not_in_the_mesh_is_refused(told):
    for rank in (2, 3):
        assert f"this process (rank {rank} of all) is not in the mesh of ranks [0, 1]" in told[rank]["not in it"]


def test_copies_inside_a_node_that_nothing_keeps_together_are_warned_of_once(told):
    assert all(of_rank["alone"] is of_rank["sharded within"] is None for of_rank in told)
    assert [len(of_rank["warned"]) for of_rank in told] == [1, 0, 0, 0]
    assert "2 of 4 processes gossip with each other, and nothing keeps the copies" in told[0]["warned"][0]
