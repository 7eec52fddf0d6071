"""The claims of the paper. `gossamer.papers.vocabulary` lists the tests; set margins before you look at a run."""

from gossamer.papers import Claim, End, Ratio

CLAIMS = [
    Claim(
        "figure1",
        "GNSD ends at less than half of D-PSGD's ‖∇F‖²",
        "Section 5, Figure 1",
        "Tracking removes the error that heterogeneous data leave.",
        "A small step removes most of that error, too.",
        Ratio(End("grad_norm_sq"), "gnsd", ["d-psgd"], below=0.5),
    ),
]
