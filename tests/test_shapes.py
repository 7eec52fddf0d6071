"""The check of shapes that GOSSAMER_SHAPES=1 puts around every function of some rooms."""

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError, jaxtyped

from tests.shapes import checked


@jaxtyped(typechecker=checked)
def total(
    x: Float[np.ndarray, "agents d"], weights: Float[np.ndarray, " agents"] | None, times: int
) -> Float[np.ndarray, " d"]:
    return (x if weights is None else weights @ x) * times


def test_shapes_that_agree_and_wrong_numbers_pass():
    np.testing.assert_array_equal(total(np.ones((3, 2)), np.ones(3), 2.0), [6.0, 6.0])


@pytest.mark.parametrize(
    ("x", "weights"), [(np.ones((3, 2)), np.ones(2)), (np.ones(3), None), (np.ones((3, 2), int), None)]
)
def test_shapes_and_types_that_do_not_agree_are_caught(x, weights):
    with pytest.raises(TypeCheckError, match="parameters of"):
        total(x, weights, 1)


def test_an_answer_of_another_shape_is_caught():
    with pytest.raises(TypeCheckError, match="return value of"):
        total(np.ones((3, 2)), None, 1)
