"""The algorithms, one a file, each as the few lines of its paper."""

from typing import Any

from gossamer.algorithms.biased_dmt import BiasedDMT
from gossamer.algorithms.biased_dsgd import BiasedDSGD
from gossamer.algorithms.centralized_momentum import CentralizedMomentum
from gossamer.algorithms.centralized_sgd import CentralizedSGD
from gossamer.algorithms.d_psgd import DPSGD
from gossamer.algorithms.d_psgd_atc import DPSGDATC
from gossamer.algorithms.dsgdm import DSGDm
from gossamer.algorithms.dsgdm_gossip import DSGDmGossip
from gossamer.algorithms.dsgt import DSGT
from gossamer.algorithms.gnsd import GNSD
from gossamer.algorithms.gt_dsgd import GTDSGD
from gossamer.algorithms.momentum_tracking import MomentumTracking

_ALL: tuple[Any, ...] = (
    BiasedDMT,
    BiasedDSGD,
    DPSGD,
    DPSGDATC,
    DSGDm,
    DSGDmGossip,
    GNSD,
    DSGT,
    GTDSGD,
    MomentumTracking,
    CentralizedSGD,
    CentralizedMomentum,
)

ALGORITHMS: dict[str, Any] = {kind.name: kind for kind in _ALL}
"""Every algorithm by its name in spec files."""
