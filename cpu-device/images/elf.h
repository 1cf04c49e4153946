// SPDX-License-Identifier: Apache-2.0
// The tables of a 64-bit ELF file, bounded: what does not lie inside the file is an error.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::cpu_device::images {

using Bytes = std::span<const uint8_t>;

// A value at `offset`; false if it is not all inside.
template <typename T>
bool LoadAt(Bytes bytes, uint64_t offset, T* value) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  memcpy(value, bytes.data() + offset, sizeof(T));
  return true;
}

struct ElfSection {
  std::string_view name;
  uint32_t type = 0;
  uint32_t link = 0, info = 0;
  uint64_t align = 0;
  uint64_t size_bytes = 0;  // in memory: of a section without bytes in the file, too
  Bytes bytes;              // in the file
};

struct ElfSymbol {
  std::string_view name;
  uint8_t type = 0, other = 0;
  uint32_t section = 0;
  uint64_t value = 0, size_bytes = 0;
};

struct ElfFile {
  uint8_t abi_version = 0;
  uint16_t machine = 0;
  uint32_t flags = 0;
  std::vector<ElfSection> sections;
  std::vector<ElfSymbol> symbols;

  const ElfSection* Find(std::string_view name) const;
};

//   Errors  false with a reason in `error`
bool ReadElf(Bytes file, ElfFile* elf, std::string* error);

}  // namespace farcall::cpu_device::images
