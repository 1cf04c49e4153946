// SPDX-License-Identifier: Apache-2.0
// Walks the driver API with right and wrong arguments and prints each return code: the same on a
// device and through Farcall.
#include "tests/api_trace/trace.h"

const char* const kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 counter = 5;
.const .align 4 .b8 table[16] = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16};
.visible .entry fill(.param .u64 out, .param .u32 value, .param .u32 count)
{
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<4>;
  ld.param.u64 %d0, [out]; ld.param.u32 %r0, [value]; ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra DONE;
  cvta.to.global.u64 %d1, %d0;
  mul.wide.u32 %d2, %r5, 4;
  add.s64 %d3, %d1, %d2;
  st.global.u32 [%d3], %r0;
DONE:
  ret;
}
.visible .entry small(.param .u64 out) .maxntid 64, 1, 1
{
  .shared .align 8 .b8 buffer[512];
  .reg .b64 %d<2>; .reg .b32 %r<2>;
  ld.param.u64 %d0, [out];
  cvta.to.global.u64 %d1, %d0;
  mov.u32 %r0, 7;
  st.global.u32 [%d1], %r0;
  ret;
}
)";

int main() {
  CUdevice device = 0;
  T("before init", cuDeviceGet, &device, 0);
  T("bad flags", cuInit, 1);
  T("", cuInit, 0);
  TraceDevice();
  TraceContext();
  TraceMemory();
  TraceModule(kPtx);
  TraceStream();
  TraceLaunch(kPtx);
  TraceGraph(kPtx);
  TraceSettings();
  TraceBoxes();
  TracePools();
  TraceMulticast();
  TraceStreamMore();
  TraceDefaultStreams(kPtx);
  TraceGraphNodes(kPtx);
  TraceKernels(kPtx);
  TraceReset();
  return 0;
}
