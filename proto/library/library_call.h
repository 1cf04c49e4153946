// SPDX-License-Identifier: Apache-2.0
// Calls of the mathematics libraries: what SessionCall::kLibrary carries. Function ids are in
// codegen/ids/<library>.ids; docs/reference/thin.md describes the arguments.
#pragma once

#include <cstdint>
#include <string>

namespace farcall {

// For ever, like the ids of calls.
enum class LibraryId : uint8_t {
  kNone = 0,
  kCublas = 1,
  kCublasLt = 2,
  kCusolver = 3,
  kCusparse = 4,
  kCufft = 5,
  kCurand = 6,
  kNvrtc = 7,
  kNvjitlink = 8,
  kCudnn = 9,
  kLast = kCudnn,
};

// Ahead of the arguments, which follow in the order of the function's parameters.
struct LibraryHeader {
  uint64_t stream;  // as on any record; 0: the function uses none
  uint8_t library;  // LibraryId
  uint8_t major;    // the client's, of the library's SONAME: the server prefers that one
  uint16_t function;
  uint8_t pointer_mode;  // 1: scalars and results lie in device memory
  uint8_t reserved[3];
};
static_assert(sizeof(LibraryHeader) == 16);

// Function 0 of each library: {} -> {i64 version, string path}. Loads it. With kLibraryLacks
// (session_features.h) {u64 1} -> the same and a bit for each function, by id, that it has.
inline constexpr uint16_t kLibraryOpen = 0;

// "13.1.0"; "?": it did not say.
inline std::string LibraryVersionText(int64_t version) {
  if (version == 0) return "?";
  return std::to_string(version >> 20) + "." + std::to_string(version >> 10 & 1023) + "." +
         std::to_string(version & 1023);
}

// Of any library: bytes too many for one record (a source, an image) go ahead in pieces, and what
// is too long for a reply is taken in pieces. Blobs are named by the client, by the server from
// kServerBlob on; both live until dropped, or till the last piece is taken.
inline constexpr uint16_t kLibraryPut = 0xFFF0;   // a post {u64 blob, bytes}: at its end
inline constexpr uint16_t kLibraryDrop = 0xFFF1;  // a post {u64 blob}
inline constexpr uint16_t kLibraryTake = 0xFFF2;  // {u64 blob, u64 from} -> {bytes}
inline constexpr uint64_t kServerBlob = uint64_t{1} << 63;
inline constexpr uint64_t kBlobPieceBytes = 256u << 10;
inline constexpr uint64_t kMaxBlobBytes = 256u << 20;  // of a session, all together

// A scalar or host array is a run of bytes, or one of these in place of its length.
inline constexpr uint64_t kLibraryNull = ~uint64_t{0};          // a null pointer
inline constexpr uint64_t kLibraryOnDevice = ~uint64_t{0} - 1;  // a u64 device address follows

// An object of a library (handle, plan, descriptor): client-assigned, never used again.
//   bits 0-47 serial (from 1), 48-55 kind, 56-63 LibraryId
constexpr uint64_t MakeLibraryObject(LibraryId library, uint8_t kind, uint64_t serial) {
  return static_cast<uint64_t>(library) << 56 | static_cast<uint64_t>(kind) << 48 | serial;
}
constexpr uint16_t LibraryObjectKind(uint64_t object) {
  return static_cast<uint16_t>(object >> 48);
}
constexpr uint16_t LibraryKind(LibraryId library, uint8_t kind) {
  return LibraryObjectKind(MakeLibraryObject(library, kind, 0));
}
constexpr uint64_t LibraryObjectSerial(uint64_t object) {
  return object & ((uint64_t{1} << 48) - 1);
}

}  // namespace farcall
