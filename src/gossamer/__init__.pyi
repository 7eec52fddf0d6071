"""The public names, and where each comes from; `__init__.py` imports a module when a name of it is first used."""

from . import aggregators, algorithms, clocks, compressors, data, logs, networks, oracles, problems, schedules, theory
from .algorithms.beer import BEER
from .algorithms.biased_dmt import BiasedDMT
from .algorithms.biased_dmt_atc import BiasedDMTATC
from .algorithms.biased_dsgd import BiasedDSGD
from .algorithms.cedas import CEDAS
from .algorithms.centralized_momentum import CentralizedMomentum
from .algorithms.centralized_sgd import CentralizedSGD
from .algorithms.choco_sgd import ChocoSGD
from .algorithms.d2 import D2
from .algorithms.d_adamw import DAdamW
from .algorithms.d_amsgrad import DAMSGrad
from .algorithms.d_psgd import DPSGD
from .algorithms.d_psgd_atc import DPSGDATC
from .algorithms.decentlam import DecentLaM
from .algorithms.direct_dsgd import DirectDSGD
from .algorithms.docom import DoCoM
from .algorithms.dsgdm import DSGDm
from .algorithms.dsgdm_gossip import DSGDmGossip
from .algorithms.dsgt import DSGT
from .algorithms.exact_diffusion import ExactDiffusion
from .algorithms.extra import EXTRA
from .algorithms.frost import FROST
from .algorithms.gnsd import GNSD
from .algorithms.gt_adam import GTAdam
from .algorithms.gt_dsgd import GTDSGD
from .algorithms.gt_hsgd import GTHSGD
from .algorithms.gt_nsgdm import GTNSGDm
from .algorithms.gt_sarah import GTSARAH
from .algorithms.gt_storm import GTSTORM
from .algorithms.gt_svrg import GTSVRG
from .algorithms.k_gt import KGT
from .algorithms.lead import LEAD
from .algorithms.local_biased_dmt import LocalBiasedDMT
from .algorithms.momentum_tracking import MomentumTracking
from .algorithms.motef import MoTEF
from .algorithms.push_diging import PushDIGing
from .algorithms.push_diging_dmt import PushDIGingDMT
from .algorithms.push_pull import PushPull
from .algorithms.push_pull_dmt import PushPullDMT
from .algorithms.qg_dsgdm import QGDSGDm
from .algorithms.relay_sgd import RelaySGD
from .algorithms.robust_dsgd import RobustDSGD
from .algorithms.sgp import SGP
from .algorithms.stem import STEM
from .basics.pytrees import pytree
from .clocks import clock
from .core import (
    Agent,
    Aggregator,
    Array,
    Compressor,
    Count,
    Decay,
    InputError,
    LocalStep,
    Mixing,
    PushedWarm,
    Range,
    State,
    StepSize,
    Value,
    Warm,
    Weight,
    rule,
)
from .engines import simulate
from .engines.devices import devices
from .experiments.recommend import Recommendation, recommend
from .experiments.running import study
from .experiments.tuning import tune
from .metrics import metric
from .results.comparison import Comparison, compare
from .results.result import Result
from .results.study import Study, concat
from .worst.case import convex, lipschitz, smooth
from .worst.certificate import LyapunovBound, best_step, certificate, largest_step
from .worst.divergence import diverging
from .worst.exact import Worst, worst_case

__version__: str

__all__ = [
    "BEER",
    "CEDAS",
    "D2",
    "DPSGD",
    "DPSGDATC",
    "DSGT",
    "EXTRA",
    "FROST",
    "GNSD",
    "GTDSGD",
    "GTHSGD",
    "GTSARAH",
    "GTSTORM",
    "GTSVRG",
    "KGT",
    "LEAD",
    "SGP",
    "STEM",
    "Agent",
    "Aggregator",
    "Array",
    "BiasedDMT",
    "BiasedDMTATC",
    "BiasedDSGD",
    "CentralizedMomentum",
    "CentralizedSGD",
    "ChocoSGD",
    "Comparison",
    "Compressor",
    "Count",
    "DAMSGrad",
    "DAdamW",
    "DSGDm",
    "DSGDmGossip",
    "Decay",
    "DecentLaM",
    "DirectDSGD",
    "DoCoM",
    "ExactDiffusion",
    "GTAdam",
    "GTNSGDm",
    "InputError",
    "LocalBiasedDMT",
    "LocalStep",
    "LyapunovBound",
    "Mixing",
    "MoTEF",
    "MomentumTracking",
    "PushDIGing",
    "PushDIGingDMT",
    "PushPull",
    "PushPullDMT",
    "PushedWarm",
    "QGDSGDm",
    "Range",
    "Recommendation",
    "RelaySGD",
    "Result",
    "RobustDSGD",
    "State",
    "StepSize",
    "Study",
    "Value",
    "Warm",
    "Weight",
    "Worst",
    "aggregators",
    "algorithms",
    "best_step",
    "certificate",
    "clock",
    "clocks",
    "compare",
    "compressors",
    "concat",
    "convex",
    "data",
    "devices",
    "diverging",
    "largest_step",
    "lipschitz",
    "logs",
    "metric",
    "networks",
    "oracles",
    "problems",
    "pytree",
    "recommend",
    "rule",
    "schedules",
    "simulate",
    "smooth",
    "study",
    "theory",
    "tune",
    "worst_case",
]
