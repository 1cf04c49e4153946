// SPDX-License-Identifier: Apache-2.0
// mma, ldmatrix, stmatrix, movmatrix. Elements are small integers, so that every order of
// summing is exact.
#include <functional>
#include <string>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/matrix_values.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;

struct Place {
  unsigned row, col;
};
using Layout = std::function<Place(unsigned group, unsigned quad,
                                   unsigned i)>;  // group = lane / 4, quad = lane % 4

// Element i of a lane, from the ISA's fragment pictures.
struct Shape {
  std::string mnemonic;
  unsigned m, n, k;
  unsigned bits_ab, bits_cd;                     // element widths
  unsigned a_elements, b_elements, cd_elements;  // a lane
  Layout a, b, cd;
  std::function<uint64_t(int)> encode_ab, encode_cd;
  bool is_signed;                                   // elements may be negative
  std::function<uint64_t(int)> encode_b = nullptr;  // if not as a's
  std::function<int(int, int)> product = nullptr;   // if not their product
};

const Layout kAccumulator16 = [](unsigned g, unsigned q, unsigned i) {
  return Place{i < 2 ? g : g + 8, 2 * q + (i & 1)};
};
const Layout kAccumulator8 = [](unsigned g, unsigned q, unsigned i) { return Place{g, 2 * q + i}; };

// Registers of a fragment, lane after lane; 64-bit elements take two words.
std::vector<Word> Pack(unsigned elements, unsigned bits, const Layout& layout,
                       const std::function<uint64_t(unsigned, unsigned)>& value) {
  std::vector<Word> words;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    uint64_t pending = 0;
    unsigned held = 0;
    for (unsigned i = 0; i < elements; ++i) {
      Place p = layout(lane / 4, lane % 4, i);
      uint64_t v = value(p.row, p.col);
      if (bits == 64) {
        words.push_back(static_cast<Word>(v));
        words.push_back(static_cast<Word>(v >> 32));
        continue;
      }
      pending |= v << held;
      held += bits;
      if (held == 32) {
        words.push_back(static_cast<Word>(pending));
        pending = 0;
        held = 0;
      }
    }
  }
  return words;
}

// Loads or stores a lane's `count` registers of `width` bits at `pointer` + lane * size.
std::string Transfer(bool load, const std::string& pointer, const std::string& prefix,
                     unsigned count, unsigned width) {
  const unsigned bytes = width / 8;
  std::string s = "  mul.wide.u32 %off, %lane, " + std::to_string(count * bytes) +
                  ";\n  add.s64 %at, " + pointer + ", %off;\n";
  for (unsigned i = 0; i < count; ++i) {
    const std::string address = "[%at+" + std::to_string(i * bytes) + "]",
                      reg = prefix + std::to_string(i), t = ".b" + std::to_string(width);
    s += load ? "  ld.global" + t + " " + reg + ", " + address + ";\n"
              : "  st.global" + t + " " + address + ", " + reg + ";\n";
  }
  return s;
}

void AddMma(Cases* out, const Shape& s) {
  auto a = [&](unsigned r, unsigned c) { return Element(r, c, 1, s.is_signed); };
  auto b = [&](unsigned r, unsigned c) { return Element(r, c, 2, s.is_signed); };
  auto c = [&](unsigned r, unsigned col) { return Element(r, col, 3, true); };
  auto d = [&](unsigned r, unsigned col) {
    int sum = c(r, col);
    for (unsigned k = 0; k < s.k; ++k)
      sum += s.product ? s.product(a(r, k), b(k, col)) : a(r, k) * b(k, col);
    return sum;
  };
  const unsigned wide_ab = s.bits_ab == 64 ? 64 : 32, wide_cd = s.bits_cd == 64 ? 64 : 32;
  const unsigned na = s.a_elements * s.bits_ab / wide_ab, nb = s.b_elements * s.bits_ab / wide_ab,
                 nc = s.cd_elements * s.bits_cd / wide_cd;
  const std::string ra = wide_ab == 64 ? "%wa" : "%a", rb = wide_ab == 64 ? "%wb" : "%b",
                    rc = wide_cd == 64 ? "%wc" : "%c", rd = wide_cd == 64 ? "%wd" : "%d";
  Case made;
  made.name = s.mnemonic;
  made.ptx = kProlog + Transfer(true, "%rd2", ra, na, wide_ab) +
             Transfer(true, "%rd3", rb, nb, wide_ab) + Transfer(true, "%rd4", rc, nc, wide_cd) +
             "  " + s.mnemonic + " " + List(rd, nc) + ", " + List(ra, na) + ", " + List(rb, nb) +
             ", " + List(rc, nc) + ";\n" + Transfer(false, "%rd1", rd, nc, wide_cd) + "  ret;\n}\n";
  made.block.x = kLanes;
  made.arguments.push_back(
      Output(Pack(s.cd_elements, s.bits_cd, s.cd,
                  [&](unsigned r, unsigned col) { return s.encode_cd(d(r, col)); })));
  made.arguments.push_back(Input(Pack(s.a_elements, s.bits_ab, s.a, [&](unsigned r, unsigned col) {
    return s.encode_ab(a(r, col));
  })));
  made.arguments.push_back(Input(Pack(s.b_elements, s.bits_ab, s.b, [&](unsigned r, unsigned col) {
    return s.encode_b ? s.encode_b(b(r, col)) : s.encode_ab(b(r, col));
  })));
  made.arguments.push_back(
      Input(Pack(s.cd_elements, s.bits_cd, s.cd,
                 [&](unsigned r, unsigned col) { return s.encode_cd(c(r, col)); })));
  out->push_back(made);
}

void AddMmas(Cases* out) {
  const Layout a16x16 = [](unsigned g, unsigned q, unsigned i) {
    return Place{i < 2 || (i >= 4 && i < 6) ? g : g + 8, 2 * q + (i & 1) + (i >= 4 ? 8 : 0)};
  };
  const Layout b16x8 = [](unsigned g, unsigned q, unsigned i) {
    return Place{2 * q + (i & 1) + (i >= 2 ? 8 : 0), g};
  };
  const Layout a16x8 = [](unsigned g, unsigned q, unsigned i) {
    return Place{i < 2 ? g : g + 8, 2 * q + (i & 1)};
  };
  const Layout b8x8 = [](unsigned g, unsigned q, unsigned i) { return Place{2 * q + i, g}; };
  const std::string halves = "mma.sync.aligned.m16n8k16.row.col.", p = "mma.sync.aligned.";
  AddMma(out, {halves + "f32.f16.f16.f32", 16, 8, 16, 16, 32, 8, 4, 4, a16x16, b16x8,
               kAccumulator16, AsHalf, AsFloat, true});
  AddMma(out, {halves + "f16.f16.f16.f16", 16, 8, 16, 16, 16, 8, 4, 4, a16x16, b16x8,
               kAccumulator16, AsHalf, AsHalf, true});
  AddMma(out, {halves + "f32.bf16.bf16.f32", 16, 8, 16, 16, 32, 8, 4, 4, a16x16, b16x8,
               kAccumulator16, AsBfloat, AsFloat, true});
  AddMma(out, {p + "m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 8, 16, 32, 4, 2, 4, a16x8, b8x8,
               kAccumulator16, AsHalf, AsFloat, true});
  AddMma(out, {p + "m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 8, 16, 32, 4, 2, 4, a16x8, b8x8,
               kAccumulator16, AsBfloat, AsFloat, true});
  // One element a register along k.
  const Layout at4 = [](unsigned g, unsigned q, unsigned i) {
    return Place{i == 0 ? g : g + 8, q};
  };
  const Layout bt4 = [](unsigned g, unsigned q, unsigned) { return Place{q, g}; };
  const Layout at8 = [](unsigned g, unsigned q, unsigned i) {
    return Place{i == 0 || i == 2 ? g : g + 8, i < 2 ? q : q + 4};
  };
  const Layout bt8 = [](unsigned g, unsigned q, unsigned i) {
    return Place{i == 0 ? q : q + 4, g};
  };
  AddMma(out, {p + "m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, 32, 32, 2, 1, 4, at4, bt4,
               kAccumulator16, AsFloat, AsFloat, true});
  AddMma(out, {p + "m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, 32, 32, 4, 2, 4, at8, bt8,
               kAccumulator16, AsFloat, AsFloat, true});
  const Layout ad = [](unsigned g, unsigned q, unsigned) { return Place{g, q}; };
  AddMma(out, {p + "m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4, 64, 64, 1, 1, 2, ad, bt4,
               kAccumulator8, AsDouble, AsDouble, true});
  // Bytes.
  const Layout a8k16 = [](unsigned g, unsigned q, unsigned i) { return Place{g, 4 * q + i}; };
  const Layout b8k16 = [](unsigned g, unsigned q, unsigned i) { return Place{4 * q + i, g}; };
  const Layout a16k16 = [](unsigned g, unsigned q, unsigned i) {
    return Place{i < 4 ? g : g + 8, 4 * q + (i & 3)};
  };
  const Layout a16k32 = [](unsigned g, unsigned q, unsigned i) {
    return Place{i < 4 || (i >= 8 && i < 12) ? g : g + 8, 4 * q + (i & 3) + (i >= 8 ? 16 : 0)};
  };
  const Layout b16k32 = [](unsigned g, unsigned q, unsigned i) {
    return Place{4 * q + (i & 3) + (i >= 4 ? 16 : 0), g};
  };
  AddMma(out, {p + "m8n8k16.row.col.s32.s8.s8.s32", 8, 8, 16, 8, 32, 4, 4, 2, a8k16, b8k16,
               kAccumulator8, AsByte, AsInt, true});
  AddMma(out, {p + "m16n8k16.row.col.s32.s8.s8.s32", 16, 8, 16, 8, 32, 8, 4, 4, a16k16, b8k16,
               kAccumulator16, AsByte, AsInt, true});
  AddMma(out, {p + "m16n8k32.row.col.s32.s8.s8.s32", 16, 8, 32, 8, 32, 16, 8, 4, a16k32, b16k32,
               kAccumulator16, AsByte, AsInt, true});
  AddMma(out, {p + "m16n8k32.row.col.satfinite.s32.u8.u8.s32", 16, 8, 32, 8, 32, 16, 8, 4, a16k32,
               b16k32, kAccumulator16, AsByte, AsInt, false});
  AddMma(out, {p + "m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 8, 32, 8, 32, 16, 8, 4, a16k32, b16k32,
               kAccumulator16, AsE4m3, AsFloat, true});
  AddMma(out, {p + "m16n8k32.row.col.f32.e5m2.e5m2.f32", 16, 8, 32, 8, 32, 16, 8, 4, a16k32, b16k32,
               kAccumulator16, AsE5m2, AsFloat, true});
}

// One rule places the elements of every shape: a register holds `e` neighbours along k, a quad of
// lanes four registers of k, the next registers of a tall a go down 8 rows, then on in k.
void AddMoreMmas(Cases* out) {
  auto place_a = [](unsigned e, bool tall) {
    return [=](unsigned g, unsigned q, unsigned i) {
      const unsigned r = i / e;
      return tall ? Place{r % 2 ? g + 8 : g, r / 2 * 4 * e + q * e + i % e}
                  : Place{g, r * 4 * e + q * e + i % e};
    };
  };
  auto place_b = [](unsigned e) {
    return [=](unsigned g, unsigned q, unsigned i) {
      return Place{i / e * 4 * e + q * e + i % e, g};
    };
  };
  auto add = [&](const std::string& rest, unsigned m, unsigned k, unsigned bits_ab,
                 unsigned bits_cd, std::function<uint64_t(int)> encode_ab,
                 std::function<uint64_t(int)> encode_cd, bool is_signed,
                 std::function<uint64_t(int)> encode_b = nullptr,
                 std::function<int(int, int)> product = nullptr) {
    const unsigned e = std::max(32 / bits_ab, 1u);
    AddMma(out, {"mma.sync.aligned." + rest, m, 8, k, bits_ab, bits_cd, m * k / 32, k / 4, m / 4,
                 place_a(e, m == 16), place_b(e), m == 16 ? kAccumulator16 : kAccumulator8,
                 encode_ab, encode_cd, is_signed, encode_b, product});
  };
  add("m16n8k32.row.col.f32.e4m3.e5m2.f32", 16, 32, 8, 32, AsE4m3, AsFloat, true, AsE5m2);
  add("m16n8k32.row.col.f32.e5m2.e4m3.f32", 16, 32, 8, 32, AsE5m2, AsFloat, true, AsE4m3);
  add("m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 16, 16, AsHalf, AsHalf, true);
  add("m16n8k32.row.col.s32.s8.s8.s32.satfinite", 16, 32, 8, 32, AsByte, AsInt, true);
  add("m8n8k16.row.col.satfinite.s32.s8.s8.s32", 8, 16, 8, 32, AsByte, AsInt, true);
  add("m8n8k32.row.col.s32.s4.s4.s32", 8, 32, 4, 32, AsNibble, AsInt, true);
  add("m16n8k32.row.col.s32.u4.u4.s32", 16, 32, 4, 32, AsNibble, AsInt, false);
  add("m16n8k64.row.col.satfinite.s32.s4.s4.s32", 16, 64, 4, 32, AsNibble, AsInt, true);
  for (unsigned k : {4, 8, 16}) {
    add("m16n8k" + std::to_string(k) + ".row.col.f64.f64.f64.f64", 16, k, 64, 64, AsDouble,
        AsDouble, true);
  }
  auto differ = [](int a, int b) { return (a ^ b) & 1; };
  auto both = [](int a, int b) { return a & b & 1; };
  for (unsigned k : {128, 256}) {
    for (unsigned m : {8, 16}) {
      if (m == 8 && k == 256) continue;
      const std::string shape =
          "m" + std::to_string(m) + "n8k" + std::to_string(k) + ".row.col.s32.b1.b1.s32.";
      add(shape + "xor.popc", m, k, 1, 32, AsBit, AsInt, false, nullptr, differ);
      add(shape + "and.popc", m, k, 1, 32, AsBit, AsInt, false, nullptr, both);
    }
  }
}

// Four 8x8 matrices of 16-bit elements in shared memory, rows of 16 bytes: element = matrix << 8 |
// row << 4 | col.
std::vector<uint16_t> FourMatrices() {
  std::vector<uint16_t> v;
  for (unsigned q = 0; q < 4; ++q) {
    for (unsigned r = 0; r < 8; ++r)
      for (unsigned c = 0; c < 8; ++c) v.push_back(static_cast<uint16_t>(q << 8 | r << 4 | c));
  }
  return v;
}

// What a lane holds of matrix q: two neighbours of row lane / 4, or of column lane / 4.
Word PairOf(unsigned q, unsigned lane, bool trans) {
  Word pair = 0;
  for (unsigned i = 0; i < 2; ++i) {
    unsigned r = lane / 4, c = 2 * (lane % 4) + i;
    pair |= (q << 8 | (trans ? c << 4 | r : r << 4 | c)) << (16 * i);
  }
  return pair;
}

// 32 rows of 16 bytes, all different within a matrix.
uint8_t ByteAt(unsigned row, unsigned at) {
  return static_cast<uint8_t>(row * 16 + at + row / 16 * 97);
}
// Element `i` of a row of elements of 4, 6 or 8 bits.
unsigned SmallAt(unsigned row, unsigned i, unsigned bits) {
  const unsigned at = i * bits / 8;
  const unsigned pair = ByteAt(row, at) | ByteAt(row, at + 1) << 8;
  return pair >> (i * bits % 8) & ((1u << bits) - 1);
}

// Matrices of bytes: PTX ISA, the pictures of 16 x 16 and 8 x 16 in "ldmatrix" and of 16 x 8 in
// "stmatrix". A matrix that is transposed lies in memory by columns.
void AddByteMoves(Cases* out, const std::string& area, const std::string& fill) {
  std::vector<uint8_t> rows;
  for (unsigned row = 0; row < 32; ++row)
    for (unsigned at = 0; at < 16; ++at) rows.push_back(ByteAt(row, at));
  struct Form {
    const char* type;
    unsigned bits;
  };
  for (const Form& form : {Form{"b8", 8}, {"b8x16.b6x16_p32", 6}, {"b8x16.b4x16_p64", 4}}) {
    for (bool square : {true, false}) {
      if (!square && form.bits == 8) continue;
      for (unsigned count : {1u, 2u, 4u}) {
        if (square && count == 4) continue;
        const unsigned words = square ? 2 * count : count;
        Case load;
        load.name = std::string("ldmatrix.sync.aligned.") + (square ? "m16n16" : "m8n16") + ".x" +
                    std::to_string(count) + (square ? ".trans" : "") + ".shared." + form.type;
        load.ptx = kProlog + area + fill + "  " + load.name + " " + List("%d", words) +
                   ", [%t2];\n" + Transfer(false, "%rd1", "%d", words, 32) + "  ret;\n}\n";
        load.block.x = kLanes;
        std::vector<Word> want;
        for (unsigned lane = 0; lane < kLanes; ++lane) {
          for (unsigned w = 0; w < words; ++w) {
            Word word = 0;
            for (unsigned i = 0; i < 4; ++i) {
              const unsigned column = 4 * (lane % 4) + i;
              word |= (square ? SmallAt(w / 2 * 16 + column, lane / 4 + 8 * (w % 2), form.bits)
                              : SmallAt(8 * w + lane / 4, column, form.bits))
                      << (8 * i);
            }
            want.push_back(word);
          }
        }
        load.arguments = {Output(want), Input(rows), Scalar<uint64_t>(0), Scalar<uint64_t>(0)};
        out->push_back(load);
      }
    }
  }
  for (unsigned count : {1u, 2u, 4u}) {
    Case store;
    store.name = "stmatrix.sync.aligned.m16n8.x" + std::to_string(count) + ".trans.shared.b8";
    store.ptx = kProlog + area + Transfer(true, "%rd2", "%a", count, 32) + "  " + store.name +
                " [%t2], " + List("%a", count) +
                ";\n  bar.warp.sync -1;\n  ld.shared.v4.b32 {%d0, %d1, %d2, %d3}, [%t2];\n  "
                "setp.lt.u32 %p, %lane, " +
                std::to_string(8 * count) +
                ";\n  mul.wide.u32 %off, %lane, 16;\n  add.s64 %at, %rd1, %off;\n  @%p "
                "st.global.v4.b32 [%at], {%d0, %d1, %d2, %d3};\n  ret;\n}\n";
    store.ptx.insert(store.ptx.find("  .reg .b32 %lane"), "  .reg .pred %p;\n");
    store.block.x = kLanes;
    std::vector<Word> in;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      for (unsigned q = 0; q < count; ++q) {
        Word word = 0;
        for (unsigned i = 0; i < 4; ++i) {
          const unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
          word |= Word{ByteAt(8 * q + column, row)} << (8 * i);
        }
        in.push_back(word);
      }
    }
    const std::vector<uint8_t> want(rows.begin(), rows.begin() + 128 * count);
    store.arguments = {Output(want), Input(in), Scalar<uint64_t>(0), Scalar<uint64_t>(0)};
    out->push_back(store);
  }
}

void AddMoves(Cases* out) {
  const std::string area = "  .shared .align 16 .b8 area[512];\n";
  const std::string address =
      "  mov.u32 %t0, area;\n  shl.b32 %t1, %lane, 4;\n  add.s32 %t2, %t0, %t1;\n";
  const std::string fill =
      "  mul.wide.u32 %off, %lane, 16;\n  add.s64 %at, %rd2, %off;\n  ld.global.v4.b32 {%a0, %a1, "
      "%a2, %a3}, [%at];\n  st.shared.v4.b32 [%t2], {%a0, %a1, %a2, %a3};\n  bar.warp.sync -1;\n";
  for (bool trans : {false, true}) {
    for (unsigned count : {1u, 2u, 4u}) {
      const std::string t = trans ? ".trans" : "", x = ".x" + std::to_string(count);
      Case load;
      load.name = "ldmatrix.sync.aligned.m8n8" + x + t + ".shared.b16";
      load.ptx = kProlog + area + address + fill + "  " + load.name + " " + List("%d", count) +
                 ", [%t2];\n" + Transfer(false, "%rd1", "%d", count, 32) + "  ret;\n}\n";
      load.block.x = kLanes;
      std::vector<Word> want;
      for (unsigned lane = 0; lane < kLanes; ++lane)
        for (unsigned q = 0; q < count; ++q) want.push_back(PairOf(q, lane, trans));
      load.arguments = {Output(want), Input(FourMatrices()), Scalar<uint64_t>(0),
                        Scalar<uint64_t>(0)};
      out->push_back(load);
      // The same by a generic address.
      load.name = "ldmatrix.sync.aligned.m8n8" + x + t + ".b16";
      load.ptx = kProlog + area + address + fill +
                 "  cvt.u64.u32 %at, %t2;\n  cvta.shared.u64 %at, %at;\n  " + load.name + " " +
                 List("%d", count) + ", [%at];\n" + Transfer(false, "%rd1", "%d", count, 32) +
                 "  ret;\n}\n";
      out->push_back(load);
      Case store;
      store.name = "stmatrix.sync.aligned.m8n8" + x + t + ".shared.b16";
      store.ptx = kProlog + area + address + Transfer(true, "%rd2", "%a", count, 32) + "  " +
                  store.name + " [%t2], " + List("%a", count) +
                  ";\n  bar.warp.sync -1;\n  ld.shared.v4.b32 {%d0, %d1, %d2, %d3}, [%t2];\n  "
                  "setp.lt.u32 %p, %lane, " +
                  std::to_string(8 * count) +
                  ";\n  mul.wide.u32 %off, %lane, 16;\n  add.s64 %at, %rd1, %off;\n  @%p "
                  "st.global.v4.b32 [%at], {%d0, %d1, %d2, %d3};\n  ret;\n}\n";
      store.ptx.insert(store.ptx.find("  .reg .b32 %lane"), "  .reg .pred %p;\n");
      store.block.x = kLanes;
      std::vector<uint16_t> matrices = FourMatrices();
      matrices.resize(64 * count);
      store.arguments = {Output(matrices), Input(want), Scalar<uint64_t>(0), Scalar<uint64_t>(0)};
      out->push_back(store);
    }
  }
  AddByteMoves(out, area + address, fill);
  Case move;
  move.name = "movmatrix.sync.aligned.m8n8.trans.b16";
  move.ptx = kProlog + Transfer(true, "%rd2", "%a", 1, 32) + "  " + move.name + " %d0, %a0;\n" +
             Transfer(false, "%rd1", "%d", 1, 32) + "  ret;\n}\n";
  move.block.x = kLanes;
  std::vector<Word> in, want;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    in.push_back(PairOf(1, lane, false));
    want.push_back(PairOf(1, lane, true));
  }
  move.arguments = {Output(want), Input(in), Scalar<uint64_t>(0), Scalar<uint64_t>(0)};
  out->push_back(move);
}

}  // namespace

void AddMatrixCases(Cases* out) {
  AddMmas(out);
  AddMoreMmas(out);
  AddMoves(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
