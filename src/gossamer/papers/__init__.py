"""Papers as folders of specs and claims that are run, judged and reported; `__init__.pyi` lists the public names."""

import lazy_loader

# the command line names the parts without importing what runs them
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
