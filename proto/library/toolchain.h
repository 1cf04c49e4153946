// SPDX-License-Identifier: Apache-2.0
// What nvrtcCompileProgram and nvJitLinkComplete carry (kLibrary): everything that they need and
// everything that can be asked of them afterwards.
//   text     {u64 blob}, or {u64 0, bytes}
//   compile  {u32 headers, options, expressions, flags; texts: source, name, headers, their names,
//            options, expressions}
//       ->   {i32 status, u32 whole, log}, and if whole {i32 status, u32 0, bytes} of PTX, cubin,
//            LTO-IR, OptiX IR and each expression's lowered name
//   link     {u32 options, inputs; texts: options; each input {u32 type, texts: data, name}}
//       ->   {i32 status, u32 whole, error log, info log}, and if whole {i32 status, u32 0, bytes}
//            of cubin and PTX
//   An answer is {u64 blob, u64 bytes} and the bytes, or a blob to be taken.
#pragma once

#include <cstdint>

namespace farcall::nvrtc {

// The program may include, after its own, CUDA's headers on the server; and CCCL, which must not be
// mixed with another version's.
inline constexpr uint32_t kServerHeaders = 1;
inline constexpr uint32_t kServerCccl = 2;

}  // namespace farcall::nvrtc
