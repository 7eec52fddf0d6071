"""Tables as text: what does not fit goes below, and nothing is lost."""

from hypothesis import given
from hypothesis import strategies as st

from gossamer.basics.table import Table

WORDS = st.text(alphabet="abcd", min_size=1, max_size=12)


def test_a_table_that_fits_is_one_block():
    assert Table(["a", "bb"], [["1", "2"], ["333", "4"]]).text(keys=1, width=80) == "a    bb\n1    2\n333  4"


def test_columns_that_do_not_fit_go_below_with_the_first_ones_again():
    shown = Table(["name", "x", "y"], [["one", "1", "22"], ["two", "3", "44"]]).text(keys=1, width=8)
    assert shown == "name  x\none   1\ntwo   3\n\nname  y\none   22\ntwo   44"


@given(rows=st.lists(st.lists(WORDS, min_size=6, max_size=6), min_size=1, max_size=4), width=st.integers(40, 80))
def test_every_cell_is_there_and_every_line_fits(rows, width):
    """Two keys of at most 12 letters leave room for one more column in 40."""
    head, *body = rows
    blocks = [[line.split() for line in block.split("\n")] for block in Table(head, body).text(2, width).split("\n\n")]
    assert all(len(line) <= width for line in Table(head, body).text(2, width).split("\n"))
    back = [[*lines[0][:2], *(cell for line in lines for cell in line[2:])] for lines in zip(*blocks, strict=True)]
    assert back == rows
