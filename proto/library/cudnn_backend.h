// SPDX-License-Identifier: Apache-2.0
// cuDNN's backend API on the wire: descriptors as the attributes that were set on them.
//   step     {i32 attribute, i32 type, i64 count, elements}
//   elements of type HANDLE and BACKEND_DESCRIPTOR: `count` object ids (0: null); of others: a run
//            of count * BackendElementBytes(type) bytes
//   cudnnBackendCreateDescriptor  {i32 type}: whether there is such a type
//   cudnnBackendSetAttribute      {i32 type, step}: whether such a descriptor takes it
//   cudnnBackendFinalize          {new object, i32 type, u32 steps, steps} -> {text}
//   cudnnBackendGetAttribute      {object, i32 attribute, i32 type, i64 count, u32 form,
//                                  if kBackendObjects: u32 made, {i32 type, new object} each}
//                                 -> {i64 count, elements, text}
//   cudnnBackendInitialize        as Finalize, and what is expected to be asked next: {new object,
//                                 i32 type, u32 steps, steps, u32 nexts, nexts} -> {text, answers}
//   next     {u32 1, new object, i32 type, u32 steps, steps}: finalize. The id of a descriptor is
//            {u32 0, id}, or {u32 1, id} of one that this record makes
//            {u32 0, u64 of, a question as GetAttribute's}; of: one that this record makes
//   answers  {u32 count}, and of as many nexts {i32 status, u32 asked, i64 count, elements, text}
//   cudnnBackendExecute           {handle, plan, u32 steps, steps}; of the data pointers are
//                                 {kLibraryOnDevice, address} or a scalar's run of bytes each
//   cudnnGetCudartVersion         {} -> {u64 version, u64 cudart, u64 newest device}
#pragma once

#include <cstdint>

namespace farcall::thin {

enum BackendForm : uint32_t { kBackendCount = 0, kBackendBytes = 1, kBackendObjects = 2 };

inline constexpr int kBackendTypeHandle = 0;
inline constexpr int kBackendTypeDescriptor = 15;
inline constexpr int kBackendDataPointers = 1001;  // CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS
inline constexpr int64_t kBackendMostCount = 1 << 16;
inline constexpr uint32_t kBackendMostSteps = 256;
inline constexpr uint32_t kBackendMostMade = 1024;
inline constexpr uint32_t kBackendMostNext = 64;
inline constexpr uint64_t kBackendMostNextBytes = 256u << 10;  // of answers

// Of one element of a cudnnBackendAttributeType_t; 0: unknown, or an object.
constexpr uint64_t BackendElementBytes(int type) {
  switch (type) {
    case kBackendTypeHandle:
    case kBackendTypeDescriptor:
      return 0;
    case 2:   // BOOLEAN
    case 24:  // CHAR
      return 1;
    case 3:  // INT64
    case 5:  // DOUBLE
    case 6:  // VOID_PTR
      return 8;
    case 26:  // FRACTION
      return 16;
    default:  // enumerations, INT32, FLOAT
      return type > 0 && type < 64 ? 4 : 0;
  }
}

}  // namespace farcall::thin
