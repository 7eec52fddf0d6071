from .experiments import EXPERIMENTS, QUICK, Experiment, text_of
from .reproduction import finish, refuse_runaways, reproduce, run_one, spec_of, which

__all__ = [
    "EXPERIMENTS",
    "QUICK",
    "Experiment",
    "finish",
    "refuse_runaways",
    "reproduce",
    "run_one",
    "spec_of",
    "text_of",
    "which",
]
