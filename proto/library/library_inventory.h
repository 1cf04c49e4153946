// SPDX-License-Identifier: Apache-2.0
// Which mathematics libraries a server has, as WELCOME tells it (kLibraryInventory of
// session_features.h): a word for each file found, or for each library looked for in vain. A
// library that no word names was not looked for: to be asked.
//   bits 0-7 major of the SONAME (0: none was found), 8-15 LibraryId, 16-63 the file's version as
//   LibraryVersionText reads it (0: its name does not say)
#pragma once

#include <cstdint>
#include <span>

#include "proto/library/library_call.h"

namespace farcall {

constexpr uint64_t InventoryWord(LibraryId library, int major, int64_t version) {
  return static_cast<uint64_t>(version) << 16 | static_cast<uint64_t>(library) << 8 |
         static_cast<uint8_t>(major);
}
constexpr LibraryId InventoryLibrary(uint64_t word) {
  return static_cast<LibraryId>(word >> 8 & 255);
}
constexpr int InventoryMajor(uint64_t word) {
  return static_cast<int>(word & 255);
}
constexpr int64_t InventoryVersion(uint64_t word) {
  return static_cast<int64_t>(word >> 16);
}

// Whether the server has said that it has none.
inline bool IsLacking(std::span<const uint64_t> inventory, LibraryId library) {
  for (uint64_t word : inventory)
    if (InventoryLibrary(word) == library && InventoryMajor(word) == 0) return true;
  return false;
}

}  // namespace farcall
