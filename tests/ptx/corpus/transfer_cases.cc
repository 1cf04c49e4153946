// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics by the mnemonics that libraries use: each thread moves or changes
// values of its own, so both what memory holds and what an atomic returns are known.
#include <algorithm>
#include <sstream>
#include <string>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/small_float.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
constexpr uint32_t kThreads = 32;

constexpr char kTransfers[] =
    "ld.acquire.cta.b32 ld.acquire.gpu.b32 ld.acquire.gpu.b64 ld.acquire.gpu.u32 "
    "ld.acquire.sys.b32 ld.acquire.sys.b64 ld.acquire.sys.global.u32 ld.b16 ld.b32 ld.b64 ld.b8 "
    "ld.ca.u32 ld.cg.u32 ld.cg.u64 ld.const.b64 ld.const.f64 ld.const.u32 ld.f32 ld.f64 "
    "ld.global.L2::128B.u16 ld.global.L2::128B.u32 ld.global.L2::128B.v2.u32 "
    "ld.global.L2::128B.v4.u32 ld.global.acquire.gpu.b32 ld.global.b16 ld.global.b32 "
    "ld.global.b64 ld.global.b8 ld.global.ca.f32 ld.global.ca.f64 ld.global.ca.s32 "
    "ld.global.ca.v2.f32 ld.global.ca.v2.f64 ld.global.cg.b16 ld.global.cg.b32 ld.global.cg.b64 "
    "ld.global.cg.f32 ld.global.cg.f64 ld.global.cg.s32 ld.global.cg.s64 ld.global.cg.v2.b64 "
    "ld.global.cg.v2.f32 ld.global.cg.v2.f64 ld.global.cg.v4.b32 ld.global.cs.b16 "
    "ld.global.cs.f32 ld.global.cs.f64 ld.global.cs.nc.s32 ld.global.cs.nc.v2.s32 "
    "ld.global.cs.s32 ld.global.cs.s64 ld.global.cs.s8 ld.global.cs.u16 ld.global.cs.u32 "
    "ld.global.cs.u8 ld.global.cs.v2.b16 ld.global.cs.v2.f32 ld.global.cs.v2.f64 "
    "ld.global.cs.v4.f64 ld.global.cs.v4.u32 ld.global.cv.f32 ld.global.cv.f64 "
    "ld.global.cv.v2.f32 ld.global.cv.v2.f64 ld.global.f32 ld.global.f64 "
    "ld.global.nc.L1::no_allocate.f32 ld.global.nc.b16 ld.global.nc.b32 ld.global.nc.b64 "
    "ld.global.nc.b8 ld.global.nc.f32 ld.global.nc.f64 ld.global.nc.s32 ld.global.nc.s8 "
    "ld.global.nc.u16 ld.global.nc.u32 ld.global.nc.u64 ld.global.nc.u8 ld.global.nc.v2.b16 "
    "ld.global.nc.v2.b32 ld.global.nc.v2.b64 ld.global.nc.v2.b8 ld.global.nc.v2.f32 "
    "ld.global.nc.v2.f64 ld.global.nc.v2.u64 ld.global.nc.v2.u8 ld.global.nc.v4.b16 "
    "ld.global.nc.v4.b32 ld.global.nc.v4.f32 ld.global.nc.v4.f64 ld.global.nc.v4.u16 "
    "ld.global.nc.v4.u32 ld.global.nc.v8.f32 ld.global.relaxed.gpu.b32 ld.global.relaxed.gpu.b64 "
    "ld.global.s16 ld.global.s32 ld.global.s8 ld.global.u16 ld.global.u32 ld.global.u64 "
    "ld.global.u8 ld.global.v2.b16 ld.global.v2.b32 ld.global.v2.b64 ld.global.v2.f32 "
    "ld.global.v2.f64 ld.global.v2.s16 ld.global.v2.u16 ld.global.v2.u32 ld.global.v2.u64 "
    "ld.global.v4.b32 ld.global.v4.f32 ld.global.v4.f64 ld.global.v4.s16 ld.global.v4.u16 "
    "ld.global.v4.u32 ld.global.v8.b32 ld.global.v8.f32 ld.local.b16 ld.local.b32 ld.local.b64 "
    "ld.local.b8 ld.local.f32 ld.local.f64 ld.local.s8 ld.local.u32 ld.local.u64 ld.local.u8 "
    "ld.local.v2.b16 ld.local.v2.b32 ld.local.v2.b64 ld.local.v2.b8 ld.local.v2.f32 "
    "ld.local.v2.f64 ld.local.v2.u32 ld.local.v4.b16 ld.local.v4.b32 ld.local.v4.u32 "
    "ld.mmio.relaxed.sys.global.u32 ld.param.b16 ld.param.b32 ld.param.b64 ld.param.b8 "
    "ld.param.f32 ld.param.f64 ld.param.s32 ld.param.s8 ld.param.u16 ld.param.u32 ld.param.u64 "
    "ld.param.u8 ld.param.v2.b16 ld.param.v2.b32 ld.param.v2.b64 ld.param.v2.b8 ld.param.v2.f32 "
    "ld.param.v2.f64 ld.param.v2.u32 ld.param.v2.u64 ld.param.v2.u8 ld.param.v4.b32 "
    "ld.param.v4.u16 ld.param.v4.u32 ld.relaxed.gpu.b32 ld.relaxed.gpu.b64 "
    "ld.relaxed.gpu.global.u32 ld.relaxed.gpu.u32 ld.relaxed.gpu.u64 ld.relaxed.gpu.v2.u32 "
    "ld.relaxed.gpu.v2.u64 ld.relaxed.sys.b32 ld.relaxed.sys.b64 "
    "ld.relaxed.sys.global.L1::no_allocate.b32 ld.relaxed.sys.global.L1::no_allocate.b64 "
    "ld.relaxed.sys.global.L1::no_allocate.b8 ld.relaxed.sys.v4.u32 ld.s32 ld.s8 ld.shared.b16 "
    "ld.shared.b32 ld.shared.b64 ld.shared.b8 ld.shared.f32 ld.shared.f64 ld.shared.s32 "
    "ld.shared.s8 ld.shared.u16 ld.shared.u32 ld.shared.u64 ld.shared.u8 ld.shared.v2.b16 "
    "ld.shared.v2.b32 ld.shared.v2.b64 ld.shared.v2.b8 ld.shared.v2.f32 ld.shared.v2.f64 "
    "ld.shared.v2.u32 ld.shared.v2.u64 ld.shared.v4.b16 ld.shared.v4.b32 ld.shared.v4.f32 "
    "ld.shared.v4.u16 ld.shared.v4.u32 ld.shared::cluster.b32 ld.shared::cluster.b64 "
    "ld.shared::cluster.f32 ld.shared::cluster.f64 ld.shared::cluster.s32 ld.shared::cluster.u32 "
    "ld.shared::cluster.v2.b32 ld.shared::cluster.v2.b64 ld.shared::cluster.v2.f32 "
    "ld.shared::cluster.v2.f64 ld.shared::cta.u32 ld.u16 ld.u32 ld.u64 ld.u8 ld.v2.b16 ld.v2.b32 "
    "ld.v2.b64 ld.v2.f32 ld.v2.f64 ld.v2.u32 ld.v2.u64 ld.v4.b32 ld.v4.f32 ld.v4.u32 "
    "ld.volatile.b32 ld.volatile.b64 ld.volatile.b8 ld.volatile.global.b16 "
    "ld.volatile.global.b32 ld.volatile.global.b64 ld.volatile.global.b8 ld.volatile.global.f32 "
    "ld.volatile.global.f64 ld.volatile.global.s32 ld.volatile.global.s64 ld.volatile.global.u16 "
    "ld.volatile.global.u32 ld.volatile.global.u64 ld.volatile.global.v2.b32 "
    "ld.volatile.global.v2.b64 ld.volatile.global.v2.u64 ld.volatile.global.v4.u32 "
    "ld.volatile.local.b32 ld.volatile.local.b64 ld.volatile.local.b8 ld.volatile.shared.b32 "
    "ld.volatile.shared.b64 ld.volatile.shared.f32 ld.volatile.shared.f64 ld.volatile.shared.s32 "
    "ld.volatile.shared.u32 ld.volatile.shared.u64 ld.volatile.shared.v2.b32 "
    "ld.volatile.shared.v2.u64 ld.volatile.v2.f64 ld.weak.global.u32 ldu.global.f32 "
    "ldu.global.u32 ldu.global.v4.u32 st.b16 st.b32 st.b64 st.b8 st.cg.u32 st.cg.u64 st.f32 "
    "st.f64 st.global.b16 st.global.b32 st.global.b64 st.global.b8 st.global.cg.f32 "
    "st.global.cg.f64 st.global.cg.s32 st.global.cg.s64 st.global.cg.v2.f32 st.global.cg.v2.f64 "
    "st.global.cg.v4.f64 st.global.cs.b16 st.global.cs.f32 st.global.cs.f64 st.global.cs.s32 "
    "st.global.cs.u16 st.global.cs.u32 st.global.cs.u8 st.global.cs.v2.b16 st.global.cs.v2.f32 "
    "st.global.cs.v2.f64 st.global.cs.v2.s32 st.global.cs.v4.f32 st.global.cs.v4.u32 "
    "st.global.f32 st.global.f64 st.global.relaxed.gpu.b32 st.global.relaxed.gpu.b64 "
    "st.global.release.gpu.b32 st.global.u16 st.global.u32 st.global.u64 st.global.u8 "
    "st.global.v2.b16 st.global.v2.b32 st.global.v2.b64 st.global.v2.f32 st.global.v2.f64 "
    "st.global.v2.u32 st.global.v2.u64 st.global.v4.b32 st.global.v4.b64 st.global.v4.f32 "
    "st.global.v4.f64 st.global.v4.u16 st.global.v4.u32 st.global.v8.f32 st.global.wb.f32 "
    "st.global.wb.f64 st.global.wb.u32 st.global.wb.v2.f32 st.global.wb.v2.f64 "
    "st.global.wb.v4.s32 st.global.wt.v4.u32 st.local.b16 st.local.b32 st.local.b64 st.local.b8 "
    "st.local.f32 st.local.f64 st.local.u32 st.local.u64 st.local.u8 st.local.v2.b16 "
    "st.local.v2.b32 st.local.v2.b64 st.local.v2.b8 st.local.v2.f32 st.local.v2.f64 "
    "st.local.v2.u32 st.local.v2.u8 st.local.v4.b16 st.local.v4.b32 st.local.v4.f32 "
    "st.local.v4.u16 st.mmio.relaxed.sys.global.b32 st.mmio.relaxed.sys.global.b64 "
    "st.relaxed.gpu.b32 st.relaxed.gpu.global.u32 st.relaxed.gpu.u64 st.relaxed.gpu.v2.u32 "
    "st.relaxed.gpu.v2.u64 st.relaxed.sys.b32 st.relaxed.sys.b64 st.relaxed.sys.global.u64 "
    "st.relaxed.sys.v4.u32 st.release.cta.b32 st.release.gpu.b32 st.release.gpu.u32 "
    "st.release.sys.global.u32 st.shared.b16 st.shared.b32 st.shared.b64 st.shared.b8 "
    "st.shared.f32 st.shared.f64 st.shared.s32 st.shared.u16 st.shared.u32 st.shared.u64 "
    "st.shared.u8 st.shared.v2.b16 st.shared.v2.b32 st.shared.v2.b64 st.shared.v2.f32 "
    "st.shared.v2.f64 st.shared.v2.u32 st.shared.v2.u64 st.shared.v2.u8 st.shared.v4.b16 "
    "st.shared.v4.b32 st.shared.v4.f32 st.shared.v4.u16 st.shared.v4.u32 st.shared::cluster.b32 "
    "st.shared::cluster.b64 st.shared::cluster.f32 st.shared::cluster.f64 "
    "st.shared::cluster.v2.b64 st.shared::cluster.v2.f32 st.shared::cluster.v2.f64 "
    "st.shared::cta.u32 st.u16 st.u32 st.u64 st.u8 st.v2.b16 st.v2.b32 st.v2.b64 st.v2.f32 "
    "st.v2.f64 st.v2.u32 st.v4.b32 st.v4.u32 st.volatile.b32 st.volatile.b64 st.volatile.b8 "
    "st.volatile.global.b16 st.volatile.global.b32 st.volatile.global.b64 st.volatile.global.f32 "
    "st.volatile.global.f64 st.volatile.global.u16 st.volatile.global.u32 st.volatile.global.u64 "
    "st.volatile.global.v2.b32 st.volatile.global.v2.b64 st.volatile.global.v2.u64 "
    "st.volatile.global.v4.u32 st.volatile.local.b32 st.volatile.local.b64 "
    "st.volatile.shared.b32 st.volatile.shared.b64 st.volatile.shared.f32 st.volatile.shared.f64 "
    "st.volatile.shared.u32 st.volatile.shared.u64 st.volatile.shared.v2.b32 "
    "st.volatile.shared.v2.u64 st.volatile.v2.f64 st.weak.cs.v2.b64 st.weak.global.u32 ";

constexpr char kAtomics[] =
    "atom.acq_rel.sys.global.add.u32 atom.add.f32 atom.add.f64 atom.add.noftz.bf16 "
    "atom.add.noftz.bf16x2 atom.add.noftz.f16 atom.add.noftz.f16x2 atom.add.relaxed.gpu.u32 "
    "atom.add.relaxed.gpu.u64 atom.add.relaxed.sys.u32 atom.add.release.gpu.u32 atom.add.u32 "
    "atom.add.u64 atom.exch.b32 atom.global.add.f32 atom.global.add.f64 "
    "atom.global.add.noftz.bf16 atom.global.add.noftz.bf16x2 atom.global.add.noftz.f16 "
    "atom.global.add.noftz.f16x2 atom.global.add.s32 atom.global.add.u32 atom.global.add.u64 "
    "atom.global.and.b32 atom.global.and.b64 atom.global.cas.b16 atom.global.cas.b32 "
    "atom.global.cas.b64 atom.global.dec.u32 atom.global.exch.b32 atom.global.exch.b64 "
    "atom.global.inc.u32 atom.global.max.s32 atom.global.max.s64 atom.global.max.u32 "
    "atom.global.max.u64 atom.global.min.s32 atom.global.min.s64 atom.global.min.u32 "
    "atom.global.min.u64 atom.global.or.b32 atom.global.or.b64 atom.global.xor.b32 "
    "atom.global.xor.b64 atom.max.acquire.gpu.u64 atom.max.relaxed.gpu.u64 "
    "atom.max.relaxed.sys.u64 atom.max.s32 atom.max.s64 atom.max.u32 atom.relaxed.gpu.cas.b32 "
    "atom.relaxed.gpu.cas.b64 atom.relaxed.gpu.global.add.f32 atom.relaxed.gpu.global.add.u32 "
    "atom.relaxed.gpu.global.add.u64 atom.relaxed.gpu.global.cas.b32 "
    "atom.relaxed.gpu.global.cas.b64 atom.relaxed.gpu.global.max.s32 "
    "atom.relaxed.gpu.global.min.u32 atom.relaxed.gpu.global.or.b32 "
    "atom.relaxed.gpu.shared.add.f32 atom.relaxed.gpu.shared.add.u32 "
    "atom.relaxed.gpu.shared.cas.b32 atom.relaxed.gpu.shared.cas.b64 atom.shared.add.f32 "
    "atom.shared.add.f64 atom.shared.add.u32 atom.shared.add.u64 atom.shared.and.b32 "
    "atom.shared.cas.b16 atom.shared.cas.b64 atom.shared.cta.add.u32 atom.shared.dec.u32 "
    "atom.shared.exch.b32 atom.shared.inc.u32 atom.shared.max.s32 atom.shared.max.s64 "
    "atom.shared.max.u64 atom.shared.min.s32 atom.shared.min.s64 atom.shared.min.u64 "
    "atom.shared.or.b32 atom.shared.xor.b32 atom.shared::cluster.add.u32 red.and.release.cta.b32 "
    "red.global.add.f32 red.global.add.f64 red.global.add.noftz.f16x2 red.global.add.s32 "
    "red.global.add.u32 red.global.add.u64 red.global.and.b32 red.global.and.b64 "
    "red.global.dec.u32 red.global.inc.u32 red.global.max.s32 red.global.max.s64 "
    "red.global.max.u32 red.global.max.u64 red.global.min.s32 red.global.min.s64 "
    "red.global.min.u32 red.global.min.u64 red.global.or.b32 red.global.or.b64 "
    "red.global.xor.b32 red.global.xor.b64 red.relaxed.gpu.global.add.u32 red.shared.add.u32 "
    "red.shared.or.b32 ";

std::vector<std::string> Split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::stringstream in(text);
  for (std::string part; std::getline(in, part, by);) parts.push_back(part);
  return parts;
}

// What a mnemonic says of space, type and vector.
struct Form {
  explicit Form(const std::string& mnemonic) : parts(Split(mnemonic, '.')) {
    for (const std::string& part : parts) {
      for (const char* s :
           {"global", "shared", "local", "const", "param", "shared::cta", "shared::cluster"})
        if (part == s) space = s;
      if (part.size() == 2 && part[0] == 'v') count = static_cast<unsigned>(part[1] - '0');
    }
    type = parts.back();
    bits = type == "f16x2" || type == "bf16x2" ? 32
           : type == "bf16"                    ? 16
                                               : static_cast<unsigned>(std::stoi(type.substr(1)));
    shared = space.rfind("shared", 0) == 0;
  }
  bool Has(const char* what) const {
    return std::find(parts.begin(), parts.end(), what) != parts.end();
  }
  // Of a register: none has 8 bits.
  std::string Reg() const {
    const bool number = type == "f32" || type == "f64";
    return "." + (number ? type : "b" + std::to_string(std::max(bits, 16u)));
  }
  std::vector<std::string> parts;
  std::string space, type;
  unsigned bits = 0, count = 1;
  bool shared = false;
};

std::string Vector(const std::string& prefix, unsigned count) {
  if (count == 1) return prefix + "0";
  std::string list = "{";
  for (unsigned i = 0; i < count; ++i) list += (i ? ", " : "") + prefix + std::to_string(i);
  return list + "}";
}

std::string Begin(const Form& form, const std::string& param) {
  return ".version 8.8\n.target sm_100\n.address_size 64\n.const .align 32 .b8 fixed[2048] = {" +
         [] {
           std::string bytes;
           for (int i = 0; i < 2048; ++i) bytes += (i ? "," : "") + std::to_string(i * 7 % 251);
           return bytes;
         }() +
         "};\n.visible .entry k(.param .u64 p_d, .param .u64 p_a, .param .u64 p_b" + param +
         ")\n{\n  .reg .b32 %tid, %bytes, %t<4>;\n  .reg .b64 %d, %a, %b, %at, %off, %plain;\n"
         "  .reg " +
         form.Reg() +
         " %x<8>, %y<8>;\n  .shared .align 32 .b8 area[2048];\n"
         "  .local .align 32 .b8 own[64];\n"
         "  mov.u32 %tid, %tid.x;\n  ld.param.u64 %d, [p_d];\n  ld.param.u64 %a, [p_a];\n"
         "  ld.param.u64 %b, [p_b];\n  mul.lo.u32 %bytes, %tid, " +
         std::to_string(form.count * form.bits / 8) +
         ";\n  cvt.u64.u32 %off, %bytes;\n  add.u64 %d, %d, %off;\n  add.u64 %a, %a, %off;\n"
         "  add.u64 %b, %b, %off;\n";
}

// The thread's element of `space`, as an address register in %at.
std::string Locate(const Form& form, const char* global) {
  if (form.shared) return "  mov.u64 %at, area;\n  add.u64 %at, %at, %off;\n";
  if (form.space == "local") return "  mov.u64 %at, own;\n";
  if (form.space == "const") return "  mov.u64 %at, fixed;\n  add.u64 %at, %at, %off;\n";
  return std::string("  mov.u64 %at, ") + global + ";\n";
}

// Element after element by plain instructions, %x or %y, to or from global memory or %at.
std::string Plain(const Form& form, bool load, const std::string& space, const std::string& at,
                  const std::string& prefix) {
  std::string text;
  const std::string t = (form.bits == 8 ? ".u8" : ".b" + std::to_string(form.bits));
  for (unsigned i = 0; i < form.count; ++i) {
    const std::string address = "[" + at + "+" + std::to_string(i * form.bits / 8) + "]";
    const std::string reg = prefix + std::to_string(i);
    text += load ? "  ld." + space + t + " " + reg + ", " + address + ";\n"
                 : "  st." + space + t + " " + address + ", " + reg + ";\n";
  }
  return text;
}

void AddTransfer(Cases* out, const std::string& mnemonic) {
  const Form form(mnemonic);
  const bool load = form.parts[0] != "st";
  const std::string home = form.shared ? "shared" : form.space.empty() ? "global" : form.space;
  const size_t bytes = kThreads * form.count * form.bits / 8;
  std::vector<uint8_t> in;
  for (size_t i = 0; i < bytes; ++i) in.push_back(static_cast<uint8_t>(i * 7 % 251));
  Case c;
  c.name = mnemonic + " (moved)";
  const bool by_param = form.space == "param";
  if (by_param)  // all threads read the first element
    for (size_t i = 0; i < bytes; ++i) in[i] = in[i % (bytes / kThreads)];
  std::string body = Begin(form, by_param ? ", .param .align 32 .b8 p_c[32]" : "");
  if (!by_param) body += Locate(form, load ? "%a" : "%d");
  if (load) {
    if (home == "shared" || home == "local")
      body += Plain(form, true, "global", "%a", "%y") + Plain(form, false, home, "%at", "%y");
    body += "  " + mnemonic + " " + Vector("%x", form.count) + ", [" + (by_param ? "p_c" : "%at") +
            "];\n" + Plain(form, false, "global", "%d", "%x");
  } else {
    body += Plain(form, true, "global", "%a", "%x") + "  " + mnemonic + " [%at], " +
            Vector("%x", form.count) + ";\n";
    if (home != "global")
      body += Plain(form, true, home, "%at", "%y") + Plain(form, false, "global", "%d", "%y");
  }
  c.ptx = body + "  ret;\n}\n";
  c.block.x = kThreads;
  c.arguments = {Output(in), Input(in), Input(in)};
  if (by_param) {
    Argument value;
    value.bytes.assign(in.begin(), in.begin() + static_cast<ptrdiff_t>(bytes / kThreads));
    value.bytes.resize(32);
    c.arguments.push_back(value);
  }
  out->push_back(c);
}

// One element: what memory holds after `op` of old and b.
uint64_t Applied(const Form& form, const std::string& op, uint64_t old, uint64_t b, uint64_t swap) {
  const uint64_t mask = form.bits == 64 ? ~0ull : (1ull << form.bits) - 1;
  if (form.type == "f16x2" || form.type == "bf16x2") {
    const SmallFormat& f = form.type == "f16x2" ? kF16 : kBf16;
    uint64_t sum = 0;
    for (int i = 0; i < 32; i += 16) {
      sum |= uint64_t{EncodeSmall(
                 f, DecodeSmall(f, old >> i & 0xffff) + DecodeSmall(f, b >> i & 0xffff))}
             << i;
    }
    return sum;
  }
  if (form.type == "f16" || form.type == "bf16") {
    const SmallFormat& f = form.type == "f16" ? kF16 : kBf16;
    return EncodeSmall(
        f, DecodeSmall(f, static_cast<uint32_t>(old)) + DecodeSmall(f, static_cast<uint32_t>(b)));
  }
  if (form.type == "f32") {
    float x, y;
    std::memcpy(&x, &old, 4);
    std::memcpy(&y, &b, 4);
    x += y;
    uint64_t bits = 0;
    std::memcpy(&bits, &x, 4);
    return bits;
  }
  if (form.type == "f64") {
    double x, y;
    std::memcpy(&x, &old, 8);
    std::memcpy(&y, &b, 8);
    x += y;
    std::memcpy(&old, &x, 8);
    return old;
  }
  const bool is_signed = form.type[0] == 's';
  auto sign = [&](uint64_t v) {
    return static_cast<int64_t>(v << (64 - form.bits)) >> (64 - form.bits);
  };
  const bool less = is_signed ? sign(old) < sign(b) : old < b;
  if (op == "add") return (old + b) & mask;
  if (op == "min") return less ? old : b;
  if (op == "max") return less ? b : old;
  if (op == "and") return old & b;
  if (op == "or") return old | b;
  if (op == "xor") return old ^ b;
  if (op == "exch") return b;
  if (op == "cas") return old == b ? swap : old;
  if (op == "inc") return old >= b ? 0 : old + 1;
  return old == 0 || old > b ? b : old - 1;  // dec
}

uint64_t Operand(const Form& form, uint32_t i) {
  auto quarter = [&](const SmallFormat& f, int at) {
    return uint64_t{EncodeSmall(f, (static_cast<int>(i * 5 + at) % 23 - 11) / 4.0)};
  };
  if (form.type == "f16") return quarter(kF16, 0);
  if (form.type == "bf16") return quarter(kBf16, 0);
  if (form.type == "f16x2") return quarter(kF16, 0) | quarter(kF16, 7) << 16;
  if (form.type == "bf16x2") return quarter(kBf16, 0) | quarter(kBf16, 7) << 16;
  uint64_t bits = 0;
  if (form.type == "f32") {
    const float x = (static_cast<int>(i * 13 % 29) - 14) * 0.375f;
    std::memcpy(&bits, &x, 4);
    return bits;
  }
  if (form.type == "f64") {
    const double x = (static_cast<int>(i * 13 % 29) - 14) * 0.1;
    std::memcpy(&bits, &x, 8);
    return bits;
  }
  const uint64_t mask = form.bits == 64 ? ~0ull : (1ull << form.bits) - 1;
  return (i % 3 == 0 ? i : (i + 1) * 0x9e3779b97f4a7c15ull) & mask;
}

void AddAtomic(Cases* out, const std::string& mnemonic) {
  const Form form(mnemonic);
  const bool returns = form.parts[0] == "atom";
  std::string op;
  for (const char* known : {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"})
    if (form.Has(known)) op = known;
  const size_t width = form.bits / 8;
  std::vector<uint8_t> before(kThreads * width), after(before), old(before), operand(before);
  const uint64_t swap = form.bits == 16 ? 7 : 77;
  for (uint32_t i = 0; i < kThreads; ++i) {
    const uint64_t held = Operand(form, i),
                   b = op == "cas" && i % 2 == 0 ? held : Operand(form, i * 7 + 2);
    const uint64_t result = Applied(form, op, held, b, swap);
    std::memcpy(&before[i * width], &held, width);
    std::memcpy(&operand[i * width], &b, width);
    std::memcpy(&old[i * width], &held, width);
    std::memcpy(&after[i * width], &result, width);
  }
  Case c;
  c.name = mnemonic + " (returned)";
  std::string body = Begin(form, ", .param .u64 p_c") + Locate(form, "%a");
  body += "  ld.param.u64 %plain, [p_c];\n  add.u64 %plain, %plain, %off;\n" +
          Plain(form, true, "global", "%b", "%x");
  if (form.shared)
    body += Plain(form, true, "global", "%a", "%y") + Plain(form, false, "shared", "%at", "%y");
  body += "  " + mnemonic + (returns ? " %y0, [%at], %x0" : " [%at], %x0") +
          (op == "cas" ? ", " + std::to_string(swap) : "") + ";\n";
  if (returns) body += Plain(form, false, "global", "%plain", "%y");
  if (form.shared)
    body += Plain(form, true, "shared", "%at", "%y") + Plain(form, false, "global", "%a", "%y");
  c.ptx = body + "  ret;\n}\n";
  c.block.x = kThreads;
  c.arguments = {Scalar<uint64_t>(0), InOut(before, after), Input(operand)};
  if (returns)
    c.arguments.push_back(Output(old));
  else
    c.arguments.push_back(Scalar<uint64_t>(0));
  out->push_back(c);
}

}  // namespace

void AddTransferCases(Cases* out) {
  for (const std::string& mnemonic : Split(kTransfers, ' ')) AddTransfer(out, mnemonic);
  for (const std::string& mnemonic : Split(kAtomics, ' ')) AddAtomic(out, mnemonic);
}

}  // namespace farcall::cpu_device::ptx_corpus
