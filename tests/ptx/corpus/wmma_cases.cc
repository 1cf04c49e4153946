// SPDX-License-Identifier: Apache-2.0
// wmma: whole matrices through memory. Elements are small integers, so that every order of summing
// is exact.
#include <functional>
#include <string>

#include "tests/ptx/corpus/matrix_values.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;

// The fragment layout is the machine's own affair.
void AddWmma(Cases* out, const std::string& name, unsigned m, unsigned n, unsigned k,
             const std::string& ab, const std::string& mma_types, unsigned na, unsigned nb,
             unsigned nc, bool wide, bool a_row, bool b_row,
             std::function<std::vector<uint8_t>(const std::vector<int>&)> encode_ab,
             std::function<std::vector<uint8_t>(const std::vector<int>&)> encode_c,
             const std::string& c_type, bool shared = false, bool d_row = false) {
  auto at = [](unsigned r, unsigned c, unsigned salt) { return Element(r, c, salt, true); };
  std::vector<int> a(m * k), b(k * n), c(m * n), d(m * n);
  for (unsigned r = 0; r < m; ++r)
    for (unsigned x = 0; x < k; ++x) a[a_row ? r * k + x : x * m + r] = at(r, x, 1);
  for (unsigned x = 0; x < k; ++x)
    for (unsigned j = 0; j < n; ++j) b[b_row ? x * n + j : j * k + x] = at(x, j, 2);
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

void AddWmmaCases(Cases* out) {
  AddWmmas(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
