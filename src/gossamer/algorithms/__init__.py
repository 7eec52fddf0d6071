"""The algorithms, one a file, each as the few lines of its paper."""

from typing import Any

from gossamer.algorithms.beer import BEER
from gossamer.algorithms.biased_dmt import BiasedDMT
from gossamer.algorithms.biased_dmt_atc import BiasedDMTATC
from gossamer.algorithms.biased_dsgd import BiasedDSGD
from gossamer.algorithms.centralized_momentum import CentralizedMomentum
from gossamer.algorithms.centralized_sgd import CentralizedSGD
from gossamer.algorithms.choco_sgd import ChocoSGD
from gossamer.algorithms.d2 import D2
from gossamer.algorithms.d_psgd import DPSGD
from gossamer.algorithms.d_psgd_atc import DPSGDATC
from gossamer.algorithms.decentlam import DecentLaM
from gossamer.algorithms.dsgdm import DSGDm
from gossamer.algorithms.dsgdm_gossip import DSGDmGossip
from gossamer.algorithms.dsgt import DSGT
from gossamer.algorithms.exact_diffusion import ExactDiffusion
from gossamer.algorithms.extra import EXTRA
from gossamer.algorithms.gnsd import GNSD
from gossamer.algorithms.gt_dsgd import GTDSGD
from gossamer.algorithms.gt_hsgd import GTHSGD
from gossamer.algorithms.gt_storm import GTSTORM
from gossamer.algorithms.momentum_tracking import MomentumTracking
from gossamer.algorithms.motef import MoTEF
from gossamer.algorithms.push_diging import PushDIGing
from gossamer.algorithms.push_diging_dmt import PushDIGingDMT
from gossamer.algorithms.push_pull import PushPull
from gossamer.algorithms.push_pull_dmt import PushPullDMT
from gossamer.algorithms.qg_dsgdm import QGDSGDm
from gossamer.algorithms.sgp import SGP
from gossamer.algorithms.stem import STEM
from gossamer.core import InputError, Registry, brief

_ALL: tuple[Any, ...] = (
    BiasedDMT,
    BiasedDMTATC,
    BiasedDSGD,
    DPSGD,
    DPSGDATC,
    DSGDm,
    DSGDmGossip,
    DecentLaM,
    QGDSGDm,
    GNSD,
    DSGT,
    GTDSGD,
    GTHSGD,
    GTSTORM,
    D2,
    ExactDiffusion,
    EXTRA,
    MomentumTracking,
    ChocoSGD,
    BEER,
    MoTEF,
    SGP,
    PushPull,
    PushDIGing,
    PushPullDMT,
    PushDIGingDMT,
    CentralizedSGD,
    CentralizedMomentum,
    STEM,
)

ALGORITHMS: Registry[Any] = Registry("algorithm", "gossamer.algorithms", {kind.name: kind for kind in _ALL})
"""Every algorithm by its name in spec files."""


def register(kind: Any) -> Any:
    """Make a rule of one's own known by its name, so that a spec can name it."""
    if not isinstance(kind, type) or not all(hasattr(kind, part) for part in ("init", "step", "name", "needs")):
        raise InputError(f"{brief(kind)} is not a rule: make a class one by @rule.")
    ALGORITHMS.add(kind.name, kind)  # pyright: ignore[reportAttributeAccessIssue]
    return kind
