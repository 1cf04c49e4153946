// SPDX-License-Identifier: Apache-2.0
// mma, ldmatrix, stmatrix, movmatrix, wmma. Elements are small integers, so that every order of
// summing is exact.
#include <array>
#include <functional>
#include <string>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/small_float.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
using Word = uint32_t;
constexpr unsigned kLanes = 32;

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

int Element(unsigned row, unsigned col, unsigned salt, bool is_signed) {
  int v = static_cast<int>((row * 7 + col * 3 + salt * 5 + row * col) % 7);
  return is_signed ? v - 3 : v;
}

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

std::string List(const std::string& prefix, unsigned count) {
  std::string s = "{";
  for (unsigned i = 0; i < count; ++i) s += (i ? ", " : "") + prefix + std::to_string(i);
  return s + "}";
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

const char kProlog[] =
    ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p_d, .param .u64 "
    "p_a, .param .u64 p_b, .param .u64 p_c)\n{\n"
    "  .reg .b32 %lane, %t<8>, %a<8>, %b<8>, %c<8>, %d<8>;\n  .reg .b64 %rd<8>, %off, %at, %wa<8>, "
    "%wb<8>, %wc<8>, %wd<8>;\n"
    "  mov.u32 %lane, %tid.x;\n  ld.param.u64 %rd1, [p_d];\n  ld.param.u64 %rd2, [p_a];\n  "
    "ld.param.u64 %rd3, [p_b];\n  ld.param.u64 %rd4, [p_c];\n";

void AddMma(Cases* out, const Shape& s) {
  auto a = [&](unsigned r, unsigned c) { return Element(r, c, 1, s.is_signed); };
  auto b = [&](unsigned r, unsigned c) { return Element(r, c, 2, s.is_signed); };
  auto c = [&](unsigned r, unsigned col) { return Element(r, col, 3, true); };
  auto d = [&](unsigned r, unsigned col) {
    int sum = c(r, col);
    for (unsigned k = 0; k < s.k; ++k) {
      sum += s.product ? s.product(a(r, k), b(k, col)) : a(r, k) * b(k, col);
    }
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

uint64_t AsHalf(int v) {
  return EncodeSmall(kF16, v);
}
uint64_t AsBfloat(int v) {
  return EncodeSmall(kBf16, v);
}
uint64_t AsE4m3(int v) {
  return EncodeSmall(kF8e4m3, v);
}
uint64_t AsE5m2(int v) {
  return EncodeSmall(kF8e5m2, v);
}
uint64_t AsNibble(int v) {
  return static_cast<uint64_t>(v & 15);
}
uint64_t AsBit(int v) {
  return static_cast<uint64_t>(v & 1);
}
uint64_t AsByte(int v) {
  return static_cast<uint8_t>(v);
}
uint64_t AsInt(int v) {
  return static_cast<uint32_t>(v);
}
uint64_t AsFloat(int v) {
  float f = static_cast<float>(v);
  Word w;
  std::memcpy(&w, &f, 4);
  return w;
}
uint64_t AsDouble(int v) {
  double f = v;
  uint64_t w;
  std::memcpy(&w, &f, 8);
  return w;
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
    for (unsigned r = 0; r < 8; ++r) {
      for (unsigned c = 0; c < 8; ++c) v.push_back(static_cast<uint16_t>(q << 8 | r << 4 | c));
    }
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
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        for (unsigned q = 0; q < count; ++q) want.push_back(PairOf(q, lane, trans));
      }
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

// Whole matrices through memory: the fragment layout is the machine's own affair.
void AddWmma(Cases* out, const std::string& name, unsigned m, unsigned n, unsigned k,
             const std::string& ab, const std::string& mma_types, unsigned na, unsigned nb,
             unsigned nc, bool wide, bool a_row, bool b_row,
             std::function<std::vector<uint8_t>(const std::vector<int>&)> encode_ab,
             std::function<std::vector<uint8_t>(const std::vector<int>&)> encode_c,
             const std::string& c_type, bool shared = false, bool d_row = false) {
  auto at = [](unsigned r, unsigned c, unsigned salt) { return Element(r, c, salt, true); };
  std::vector<int> a(m * k), b(k * n), c(m * n), d(m * n);
  for (unsigned r = 0; r < m; ++r) {
    for (unsigned x = 0; x < k; ++x) a[a_row ? r * k + x : x * m + r] = at(r, x, 1);
  }
  for (unsigned x = 0; x < k; ++x) {
    for (unsigned j = 0; j < n; ++j) b[b_row ? x * n + j : j * k + x] = at(x, j, 2);
  }
  for (unsigned r = 0; r < m; ++r) {
    for (unsigned j = 0; j < n; ++j) {
      int sum = c[r * n + j] = at(r, j, 3);
      for (unsigned x = 0; x < k; ++x) sum += at(r, x, 1) * at(x, j, 2);
      d[d_row ? r * n + j : j * m + r] = sum;
    }
  }
  const std::string shape = ".m" + std::to_string(m) + "n" + std::to_string(n) + "k" +
                            std::to_string(k),
                    w = "wmma.";
  const std::string la = a_row ? "row" : "col", lb = b_row ? "row" : "col";
  auto reg = [&](const char* narrow, const char* broad) {
    return std::string(wide ? broad : narrow);
  };
  const std::string ra = List(reg("%a", "%wa"), na), rb = List(reg("%b", "%wb"), nb),
                    rc = List(reg("%c", "%wc"), nc), rd = List(reg("%d", "%wd"), nc);
  // Words from one place to another, all lanes together.
  auto copy = [](const std::string& label, const std::string& from, const std::string& to,
                 size_t bytes, bool out_of) {
    return "  mov.u64 %wa6, " + from + ";\n  mov.u64 %wa7, " + to +
           ";\n  mul.wide.u32 %off, %lane, 4;\n  add.u64 %wa6, %wa6, %off;\n  add.u64 %wa7, %wa7, "
           "%off;\n  mov.u32 %t1, %lane;\n" +
           label + ":\n  setp.ge.u32 %past, %t1, " + std::to_string(bytes / 4) +
           ";\n  @%past bra " + label + "_END;\n  ld." + (out_of ? "shared" : "global") +
           ".u32 %t2, [%wa6];\n  st." + (out_of ? "global" : "shared") +
           ".u32 [%wa7], %t2;\n  add.u64 %wa6, %wa6, 128;\n  add.u64 %wa7, %wa7, 128;\n  add.u32 "
           "%t1, %t1, 32;\n  bra " +
           label + ";\n" + label + "_END:\n  bar.warp.sync -1;\n";
  };
  const std::string space = shared ? ".shared." : ".global.";
  std::string before, after, at_a = "%rd2", at_b = "%rd3", at_d = "%rd1";
  if (shared) {
    before =
        "  .reg .pred %past;\n  .shared .align 32 .b8 area_a[2048];\n"
        "  .shared .align 32 .b8 area_b[2048];\n  .shared .align 32 .b8 area_d[4096];\n" +
        copy("COPY_A", "%rd2", "area_a", encode_ab(a).size(), false) +
        copy("COPY_B", "%rd3", "area_b", encode_ab(b).size(), false) +
        "  mov.u64 %rd5, area_a;\n  mov.u64 %rd6, area_b;\n  mov.u64 %rd7, area_d;\n";
    after = "  bar.warp.sync -1;\n" + copy("COPY_D", "area_d", "%rd1", encode_c(d).size(), true);
    at_a = "%rd5", at_b = "%rd6", at_d = "%rd7";
  }
  Case made;
  made.name = name;
  made.ptx = kProlog + before +
             ("  wmma.load.a.sync.aligned." + la + shape + space + ab + " " + ra + ", [" + at_a +
              "], " + std::to_string(a_row ? k : m) + ";\n") +
             "  wmma.load.b.sync.aligned." + lb + shape + space + ab + " " + rb + ", [" + at_b +
             "], " + std::to_string(b_row ? n : k) + ";\n" + "  wmma.load.c.sync.aligned.row" +
             shape + ".global." + c_type + " " + rc + ", [%rd4], " + std::to_string(n) + ";\n" +
             "  wmma.mma.sync.aligned." + la + "." + lb + shape + "." + mma_types + " " + rd +
             ", " + ra + ", " + rb + ", " + rc + ";\n" + "  wmma.store.d.sync.aligned." +
             (d_row ? "row" : "col") + shape + space + c_type + " [" + at_d + "], " + rd + ", " +
             std::to_string(d_row ? n : m) + ";\n" + after + "  ret;\n}\n";
  made.block.x = kLanes;
  Argument result;
  result.kind = Argument::Kind::kOutput;
  result.expected = encode_c(d);
  result.bytes.assign(result.expected.size(), 0xcd);
  made.arguments.push_back(result);
  for (const auto& bytes : {encode_ab(a), encode_ab(b), encode_c(c)})
    made.arguments.push_back(Input(bytes));
  out->push_back(made);
}

template <typename T>
std::vector<uint8_t> Encoded(const std::vector<int>& v, uint64_t (*encode)(int)) {
  std::vector<T> bits;
  for (int x : v) bits.push_back(static_cast<T>(encode(x)));
  return BytesOf(bits);
}

void AddWmmas(Cases* out) {
  auto halves = [](const std::vector<int>& v) { return Encoded<uint16_t>(v, AsHalf); };
  auto floats = [](const std::vector<int>& v) { return Encoded<uint32_t>(v, AsFloat); };
  auto doubles = [](const std::vector<int>& v) { return Encoded<uint64_t>(v, AsDouble); };
  auto bytes = [](const std::vector<int>& v) { return Encoded<uint8_t>(v, AsByte); };
  auto ints = [](const std::vector<int>& v) { return Encoded<uint32_t>(v, AsInt); };
  AddWmma(out, "wmma.mma.row.col.m16n16k16.f32.f32", 16, 16, 16, "f16", "f32.f32", 8, 8, 8, false,
          true, false, halves, floats, "f32");
  AddWmma(out, "wmma.mma.col.row.m32n8k16.f32.f32", 32, 8, 16, "f16", "f32.f32", 8, 8, 8, false,
          false, true, halves, floats, "f32");
  AddWmma(out, "wmma.mma.row.row.m8n32k16.f16.f16", 8, 32, 16, "f16", "f16.f16", 8, 8, 4, false,
          true, true, halves, halves, "f16");
  AddWmma(out, "wmma.mma.row.col.m16n16k16.s32.s8.s8.s32", 16, 16, 16, "s8", "s32.s8.s8.s32", 2, 2,
          8, false, true, false, bytes, ints, "s32");
  AddWmma(out, "wmma.mma.row.col.m8n8k4.f64.f64.f64.f64.rn", 8, 8, 4, "f64", "f64.f64.f64.f64.rn",
          1, 1, 2, true, true, false, doubles, doubles, "f64");
  for (bool a_row : {false, true}) {
    for (bool b_row : {false, true}) {
      const std::string layouts = std::string(a_row ? ".row" : ".col") + (b_row ? ".row" : ".col");
      const std::string w = "wmma.mma.sync.aligned" + layouts;
      AddWmma(out, w + ".m32n8k16.f32.f32", 32, 8, 16, "f16", "f32.f32", 8, 8, 8, false, a_row,
              b_row, halves, floats, "f32", true);
      AddWmma(out, w + ".m32n8k16.f16.f16", 32, 8, 16, "f16", "f16.f16", 8, 8, 4, false, a_row,
              b_row, halves, halves, "f16", true);
      AddWmma(out, w + ".m16n16k16.s32.s8.s8.s32.satfinite", 16, 16, 16, "s8",
              "s32.s8.s8.s32.satfinite", 2, 2, 8, false, a_row, b_row, bytes, ints, "s32", true,
              true);
      AddWmma(out, w + ".m8n8k4.f64.f64.f64.f64.rn", 8, 8, 4, "f64", "f64.f64.f64.f64.rn", 1, 1, 2,
              true, a_row, b_row, doubles, doubles, "f64", true, true);
    }
  }
  auto bfloats = [](const std::vector<int>& v) { return Encoded<uint16_t>(v, AsBfloat); };
  AddWmma(out, "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32", 16, 16, 16, "bf16",
          "f32.bf16.bf16.f32", 4, 4, 8, false, true, false, bfloats, floats, "f32", true, true);
  AddWmma(out, "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32", 16, 16, 8, "tf32",
          "f32.tf32.tf32.f32", 4, 4, 8, false, true, false, floats, floats, "f32", true, true);
}

}  // namespace

void AddMatrixCases(Cases* out) {
  AddMmas(out);
  AddMoreMmas(out);
  AddMoves(out);
  AddWmmas(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
