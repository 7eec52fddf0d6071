// Products of sparse rows on the CPU, which XLA calls. native.py compiles them on first use, for the types
//   GOSSAMER_NUMBER   of x, and of all sums: float or double,
//   GOSSAMER_COLUMN   of the indices of columns,
//   GOSSAMER_VALUE    of the non-zeros: Ones where all of them are 1.
//
// A sum takes the entries of a row in the order of the table, in every branch below and for any number h of columns of
// x. Branches differ in speed alone: the bits of a run do not depend on which of them computed it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

using Number = GOSSAMER_NUMBER;
struct Ones {
  operator Number() const { return 1; }
};
using Column = GOSSAMER_COLUMN;
using Value = GOSSAMER_VALUE;
constexpr size_t kIsValued = !std::is_same_v<Value, Ones>;

// Up to this many columns x is copied and padded, so that the padding of rows needs no branch: a third faster on a9a.
constexpr size_t kShort = 4096;

#if defined(__AVX512F__)
constexpr size_t kRegister = 64;
#elif defined(__AVX__)
constexpr size_t kRegister = 32;
#else
constexpr size_t kRegister = 16;
#endif

// The arrays of the class Rows in sparse_rows.py, and the rows `at` that each agent chose.
struct Table {
  const Column* columns;
  const Value* values;
  const int32_t *after, *more;  // null where no row is cut into pieces
  const int32_t* at;
  size_t rows, width, agents, batch, d, h;

  bool IsShort() const { return d <= kShort; }
  size_t ColumnAt(size_t entry) const { return static_cast<size_t>(columns[entry]); }

  Number ValueAt(size_t entry) const { return kIsValued ? static_cast<Number>(values[entry]) : Number(1); }

  // The j-th row of an agent. An index beyond the last row means the last row, so that no memory of others is read.
  size_t Row(size_t agent, size_t j) const {
    return std::min(static_cast<size_t>(at[agent * batch + j]), rows - 1);
  }

  // Calls `with` with the first entry of each piece of a row.
  template <typename F>
  void EachPiece(size_t row, F with) const {
    with(row * width);
    for (int32_t p = 0; more && p < more[row]; ++p) with(static_cast<size_t>(after[row] + p) * width);
  }
};

// Zeros that begin at a cache line: a vector that lies across two lines takes twice the time.
class Scratch {
 public:
  explicit Scratch(size_t size) : memory_(size + kLine / sizeof(Number)), size_(size) {}
  Number* data() { return memory_.data() + (kLine - reinterpret_cast<uintptr_t>(memory_.data()) % kLine) / sizeof(Number); }
  void Clear() { std::fill_n(data(), size_, Number(0)); }

 private:
  static constexpr size_t kLine = 64;
  std::vector<Number> memory_;
  size_t size_;
};

// N numbers that stay in registers while a piece is gone through.
template <size_t N>
struct Strip {
  static constexpr size_t kLanes = std::min(N, kRegister / sizeof(Number)), kParts = N / kLanes;
  typedef Number Vector __attribute__((vector_size(kLanes * sizeof(Number))));
  Vector part[kParts];

  // part by part: of one copy of all parts the compiler would keep a second in memory
  explicit Strip(const Number* from) {
    for (size_t i = 0; i < kParts; ++i) std::memcpy(&part[i], from + i * kLanes, sizeof(Vector));
  }
  void Store(Number* to) const {
    for (size_t i = 0; i < kParts; ++i) std::memcpy(to + i * kLanes, &part[i], sizeof(Vector));
  }
  void Add(Number value, const Strip& other) {
    for (size_t i = 0; i < kParts; ++i) part[i] += kIsValued ? value * other.part[i] : other.part[i];
  }
};

// own += Σ value · x[column] over the entries of a piece: the columns of x from `done` on, N at a time and then fewer.
template <size_t N = 16>
void Gather(const Table& table, size_t first, const Number* x, Number* own, size_t done = 0) {
  for (; done + N <= table.h; done += N) {
    Strip<N> sum(own + done);
    for (size_t k = first; k < first + table.width; ++k) {
      sum.Add(table.ValueAt(k), Strip<N>(x + table.ColumnAt(k) * table.h + done));
    }
    sum.Store(own + done);
  }
  if constexpr (N > 1) Gather<N / 2>(table, first, x, own, done);
}

// g[column] += value · own for the entries of a piece: the transpose of Gather.
template <size_t N = 16>
void Scatter(const Table& table, size_t first, const Number* own, Number* g, size_t done = 0) {
  for (; done + N <= table.h; done += N) {
    const Strip<N> weight(own + done);
    for (size_t k = first; k < first + table.width; ++k) {
      Number* to = g + table.ColumnAt(k) * table.h + done;
      Strip<N> sum(to);
      sum.Add(table.ValueAt(k), weight);
      sum.Store(to);
    }
  }
  if constexpr (N > 1) Scatter<N / 2>(table, first, own, g, done);
}

// The products of one agent's rows with a padded x of one column, four rows at a time so that no sum waits for itself.
// The last four may overlap the four before them.
void FourDots(const Table& table, size_t agent, const Number* x, Number* z) {
  for (size_t next = 0; next < table.batch; next += 4) {
    const size_t j = std::min(next, table.batch - 4);
    const size_t a = table.Row(agent, j) * table.width, b = table.Row(agent, j + 1) * table.width;
    const size_t c = table.Row(agent, j + 2) * table.width, e = table.Row(agent, j + 3) * table.width;
    Number of_a = 0, of_b = 0, of_c = 0, of_e = 0;
    for (size_t k = 0; k < table.width; ++k) {
      of_a += table.ValueAt(a + k) * x[table.ColumnAt(a + k)];
      of_b += table.ValueAt(b + k) * x[table.ColumnAt(b + k)];
      of_c += table.ValueAt(c + k) * x[table.ColumnAt(c + k)];
      of_e += table.ValueAt(e + k) * x[table.ColumnAt(e + k)];
    }
    z[j] = of_a, z[j + 1] = of_b, z[j + 2] = of_c, z[j + 3] = of_e;
  }
}

// The sums of four agents from `agent` on, one column each, made together: a row often has columns of the row before
// it, and would wait for the sums of these.
void FourSums(const Table& table, size_t agent, const Number* w, Scratch& sums, Number* g) {
  const size_t batch = table.batch, own = table.d + 1;
  sums.Clear();
  Number *to_a = sums.data(), *to_b = to_a + own, *to_c = to_b + own, *to_e = to_c + own;
  for (size_t j = 0; j < batch; ++j) {
    const size_t a = table.Row(agent, j) * table.width, b = table.Row(agent + 1, j) * table.width;
    const size_t c = table.Row(agent + 2, j) * table.width, e = table.Row(agent + 3, j) * table.width;
    const Number* of = w + agent * batch + j;
    const Number of_a = of[0], of_b = of[batch], of_c = of[2 * batch], of_e = of[3 * batch];
    for (size_t k = 0; k < table.width; ++k) {
      to_a[table.ColumnAt(a + k)] += table.ValueAt(a + k) * of_a;
      to_b[table.ColumnAt(b + k)] += table.ValueAt(b + k) * of_b;
      to_c[table.ColumnAt(c + k)] += table.ValueAt(c + k) * of_c;
      to_e[table.ColumnAt(e + k)] += table.ValueAt(e + k) * of_e;
    }
  }
  for (size_t i = 0; i < 4; ++i) std::copy_n(sums.data() + i * own, table.d, g + (agent + i) * table.d);
}

// z[i, j] = Σ value · x_i[column] over the entries of the j-th row of agent i.
void Dot(const Table& table, const Number* x, Number* z) {
  const size_t d = table.d, h = table.h;
  Scratch scratch(table.IsShort() ? (d + 1) * h : 0);
  Number* const padded = scratch.data();
  for (size_t i = 0; i < table.agents; ++i, x += d * h, z += table.batch * h) {
    if (table.IsShort()) std::copy_n(x, d * h, padded);
    if (table.IsShort() && h == 1 && !table.more && table.batch >= 4) {
      FourDots(table, i, padded, z);
      continue;
    }
    for (size_t j = 0; j < table.batch; ++j) {
      Number* own = z + j * h;
      if (table.IsShort() && h == 1) {
        Number sum = 0;
        table.EachPiece(table.Row(i, j), [&](size_t first) {
          for (size_t k = first; k < first + table.width; ++k) sum += table.ValueAt(k) * padded[table.ColumnAt(k)];
        });
        *own = sum;
        continue;
      }
      std::fill_n(own, h, Number(0));
      table.EachPiece(table.Row(i, j), [&](size_t first) {
        if (table.IsShort()) {
          Gather(table, first, padded, own);
          return;
        }
        for (size_t k = first; k < first + table.width && table.ColumnAt(k) != d; ++k) {
          for (size_t c = 0; c < h; ++c) own[c] += table.ValueAt(k) * x[table.ColumnAt(k) * h + c];
        }
      });
    }
  }
}

// g_i[column] = Σ value · w[i, j] over the entries of all rows of agent i.
void Add(const Table& table, const Number* w, Number* g) {
  const size_t d = table.d, h = table.h;
  if (table.IsShort() && h == 1 && !table.more && table.agents >= 4) {
    Scratch sums(4 * (d + 1));
    for (size_t i = 0; i < table.agents; i += 4) FourSums(table, std::min(i, table.agents - 4), w, sums, g);
    return;
  }
  Scratch scratch(table.IsShort() ? (d + 1) * h : 0);
  Number* const padded = scratch.data();
  for (size_t i = 0; i < table.agents; ++i, w += table.batch * h, g += d * h) {
    scratch.Clear();
    if (!table.IsShort()) std::fill_n(g, d * h, Number(0));
    for (size_t j = 0; j < table.batch; ++j) {
      const Number* own = w + j * h;
      table.EachPiece(table.Row(i, j), [&](size_t first) {
        if (table.IsShort() && h == 1) {
          for (size_t k = first; k < first + table.width; k += 2) {  // columns of a piece differ, but for padding
            Number &a = padded[table.ColumnAt(k)], &b = padded[table.ColumnAt(k + 1)];
            const Number of_a = a + table.ValueAt(k) * *own, of_b = b + table.ValueAt(k + 1) * *own;
            a = of_a, b = of_b;
          }
          return;
        }
        if (table.IsShort()) {
          Scatter(table, first, own, padded);
          return;
        }
        for (size_t k = first; k < first + table.width && table.ColumnAt(k) != d; ++k) {
          for (size_t c = 0; c < h; ++c) g[table.ColumnAt(k) * h + c] += table.ValueAt(k) * own[c];
        }
      });
    }
    if (table.IsShort()) std::copy_n(padded, d * h, g);
  }
}

// Reads the arrays of a call, and computes one of the two products.
template <bool kIsDot>
ffi::Error Product(ffi::AnyBuffer given, ffi::Buffer<ffi::S32> at, ffi::AnyBuffer columns, ffi::RemainingArgs others,
                   ffi::Result<ffi::AnyBuffer> result) {
  const auto wide = (kIsDot ? given : *result).dimensions(), tall = (kIsDot ? *result : given).dimensions();
  const auto other = [&](size_t k) -> ffi::AnyBuffer { return *others.get<ffi::AnyBuffer>(k); };
  Table table{};
  table.columns = static_cast<const Column*>(columns.untyped_data());
  table.rows = columns.dimensions()[0], table.width = columns.dimensions()[1];
  table.agents = wide[0], table.batch = tall[1], table.d = wide[1], table.h = wide[2];
  table.at = at.typed_data();
  // after the columns come values or nothing, and then `after` and `more` or nothing
  if (kIsValued) table.values = static_cast<const Value*>(other(0).untyped_data());
  if (others.size() > kIsValued) {
    table.after = static_cast<const int32_t*>(other(kIsValued).untyped_data());
    table.more = static_cast<const int32_t*>(other(kIsValued + 1).untyped_data());
    table.rows = other(kIsValued).dimensions()[0];
  }
  const auto compute = kIsDot ? Dot : Add;
  compute(table, static_cast<const Number*>(given.untyped_data()), static_cast<Number*>(result->untyped_data()));
  return ffi::Error::Success();
}

auto Binding() {
  return ffi::Ffi::Bind()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::Buffer<ffi::S32>>()
      .Arg<ffi::AnyBuffer>()
      .RemainingArgs()
      .Ret<ffi::AnyBuffer>();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(gossamer_rows_dot, Product<true>, Binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(gossamer_rows_add, Product<false>, Binding());
