// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/images/elf.h"

namespace farcall::cpu_device::images {
namespace {

constexpr uint64_t kSectionBytes = 64, kSymbolBytes = 24;
constexpr uint32_t kSymbolTable = 2, kNoBits = 8, kSymbolSections = 18;
constexpr uint16_t kExtended = 0xffff;

bool Fail(std::string* error, const std::string& what) {
  *error = "ELF file: " + what;
  return false;
}

bool Slice(Bytes file, uint64_t offset, uint64_t size, Bytes* out) {
  if (offset > file.size() || size > file.size() - offset) return false;
  *out = file.subspan(offset, size);
  return true;
}

// The NUL-terminated text at `offset`; an unterminated one ends with its table.
bool TextAt(Bytes table, uint64_t offset, std::string_view* text) {
  if (offset >= table.size()) {
    *text = {};
    return offset == 0;
  }
  const auto* from = reinterpret_cast<const char*>(table.data()) + offset;
  *text = {from, strnlen(from, table.size() - offset)};
  return true;
}

bool ReadSection(Bytes file, uint64_t at, ElfSection* section, uint32_t* name) {
  uint64_t offset = 0;
  if (!LoadAt(file, at, name) || !LoadAt(file, at + 4, &section->type) ||
      !LoadAt(file, at + 24, &offset) || !LoadAt(file, at + 32, &section->size_bytes) ||
      !LoadAt(file, at + 40, &section->link) || !LoadAt(file, at + 44, &section->info) ||
      !LoadAt(file, at + 48, &section->align))
    return false;
  // The first section's size is a count, where there are very many.
  if (section->type == kNoBits || section->type == 0) return true;
  return Slice(file, offset, section->size_bytes, &section->bytes);
}

bool ReadSections(Bytes file, ElfFile* elf, std::string* error) {
  uint64_t table = 0;
  uint16_t entry_bytes = 0, few = 0, few_names = 0;
  LoadAt(file, 40, &table);
  LoadAt(file, 58, &entry_bytes);
  LoadAt(file, 60, &few);
  LoadAt(file, 62, &few_names);
  if (entry_bytes != kSectionBytes) return Fail(error, "no section table");
  uint64_t count = few, names = few_names;
  if (count == 0) LoadAt(file, table + 32, &count);
  if (names == kExtended) {
    uint32_t link = 0;
    LoadAt(file, table + 40, &link);
    names = link;
  }
  if (table > file.size() || count > (file.size() - table) / kSectionBytes || names >= count) {
    return Fail(error, std::to_string(count) + " sections at " + std::to_string(table) +
                           " do not fit " + std::to_string(file.size()) + " bytes");
  }
  elf->sections.resize(count);
  std::vector<uint32_t> name_at(count);
  for (uint64_t i = 0; i < count; ++i)
    if (!ReadSection(file, table + i * kSectionBytes, &elf->sections[i], &name_at[i]))
      return Fail(error, "section " + std::to_string(i) + " is not inside the file");
  for (uint64_t i = 0; i < count; ++i)
    if (!TextAt(elf->sections[names].bytes, name_at[i], &elf->sections[i].name))
      return Fail(error, "section " + std::to_string(i) + " has no name");
  return true;
}

bool ReadSymbols(ElfFile* elf, std::string* error) {
  const ElfSection* table = nullptr;
  const ElfSection* more = nullptr;
  for (const ElfSection& section : elf->sections) {
    if (section.type == kSymbolTable) table = &section;
    if (section.type == kSymbolSections) more = &section;
  }
  if (table == nullptr) return true;
  if (table->link >= elf->sections.size()) return Fail(error, "its symbols have no names");
  const Bytes names = elf->sections[table->link].bytes;
  const uint64_t count = table->bytes.size() / kSymbolBytes;
  elf->symbols.resize(count);
  for (uint64_t i = 0; i < count; ++i) {
    ElfSymbol& symbol = elf->symbols[i];
    const uint64_t at = i * kSymbolBytes;
    uint32_t name = 0;
    uint8_t info = 0;
    uint16_t section = 0;
    if (!LoadAt(table->bytes, at, &name) || !LoadAt(table->bytes, at + 4, &info) ||
        !LoadAt(table->bytes, at + 5, &symbol.other) || !LoadAt(table->bytes, at + 6, &section) ||
        !LoadAt(table->bytes, at + 8, &symbol.value) ||
        !LoadAt(table->bytes, at + 16, &symbol.size_bytes) || !TextAt(names, name, &symbol.name))
      return Fail(error, "symbol " + std::to_string(i) + " is not readable");
    symbol.type = info & 15;
    symbol.section = section;
    if (section == kExtended && more != nullptr && !LoadAt(more->bytes, i * 4, &symbol.section))
      return Fail(error, "symbol " + std::to_string(i) + " has no section");
  }
  return true;
}

}  // namespace

const ElfSection* ElfFile::Find(std::string_view name) const {
  for (const ElfSection& section : sections)
    if (section.name == name) return &section;
  return nullptr;
}

bool ReadElf(Bytes file, ElfFile* elf, std::string* error) {
  constexpr uint32_t kMagic = 0x464C457F;
  uint32_t magic = 0;
  uint8_t bits = 0;
  if (!LoadAt(file, 0, &magic) || magic != kMagic || file.size() < 64 || !LoadAt(file, 4, &bits) ||
      bits != 2)
    return Fail(error, "no 64-bit ELF header");
  LoadAt(file, 8, &elf->abi_version);
  LoadAt(file, 18, &elf->machine);
  LoadAt(file, 48, &elf->flags);
  return ReadSections(file, elf, error) && ReadSymbols(elf, error);
}

}  // namespace farcall::cpu_device::images
