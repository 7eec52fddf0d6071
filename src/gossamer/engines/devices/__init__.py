"""Several devices, processes and hosts: how runs, or the agents of a run, are shared out over them."""
