"""The entries of a sparse row times several columns of a matrix, as vectors that stay in registers.

They are written out for LLVM, which cannot know that the arrays are apart, and would go through memory for each entry:
on a9a, 16 columns so take less than half of the time. The sums are made in the same order. Only `kernels` imports this.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = (16, 8, 4, 2, 1)
"""Columns that go together: as many of the widest as there are, and then fewer, until none is left."""

WHOLE = ir.IntType(64)


def _through(adds: bool) -> Any:
    """A function of ``(own, o, table, columns, values, first, width, h)``: of the h numbers ``own[o:]`` that belong to
    a row, and of its entries, those from `first` on, for each of which the table has a row of h numbers. It adds what
    is the row's to these, or these to it."""

    def typed(
        typing: Any, own: Any, o: Any, table: Any, columns: Any, values: Any, first: Any, width: Any, h: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            own, o, table, columns, values, first, width, h = given
            number, valued = signature.args[0].dtype, signature.args[4]
            if isinstance(valued, types.Optional):  # as Numba takes what may be None, though here it never is
                values, valued = context.make_helper(builder, valued, values).data, valued.type
            one = context.get_value_type(number)
            size = context.get_abi_sizeof(one)

            def value_at(entry: Any, vector: Any) -> Any:
                """The value of an entry, in all lanes."""
                value = builder.load(builder.gep(values, [entry]))
                value, unset = context.cast(builder, value, valued.dtype, number), ir.Constant(vector, ir.Undefined)
                value = builder.insert_element(unset, value, ir.Constant(ir.IntType(32), 0))
                lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
                return builder.shuffle_vector(value, unset, lanes)

            def strip(at: Any, lanes: int) -> None:
                """The columns from `at` on, so many."""
                vector = ir.VectorType(one, lanes)

                def place(array: Any, k: Any) -> Any:
                    return builder.bitcast(builder.gep(array, [k]), vector.as_pointer())

                def read(pointer: Any) -> Any:
                    loaded = builder.load(pointer)
                    loaded.align = size
                    return loaded

                mine = place(own, builder.add(o, at))
                held = cgutils.alloca_once_value(builder, read(mine))
                with cgutils.for_range(builder, width, intp=WHOLE) as loop:
                    entry = builder.add(first, loop.index)
                    column = builder.zext(builder.load(builder.gep(columns, [entry])), WHOLE)
                    other = place(table, builder.add(builder.mul(column, h), at))
                    moved, kept = (builder.load(held), read(other)) if adds else (read(other), builder.load(held))
                    if valued != types.none:
                        moved = builder.fmul(value_at(entry, vector), moved)
                    stored = builder.store(builder.fadd(kept, moved), other if adds else held)
                    stored.align = size
                if not adds:
                    builder.store(builder.load(held), mine).align = size

            done: Any = ir.Constant(WHOLE, 0)
            for lanes in LANES:
                each = ir.Constant(WHOLE, lanes)
                count = builder.udiv(builder.sub(h, done), each)
                with cgutils.for_range(builder, count, intp=WHOLE) as loop:
                    strip(builder.add(done, builder.mul(loop.index, each)), lanes)
                done = builder.add(done, builder.mul(count, each))
            return context.get_dummy_value()

        return types.none(own, o, table, columns, values, first, width, h), generate

    return intrinsic(typed)


gathered, scattered = _through(adds=False), _through(adds=True)
