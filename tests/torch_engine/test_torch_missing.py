"""Without PyTorch the rest works, and what needs it says how to get it."""

import subprocess
import sys

WITHOUT_TORCH = """
import sys
class NoTorch:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, NoTorch())
import gossamer as gs
print(gs.BiasedDMT(eta=0.1, lam=0.1))
import gossamer.torch
"""


def test_without_torch_it_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stdout.startswith("BiasedDMT(")
    assert "`pip install -e '.[torch]'` in the clone" in done.stderr.splitlines()[-1]
