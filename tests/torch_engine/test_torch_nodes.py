"""Gossip across nodes of several processes each, against the simulator's answer for the nodes."""

import numpy as np
import pytest
import torch.distributed as dist

import gossamer as gs
from gossamer.torch import Decentralized, mean_model
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
