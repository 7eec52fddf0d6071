from .paper import Experiment, Paper, Run, choose, installed
from .reproduction import finish, reproduce, run_one, which
from .verdicts import OURS, Claim, Question, Verdict, Verdicts
from .vocabulary import (
    BiasFloor,
    Cost,
    End,
    Equal,
    Exactly,
    Floor,
    LowerLoss,
    Order,
    Rank,
    Ratio,
    Slope,
)

__all__ = [
    "OURS",
    "BiasFloor",
    "Claim",
    "Cost",
    "End",
    "Equal",
    "Exactly",
    "Experiment",
    "Floor",
    "LowerLoss",
    "Order",
    "Paper",
    "Question",
    "Rank",
    "Ratio",
    "Run",
    "Slope",
    "Verdict",
    "Verdicts",
    "choose",
    "finish",
    "installed",
    "reproduce",
    "run_one",
    "which",
]
