from .experiments import EXPERIMENTS, QUICK, ExperimentName, text_of
from .reproduction import finish, reproduce, run_one, spec_of, which

__all__ = ["EXPERIMENTS", "QUICK", "ExperimentName", "finish", "reproduce", "run_one", "spec_of", "text_of", "which"]
