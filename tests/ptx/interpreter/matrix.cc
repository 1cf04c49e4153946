// SPDX-License-Identifier: Apache-2.0
// Matrix instructions: ldmatrix, stmatrix, movmatrix, mma, wmma. Executed once for the whole warp.
#include <algorithm>
#include <cstring>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

constexpr unsigned kMaxDim = 256;

struct Matrix {
  unsigned rows = 0, cols = 0;
  std::vector<double> real;
  std::vector<int64_t> integer;
  Matrix(unsigned r, unsigned c) : rows(r), cols(c), real(r * c), integer(r * c) {}
};

// Bits to number and back, of one matrix element.
void Put(Matrix* m, unsigned row, unsigned col, Type type, uint64_t bits) {
  const unsigned at = row * m->cols + col, width = ptx::BitsOf(type);
  switch (type) {
    case Type::kF16:
      m->real[at] = Decode(kHalf, static_cast<uint32_t>(bits));
      break;
    case Type::kBf16:
      m->real[at] = Decode(kBfloat, static_cast<uint32_t>(bits));
      break;
    case Type::kE4m3:
      m->real[at] = Decode(kE4m3, static_cast<uint32_t>(bits));
      break;
    case Type::kE5m2:
      m->real[at] = Decode(kE5m2, static_cast<uint32_t>(bits));
      break;
    // The low mantissa bits of a tf32 operand do not count.
    case Type::kTf32:
      m->real[at] = AsFloat(bits & ~0x1fffull);
      break;
    case Type::kF32:
      m->real[at] = AsFloat(bits);
      break;
    case Type::kF64:
      m->real[at] = AsDouble(bits);
      break;
    case Type::kS4:
    case Type::kS8:
    case Type::kS32:
      m->integer[at] = SignExtend(bits, width);
      break;
    default:
      m->integer[at] = static_cast<int64_t>(MaskBits(bits, width));
      break;
  }
}

uint64_t Get(const Matrix& m, unsigned row, unsigned col, Type type) {
  const unsigned at = row * m.cols + col;
  switch (type) {
    case Type::kF16:
      return Encode(kHalf, m.real[at], Round::kNearest);
    case Type::kBf16:
      return Encode(kBfloat, m.real[at], Round::kNearest);
    case Type::kTf32:
    case Type::kF32:
      return Bits(static_cast<float>(m.real[at]));
    case Type::kF64:
      return Bits(m.real[at]);
    default:
      return MaskBits(static_cast<uint64_t>(m.integer[at]), ptx::BitsOf(type));
  }
}

// Where element `i` of register `reg` of `lane` lies. One rule covers every mma shape but Volta's
// m8n8k4 halves: a register holds neighbours along k; a quad of lanes spans four registers' worth
// of k; the next registers go down 8 rows, then on in k.
struct Place {
  unsigned row, col;
};
unsigned PerRegister(Type type) {
  return ptx::BitsOf(type) >= 32 ? 1 : 32 / ptx::BitsOf(type);
}

Place PlaceA(unsigned m, Type type, unsigned lane, unsigned reg, unsigned i) {
  const unsigned e = PerRegister(type), tall = m == 16 ? 2 : 1;
  return {lane / 4 + 8 * (reg % tall), e * (lane % 4) + i + 4 * e * (reg / tall)};
}
Place PlaceB(Type type, unsigned lane, unsigned reg, unsigned i) {
  const unsigned e = PerRegister(type);
  return {e * (lane % 4) + i + 4 * e * reg, lane / 4};
}
Place PlaceC(unsigned lane, unsigned index) {
  return {lane / 4 + 8 * (index / 2), 2 * (lane % 4) + index % 2};
}

void MultiplyMatrices(const Matrix& a, const Matrix& b, const Matrix& c, Type type,
                      const ptx::Instruction& in, Matrix* d) {
  const bool bits = type == Type::kB1, conjunction = in.Has("and");
  for (unsigned i = 0; i < d->rows; ++i) {
    for (unsigned j = 0; j < d->cols; ++j) {
      const unsigned at = i * d->cols + j;
      double real = c.real[at];
      int64_t sum = c.integer[at];
      for (unsigned k = 0; k < a.cols; ++k) {
        const unsigned x = i * a.cols + k, y = k * b.cols + j;
        real += a.real[x] * b.real[y];
        sum += bits ? (conjunction ? a.integer[x] & b.integer[y] : a.integer[x] ^ b.integer[y])
                    : a.integer[x] * b.integer[y];
      }
      d->real[at] = real;
      if (in.mods.satfinite) sum = std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX);
      d->integer[at] = sum;
    }
  }
}

size_t RegisterCount(const Operand& operand) {
  return operand.Is(Kind::kVector) ? operand.elements.size() : 1;
}
const Operand& RegisterAt(const Operand& operand, size_t i) {
  return operand.Is(Kind::kVector) ? operand.elements.at(i) : operand;
}

}  // namespace

void Core::MatrixMultiply(const std::vector<Core>& lanes) {
  const Core& first = lanes.front();
  const ptx::Modifiers& mods = first.mods_;
  const unsigned m = mods.m, n = mods.n, k = mods.k;
  const bool supported = (m == 16 || m == 8) && n == 8 && k > 0 && k <= kMaxDim &&
                         !first.in_.Has("sp") && !first.in_.Has("sp::ordered_metadata") &&
                         !first.in_.Has("block_scale") && mods.type_count == 4 &&
                         lanes.size() == kWarpSize;
  const Type dt = mods.types[0], at = mods.types[1], bt = mods.types[2], ct = mods.types[3];
  if (!supported || (m == 8 && k == 4 && at == Type::kF16)) first.Unsupported("matrix shape");
  Matrix a(m, k), b(k, n), c(m, n), d(m, n);
  auto spread = [&](size_t operand, Type type, auto place, Matrix* into) {
    const unsigned e = PerRegister(type), width = ptx::BitsOf(type);
    const Type reg_type = width == 64 ? Type::kB64 : Type::kB32;
    for (const Core& core : lanes) {
      const Operand& op = core.Op(operand);
      for (size_t r = 0; r < RegisterCount(op); ++r) {
        uint64_t bits = core.Read(RegisterAt(op, r), reg_type);
        for (unsigned i = 0; i < e; ++i) {
          Place p = place(core.thread_.lane(), static_cast<unsigned>(r), i);
          if (p.row >= into->rows || p.col >= into->cols) first.Invalid("too many registers");
          Put(into, p.row, p.col, type, e == 1 ? bits : MaskBits(bits >> (i * width), width));
        }
      }
    }
  };
  spread(
      1, at, [&](unsigned lane, unsigned r, unsigned i) { return PlaceA(m, at, lane, r, i); }, &a);
  spread(
      2, bt, [&](unsigned lane, unsigned r, unsigned i) { return PlaceB(bt, lane, r, i); }, &b);
  auto place_c = [](Type type) {
    return [type](unsigned lane, unsigned r, unsigned i) {
      return PlaceC(lane, r * PerRegister(type) + i);
    };
  };
  spread(3, ct, place_c(ct), &c);
  MultiplyMatrices(a, b, c, at, first.in_, &d);
  const unsigned e = PerRegister(dt), width = ptx::BitsOf(dt);
  for (Core core : lanes) {
    const Operand& op = core.Op(0);
    for (size_t r = 0; r < RegisterCount(op); ++r) {
      uint64_t bits = 0;
      for (unsigned i = 0; i < e; ++i) {
        Place p = PlaceC(core.thread_.lane(), static_cast<unsigned>(r) * e + i);
        bits |= Get(d, p.row, p.col, dt) << (e == 1 ? 0 : i * width);
      }
      core.Write(RegisterAt(op, r), width == 64 ? Type::kB64 : Type::kB32, bits);
    }
  }
}

// Matrices of bytes, and of 6 or 4 bits that become bytes. In memory a row is 16 bytes; the rows of
// a matrix are the columns of the one that lanes hold if .trans is there. Of that, a lane has four
// neighbours in each row, or, of what is stored, the place of two neighbours in two rows.
void Core::MoveByteMatrices(const std::vector<Core>& lanes) {
  const Core& first = lanes.front();
  const bool load = first.in_.opcode == Opcode::kLdmatrix, trans = first.mods_.trans;
  const unsigned width = first.in_.Has("b6x16_p32") ? 6 : first.in_.Has("b4x16_p64") ? 4 : 8;
  const unsigned tall = load ? first.mods_.m : first.mods_.n;  // rows in memory
  const unsigned registers = load ? first.mods_.m / 8 : 1;     // of a matrix
  const Operand &data = first.Op(load ? 0 : 1), &address = first.Op(load ? 1 : 0);
  for (unsigned q = 0; q < first.mods_.matrix_count; ++q) {
    for (unsigned reg = 0; reg < registers; ++reg) {
      for (Core core : lanes) {
        const unsigned lane = core.thread_.lane(), g = lane / 4, p = lane % 4;
        const Operand& to = RegisterAt(data, q * registers + reg);
        uint64_t word = load ? 0 : core.Read(to, Type::kB32);
        for (unsigned i = 0; i < 4; ++i) {
          unsigned row = load ? g + 8 * reg : g + 8 * (i / 2);  // of what the lanes hold
          unsigned col = load ? 4 * p + i : 2 * p + i % 2;
          if (trans) std::swap(row, col);
          const Core& names = lanes[tall * q + row];
          uint8_t* line = names.Pointer(address, first.mods_.space, 16, 16);
          if (!load) {
            line[col] = static_cast<uint8_t>(word >> (8 * i));
            continue;
          }
          unsigned element = 0;
          for (unsigned bit = 0; bit < width; ++bit) {
            const unsigned at = col * width + bit;
            element |= (line[at / 8] >> (at % 8) & 1u) << bit;
          }
          word |= uint64_t{element} << (8 * i);
        }
        if (load) core.Write(to, Type::kB32, word);
      }
    }
  }
}

// Eight rows of 16 bytes a matrix, row r of matrix q at the address lane 8q + r gives. A lane holds
// two neighbours of a row, or with .trans of a column.
void Core::MoveMatrices(const std::vector<Core>& lanes) {
  const Core& first = lanes.front();
  const bool load = first.in_.opcode == Opcode::kLdmatrix,
             store = first.in_.opcode == Opcode::kStmatrix;
  const unsigned count = load || store ? first.mods_.matrix_count : 1;
  const bool plain = first.mods_.m == 8 && first.mods_.n == 8 && first.in_.type() == Type::kB16;
  const bool bytes = load ? first.mods_.n == 16 : store && first.mods_.m == 16;
  if (bytes && lanes.size() == kWarpSize) return MoveByteMatrices(lanes);
  if (!plain || lanes.size() != kWarpSize) first.Unsupported("matrix shape");
  const size_t address = load ? 1 : 0, data = load ? 0 : 1;
  const bool trans = first.mods_.trans;
  auto row = [&](unsigned matrix, unsigned r) {
    const Core& core = lanes[8 * matrix + r];
    return core.Pointer(core.Op(address), first.mods_.space, 16, 16);
  };
  for (unsigned q = 0; q < count; ++q) {
    uint16_t elements[8][8] = {};
    if (load) {
      for (unsigned r = 0; r < 8; ++r) std::memcpy(elements[r], row(q, r), 16);
    } else {
      for (const Core& core : lanes) {
        const unsigned lane = core.thread_.lane();
        uint64_t pair = core.Read(RegisterAt(core.Op(data), q), Type::kB32);
        for (unsigned i = 0; i < 2; ++i) {
          unsigned r = lane / 4, c = 2 * (lane % 4) + i;
          (store && trans ? elements[c][r] : elements[r][c]) =
              static_cast<uint16_t>(pair >> (16 * i));
        }
      }
    }
    if (store) {
      for (unsigned r = 0; r < 8; ++r) std::memcpy(row(q, r), elements[r], 16);
      continue;
    }
    for (Core core : lanes) {
      const unsigned lane = core.thread_.lane();
      uint64_t pair = 0;
      for (unsigned i = 0; i < 2; ++i) {
        unsigned r = lane / 4, c = 2 * (lane % 4) + i;
        pair |= uint64_t{trans ? elements[c][r] : elements[r][c]} << (16 * i);
      }
      core.Write(RegisterAt(core.Op(0), q), Type::kB32, pair);
    }
  }
}

// wmma leaves the fragment layout to the machine. Here: lane l holds elements l * count/32 and on,
// row-major, packed into the first registers; the rest of a fragment (the ISA's is larger for
// halves) stays unused.
void Core::WarpMatrix(const std::vector<Core>& lanes) {
  const Core& first = lanes.front();
  const ptx::Modifiers& mods = first.mods_;
  using ptx::MatrixOp;
  const unsigned m = mods.m, n = mods.n, k = mods.k;
  if (lanes.size() != kWarpSize || !m || !n || !k || m * n > 4096 || first.in_.Has("popc"))
    first.Unsupported("matrix shape");
  auto fragment = [&](size_t operand, Type type, Matrix* into, bool gather) {
    const unsigned total = into->rows * into->cols / kWarpSize, width = ptx::BitsOf(type),
                   e = PerRegister(type);
    const Type reg_type = width == 64 ? Type::kB64 : Type::kB32;
    for (Core core : lanes) {
      const Operand& op = core.Op(operand);
      if (RegisterCount(op) * e < total) first.Unsupported("fragment of too few registers");
      for (unsigned r = 0; r * e < total; ++r) {
        uint64_t bits = gather ? core.Read(RegisterAt(op, r), reg_type) : 0;
        for (unsigned i = 0; i < e && r * e + i < total; ++i) {
          unsigned at = core.thread_.lane() * total + r * e + i, shift = e == 1 ? 0 : i * width;
          if (gather)
            Put(into, at / into->cols, at % into->cols, type,
                e == 1 ? bits : MaskBits(bits >> shift, width));
          else
            bits |= Get(*into, at / into->cols, at % into->cols, type) << shift;
        }
        if (!gather) core.Write(RegisterAt(op, r), reg_type, bits);
      }
    }
  };
  if (mods.matrix_op == MatrixOp::kMma) {
    // wmma.mma of halves names only d's and c's types.
    const bool halves = mods.type_count == 2;
    const Type dt = mods.types[0], at = halves ? Type::kF16 : mods.types[1],
               bt = halves ? Type::kF16 : mods.types[2],
               ct = halves ? mods.types[1] : mods.types[3];
    Matrix a(m, k), b(k, n), c(m, n), d(m, n);
    fragment(1, at, &a, true);
    fragment(2, bt, &b, true);
    fragment(3, ct, &c, true);
    MultiplyMatrices(a, b, c, at, first.in_, &d);
    fragment(0, dt, &d, false);
    return;
  }
  const bool store = mods.matrix_op == MatrixOp::kStoreD;
  const unsigned rows = mods.matrix_op == MatrixOp::kLoadB ? k : m;
  const unsigned cols = mods.matrix_op == MatrixOp::kLoadA ? k : n;
  const Type type = mods.types[0];
  if (ptx::BitsOf(type) < 8) first.Unsupported("matrix of parts of a byte");
  const unsigned width = ptx::BytesOf(type);
  const bool row_major = mods.layout_a == ptx::Layout::kRow;
  const uint64_t stride =
      first.OperandCount() > 2 ? first.Read(first.Op(2), Type::kB32) : (row_major ? cols : rows);
  uint8_t* base = first.Pointer(first.Op(store ? 0 : 1), mods.space, width, width);
  Matrix matrix(rows, cols);
  if (store) fragment(1, type, &matrix, true);
  for (unsigned r = 0; r < rows; ++r) {
    for (unsigned c = 0; c < cols; ++c) {
      uint8_t* at = base + (row_major ? r * stride + c : c * stride + r) * width;
      uint64_t bits = 0;
      if (store) {
        bits = Get(matrix, r, c, type);
        std::memcpy(at, &bits, width);
      } else {
        std::memcpy(&bits, at, width);
        Put(&matrix, r, c, type, bits);
      }
    }
  }
  if (!store) fragment(0, type, &matrix, false);
}

}  // namespace farcall::cpu_device::ptx_interpreter
