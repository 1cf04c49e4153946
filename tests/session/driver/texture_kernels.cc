// SPDX-License-Identifier: Apache-2.0
// The kernels of the texture subject.

// One thread each: four floats of coordinates in, four words of the fetch out.
extern const char* const kTexturePtx;
const char* const kTexturePtx = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry fetch2d(.param .u64 texture, .param .u64 in, .param .u64 out)
{
  .reg .b64 %d<6>; .reg .b32 %r<3>; .reg .f32 %f<9>;
  ld.param.u64 %d0, [texture]; ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 16; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d4];
  tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%f0, %f1}];
  st.global.v4.f32 [%d5], {%f4, %f5, %f6, %f7};
  ret;
}
.visible .entry fetch3d(.param .u64 texture, .param .u64 in, .param .u64 out)
{
  .reg .b64 %d<6>; .reg .b32 %r<3>; .reg .f32 %f<9>;
  ld.param.u64 %d0, [texture]; ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 16; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d4];
  tex.3d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%f0, %f1, %f2, %f2}];
  st.global.v4.f32 [%d5], {%f4, %f5, %f6, %f7};
  ret;
}
.visible .entry fetchlayer(.param .u64 texture, .param .u64 in, .param .u64 out)
{
  .reg .b64 %d<6>; .reg .b32 %r<3>; .reg .f32 %f<9>;
  ld.param.u64 %d0, [texture]; ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 16; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d4];
  cvt.rzi.s32.f32 %r1, %f2;
  tex.a2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%r1, %f0, %f1, %f1}];
  st.global.v4.f32 [%d5], {%f4, %f5, %f6, %f7};
  ret;
}
.visible .entry fetchcube(.param .u64 texture, .param .u64 in, .param .u64 out)
{
  .reg .b64 %d<6>; .reg .b32 %r<3>; .reg .f32 %f<9>;
  ld.param.u64 %d0, [texture]; ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 16; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d4];
  tex.cube.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%f0, %f1, %f2, %f2}];
  st.global.v4.f32 [%d5], {%f4, %f5, %f6, %f7};
  ret;
}
.visible .entry fetchlevel(.param .u64 texture, .param .u64 in, .param .u64 out)
{
  .reg .b64 %d<6>; .reg .b32 %r<3>; .reg .f32 %f<9>;
  ld.param.u64 %d0, [texture]; ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 16; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d4];
  tex.level.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%f0, %f1}], %f2;
  st.global.v4.f32 [%d5], {%f4, %f5, %f6, %f7};
  ret;
}
.visible .entry gather(.param .u64 texture, .param .u64 in, .param .u64 out)
{
  .reg .b64 %d<6>; .reg .b32 %r<3>; .reg .f32 %f<9>;
  ld.param.u64 %d0, [texture]; ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 16; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d4];
  tld4.r.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [%d0, {%f0, %f1}];
  st.global.v4.f32 [%d5], {%f4, %f5, %f6, %f7};
  ret;
}
.visible .entry fetchlinear(.param .u64 texture, .param .u64 in, .param .u64 out)
{
  .reg .b64 %d<6>; .reg .b32 %r<7>; .reg .f32 %f<9>;
  ld.param.u64 %d0, [texture]; ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 16; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
  ld.global.f32 %f0, [%d4];
  cvt.rni.s32.f32 %r1, %f0;
  tex.1d.v4.s32.s32 {%r2, %r3, %r4, %r5}, [%d0, {%r1}];
  txq.width.b32 %r3, [%d0];
  st.global.v4.u32 [%d5], {%r2, %r3, %r4, %r5};
  ret;
}
.visible .entry surface(.param .u64 surface, .param .u64 in, .param .u64 out)
{
  .reg .b64 %d<6>; .reg .b32 %r<9>; .reg .f32 %f<9>;
  ld.param.u64 %d0, [surface]; ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 16; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d4];
  cvt.rni.s32.f32 %r1, %f0; shl.b32 %r1, %r1, 2; cvt.rni.s32.f32 %r2, %f1;
  suld.b.2d.b32.clamp {%r3}, [%d0, {%r1, %r2}];
  suld.b.2d.b32.zero {%r4}, [%d0, {%r1, %r2}];
  add.u32 %r5, %r3, 1000;
  sust.b.2d.b32.zero [%d0, {%r1, %r2}], {%r5};
  suq.height.b32 %r6, [%d0];
  st.global.v4.u32 [%d5], {%r3, %r4, %r5, %r6};
  ret;
}
)";
