// SPDX-License-Identifier: Apache-2.0
#include "tests/ptx/corpus/refused.h"

#include <algorithm>

namespace farcall::cpu_device::ptx_corpus {
namespace {

const std::string kBegin =
    ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
    ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<40>;\n.reg .b64 %rd<16>;\n.reg .b128 %q;\n"
    ".shared .align 128 .b8 tile[1024];\n.shared .align 8 .b64 bar;\n";

std::string Registers(const std::string& prefix, int first, int count) {
  std::string list = "{";
  for (int i = 0; i < count; ++i) list += (i ? ", " : "") + prefix + std::to_string(first + i);
  return list + "}";
}

}  // namespace

Case Refusal::MakeCase() const {
  Case c;
  c.name = mnemonic;
  c.ptx = kBegin + mnemonic + " " + operands + ";\nret;\n}\n";
  c.block.x = 32;
  c.arguments = {Scalar<uint64_t>(0)};
  return c;
}

const std::vector<Refusal>& AllRefusals() {
  static const auto& all = *new std::vector<Refusal>([] {
    const std::string d4 = Registers("%r", 0, 4), a2 = Registers("%r", 4, 2),
                      b2 = Registers("%r", 6, 2), a4 = Registers("%r", 8, 4);
    std::vector<Refusal> list{
        // products
        {"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
         d4 + ", " + a2 + ", " + b2 + ", " + d4 + ", %r12, 0"},
        {"mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
         d4 + ", " + a2 + ", " + b2 + ", " + d4 + ", %r12, 0"},
        {"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0",
         d4 + ", " + a4 + ", " + b2 + ", " + d4 + ", %r12, {%h0, %h1}, %r13, {%h0, %h1}"},
        {"mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
         Registers("%r", 0, 8) + ", " + a2 + ", " + b2 + ", " + Registers("%r", 0, 8)},
        {"wmma.load.a.sync.aligned.row.m8n8k32.global.s4", "{%r0}, [%rd0], 32"},
        {"wmma.load.a.sync.aligned.row.m8n8k128.global.b1", "{%r0}, [%rd0], 128"},
        {"wgmma.fence.sync.aligned", ""},
        {"wgmma.commit_group.sync.aligned", ""},
        {"wgmma.wait_group.sync.aligned", "0"},
        {"tcgen05.fence::before_thread_sync", ""},
        {"tcgen05.wait::ld.sync.aligned", ""},
        // copies by tensor map, several devices
        {"cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes",
         "[%r0], [%rd0, {%r1, %r2, %r4}], [%r3], {%h0}"},
        {"cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.im2col_no_offs.bulk_group",
         "[%rd0, {%r1, %r2, %r3}], [%r0]"},
        {"cp.async.bulk.global.shared::cta.bulk_group.cp_mask", "[%rd0], [%r0], 16, %h0"},
        {"tensormap.replace.tile.swizzle_atomicity.global.b1024.b32", "[%rd0], 0"},
        {"st.bulk.weak.shared::cta", "[%r0], 16, 0"},
        {"multimem.ld_reduce.relaxed.sys.global.add.u32", "%r0, [%rd0]"},
        {"multimem.ld_reduce.relaxed.sys.global.add.acc::f32.bf16x2", "%r0, [%rd0]"},
        {"multimem.ld_reduce.relaxed.sys.global.add.acc::f32.f16x2", "%r0, [%rd0]"},
        {"multimem.ld_reduce.relaxed.sys.global.add.f32", "%r0, [%rd0]"},
        {"multimem.ld_reduce.relaxed.sys.global.add.u64", "%rd1, [%rd0]"},
        {"multimem.ld_reduce.relaxed.sys.global.max.u32", "%r0, [%rd0]"},
        {"multimem.ld_reduce.relaxed.sys.global.max.s64", "%rd1, [%rd0]"},
        {"multimem.ld_reduce.relaxed.sys.global.max.f16x2", "%r0, [%rd0]"},
        {"multimem.ld_reduce.relaxed.sys.global.min.u32", "%r0, [%rd0]"},
        {"multimem.ld_reduce.relaxed.sys.global.min.bf16x2", "%r0, [%rd0]"},
        {"multimem.ld_reduce.relaxed.sys.global.min.s32", "%r0, [%rd0]"},
        {"multimem.ld_reduce.acquire.sys.global.min.u64", "%rd1, [%rd0]"},
        {"multimem.red.relaxed.sys.add.u32", "[%rd0], %r0"},
        {"multimem.red.release.sys.add.u32", "[%rd0], %r0"},
        {"multimem.st.global.b32", "[%rd0], %r0"},
        {"multimem.st.global.b64", "[%rd0], %rd1"},
        {"multimem.st.global.v4.f32", "[%rd0], " + d4},
        {"multimem.ld_reduce.relaxed.sys.global.add.v4.f32", d4 + ", [%rd0]"},
        {"multimem.red.relaxed.sys.global.add.u32", "[%rd0], %r0"},
        {"multimem.st.relaxed.sys.global.u32", "[%rd0], %r0"},
        {"clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128",
         "[%r0], [%r1]"},
        // video: of several bytes or halves at once, or with a selection
        {"vmad.u32.u32.u32", "%r0, %r1, %r2, %r3"},
        // the forms before .sync
        {"shfl.idx.b32", "%r0, %r1, %r2, %r3"},
        {"vote.ballot.b32", "%r0, %p0"},
        {"sured.b.add.1d.u32.trap", "[%rd0, {%r0}], %r1"},
        {"istypep.texref", "%p0, %rd0"},
        // scales
        {"cvt.rp.satfinite.ue8m0x2.f32", "%h0, %r0, %r1"},
    };
    const auto line = static_cast<uint32_t>(std::count(kBegin.begin(), kBegin.end(), '\n')) + 1;
    for (Refusal& refusal : list) refusal.line = line;
    return list;
  }());
  return all;
}

}  // namespace farcall::cpu_device::ptx_corpus
