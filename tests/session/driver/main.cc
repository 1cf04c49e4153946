// SPDX-License-Identifier: Apache-2.0
// driver_calls SUBJECT: less usual calls of the driver API, with their results checked.
#include <cstring>

#include "driver.h"

const char* const kAddPtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 data, .param .u32 value, .param .f32 unused)
{
  .reg .b64 %d<4>; .reg .b32 %r<4>;
  ld.param.u64 %d0, [data]; ld.param.u32 %r0, [value];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d1, %r1, 4;
  add.s64 %d2, %d0, %d1;
  ld.global.u32 %r2, [%d2];
  add.u32 %r2, %r2, %r0;
  st.global.u32 [%d2], %r2;
  ret;
}
)";

const char* const kCallerPtx = R"(.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 out) plus_one(.param .b32 in);
.visible .entry linked(.param .u64 data)
{
  .reg .b64 %d<2>; .reg .b32 %r<3>;
  ld.param.u64 %d0, [data];
  ld.global.u32 %r0, [%d0];
  {
    .param .b32 argument; .param .b32 result;
    st.param.b32 [argument], %r0;
    call (result), plus_one, (argument);
    ld.param.b32 %r1, [result];
  }
  st.global.u32 [%d0], %r1;
  ret;
}
)";

const char* const kHelperPtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b32 out) plus_one(.param .b32 in)
{
  .reg .b32 %r<2>;
  ld.param.b32 %r0, [in];
  add.u32 %r1, %r0, 1;
  st.param.b32 [out], %r1;
  ret;
}
)";

int main(int argc, char** argv) {
  struct Subject {
    const char* name;
    void (*run)();
  };
  const Subject subjects[] = {{"legacy", Legacy},
                              {"link", Linking},
                              {"green", Green},
                              {"tools", Tools},
                              {"odds", Odds},
                              {"room", Room},
                              {"memory", MemorySubject},
                              {"multicast", MulticastSubject},
                              {"arrays", ArraysSubject},
                              {"textures", TexturesSubject},
                              {"exhaustion", Exhaustion}};
  CUcontext context = nullptr;
  CHECK(D(cuInit)(0));
  CHECK(D(cuDevicePrimaryCtxRetain)(&context, 0));
  CHECK(D(cuCtxSetCurrent)(context));
  for (const Subject& subject : subjects) {
    if (argc < 2 || std::strcmp(argv[1], subject.name) != 0) continue;
    subject.run();
    std::printf("ok\n");
    return 0;
  }
  std::printf("which subject?\n");
  return 2;
}
