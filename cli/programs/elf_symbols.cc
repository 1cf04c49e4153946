// SPDX-License-Identifier: Apache-2.0
#include "cli/programs/elf_symbols.h"

#include <elf.h>

#include <cstring>
#include <fstream>

namespace farcall::cli {

namespace {

// Reads records of a file that may be cut or lie about its own layout.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : file_(path, std::ios::binary) {
    file_.seekg(0, std::ios::end);
    bytes_ = file_ ? static_cast<uint64_t>(file_.tellg()) : 0;
  }

  bool Read(uint64_t offset, uint64_t bytes, void* into) {
    if (offset > bytes_ || bytes > bytes_ - offset) return false;
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(static_cast<char*>(into), static_cast<std::streamsize>(bytes));
    return bool(file_);
  }

  template <class T>
  bool ReadAll(uint64_t offset, uint64_t bytes, std::vector<T>* into) {
    if (bytes > bytes_) return false;
    into->resize(bytes / sizeof(T));
    return Read(offset, into->size() * sizeof(T), into->data());
  }

 private:
  std::ifstream file_;
  uint64_t bytes_ = 0;
};

bool IsSupported(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
         header.e_shentsize == sizeof(Elf64_Shdr);
}

std::vector<std::string> Undefined(const std::vector<Elf64_Sym>& symbols,
                                   const std::vector<char>& names) {
  std::vector<std::string> undefined;
  for (const Elf64_Sym& symbol : symbols) {
    if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0 || symbol.st_name >= names.size())
      continue;
    const char* name = names.data() + symbol.st_name;
    undefined.emplace_back(name, strnlen(name, names.size() - symbol.st_name));
  }
  return undefined;
}

}  // namespace

Result<std::vector<std::string>> UndefinedSymbols(const std::string& path) {
  ElfFile file(path);
  Elf64_Ehdr header;
  if (!file.Read(0, sizeof(header), &header) || !IsSupported(header))
    return Status{Code::kInvalid, path + ": not a 64-bit ELF file"};
  const Status kOutside = {Code::kInvalid, path + ": its section table reaches outside the file"};
  std::vector<Elf64_Shdr> sections;
  if (!file.ReadAll(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), &sections))
    return kOutside;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM) continue;
    std::vector<Elf64_Sym> symbols;
    std::vector<char> names;
    if (section.sh_link >= sections.size() ||
        !file.ReadAll(section.sh_offset, section.sh_size, &symbols) ||
        !file.ReadAll(sections[section.sh_link].sh_offset, sections[section.sh_link].sh_size,
                      &names))
      return kOutside;
    return Undefined(symbols, names);
  }
  return std::vector<std::string>();
}

}  // namespace farcall::cli
