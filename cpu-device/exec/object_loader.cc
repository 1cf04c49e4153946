// SPDX-License-Identifier: Apache-2.0
// The small part of ELF that LLVM emits for our kernels: text and constants, PC-relative and
// absolute references.
#include "cpu-device/exec/object_loader.h"

#include <elf.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <vector>

#include "cpu-device/exec/runtime.h"

namespace farcall::cpu_device {
namespace {

constexpr size_t kStubBytes = 16;  // jmp *[rip+2]; pad; address

size_t AlignUp(size_t value, size_t align) {
  return (value + align - 1) / align * align;
}

}  // namespace

class ObjectMapper {
 public:
  ObjectMapper(std::string_view object, std::string* error) : object_(object), error_(error) {}

  std::unique_ptr<LoadedObject> Map() {
    if (!ReadHeaders() || !Layout() || !Copy() || !Relocate() || !Seal()) return nullptr;
    return std::move(loaded_);
  }

 private:
  bool Fail(std::string text) {
    *error_ = "compiled kernel: " + std::move(text);
    return false;
  }

  bool Inside(uint64_t offset, uint64_t size) const {
    return offset <= object_.size() && size <= object_.size() - offset;
  }

  bool ReadHeaders() {
    Elf64_Ehdr header;
    if (object_.size() < sizeof(header)) return Fail("shorter than an ELF header");
    memcpy(&header, object_.data(), sizeof(header));
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64 ||
        header.e_type != ET_REL || header.e_shentsize != sizeof(Elf64_Shdr))
      return Fail("not a relocatable x86-64 object");
    if (!Inside(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)))
      return Fail("section table lies outside");
    sections_.resize(header.e_shnum);
    memcpy(sections_.data(), object_.data() + header.e_shoff,
           sections_.size() * sizeof(Elf64_Shdr));
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_NOBITS && !Inside(section.sh_offset, section.sh_size))
        return Fail("a section lies outside");
      if (section.sh_type == SHT_SYMTAB) {
        symbols_.resize(section.sh_size / sizeof(Elf64_Sym));
        memcpy(symbols_.data(), object_.data() + section.sh_offset,
               symbols_.size() * sizeof(Elf64_Sym));
        if (section.sh_link >= sections_.size()) return Fail("no string table");
        const Elf64_Shdr& strings = sections_[section.sh_link];
        strings_ = object_.substr(strings.sh_offset, strings.sh_size);
      }
    }
    return true;
  }

  std::string NameOf(const Elf64_Sym& symbol) const {
    if (symbol.st_name >= strings_.size()) return "";
    std::string_view rest = strings_.substr(symbol.st_name);
    return std::string(rest.substr(0, rest.find('\0')));
  }

  bool Layout() {
    size_t at = 0;
    placed_.assign(sections_.size(), SIZE_MAX);
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& section = sections_[i];
      if (!(section.sh_flags & SHF_ALLOC) || section.sh_size == 0) continue;
      size_t align = section.sh_addralign ? section.sh_addralign : 1;
      if (align > 4096 || section.sh_size > (1u << 30)) return Fail("implausible section");
      at = AlignUp(at, align);
      placed_[i] = at;
      at += section.sh_size;
    }
    size_t externals = 0;
    for (const Elf64_Sym& symbol : symbols_) externals += symbol.st_shndx == SHN_UNDEF;
    stubs_ = AlignUp(at, kStubBytes);
    size_t bytes = AlignUp(stubs_ + externals * kStubBytes, 4096);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Fail("no memory for code");
    loaded_.reset(new LoadedObject);
    loaded_->memory_ = memory;
    loaded_->bytes_ = bytes;
    base_ = static_cast<uint8_t*>(memory);
    return true;
  }

  bool Copy() {
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (placed_[i] == SIZE_MAX || sections_[i].sh_type == SHT_NOBITS) continue;
      memcpy(base_ + placed_[i], object_.data() + sections_[i].sh_offset, sections_[i].sh_size);
    }
    return true;
  }

  // A stub jumps to the external; its second half is the address itself and serves as GOT slot.
  bool StubFor(uint32_t index, uint8_t** stub) {
    auto [it, fresh] = stub_of_.try_emplace(index, nullptr);
    if (fresh) {
      std::string name = NameOf(symbols_[index]);
      void* target = FindRuntimeSymbol(name);
      if (!target) return Fail("needs '" + name + "', which the runtime does not have");
      it->second = base_ + stubs_ + (stub_of_.size() - 1) * kStubBytes;
      static constexpr uint8_t kJump[8] = {0xff, 0x25, 0x02, 0x00, 0x00, 0x00, 0x66, 0x90};
      memcpy(it->second, kJump, 8);
      memcpy(it->second + 8, &target, 8);
    }
    *stub = it->second;
    return true;
  }

  bool AddressOf(uint32_t index, uint32_t type, uint64_t* address) {
    if (index >= symbols_.size()) return Fail("relocation of no symbol");
    const Elf64_Sym& symbol = symbols_[index];
    bool wants_slot =
        type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
    if (symbol.st_shndx == SHN_UNDEF) {
      uint8_t* stub = nullptr;
      if (!StubFor(index, &stub)) return false;
      *address = reinterpret_cast<uint64_t>(stub) + (wants_slot ? 8 : 0);
      return true;
    }
    if (wants_slot) return Fail("indirect reference to a local symbol");
    if (symbol.st_shndx >= sections_.size() || placed_[symbol.st_shndx] == SIZE_MAX)
      return Fail("relocation against a section that is not loaded");
    *address = reinterpret_cast<uint64_t>(base_) + placed_[symbol.st_shndx] + symbol.st_value;
    return true;
  }

  bool Apply(const Elf64_Rela& rela, size_t section) {
    uint32_t type = ELF64_R_TYPE(rela.r_info);
    uint64_t value = 0;
    if (type == R_X86_64_NONE) return true;
    if (!AddressOf(static_cast<uint32_t>(ELF64_R_SYM(rela.r_info)), type, &value)) return false;
    unsigned width = (type == R_X86_64_64 || type == R_X86_64_PC64) ? 8 : 4;
    if (rela.r_offset > sections_[section].sh_size ||
        width > sections_[section].sh_size - rela.r_offset)
      return Fail("relocation outside its section");
    uint8_t* place = base_ + placed_[section] + rela.r_offset;
    value += static_cast<uint64_t>(rela.r_addend);
    switch (type) {
      case R_X86_64_64:
        break;
      case R_X86_64_PC64:
      case R_X86_64_PC32:
      case R_X86_64_PLT32:
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        value -= reinterpret_cast<uint64_t>(place);
        break;
      default:
        return Fail("relocation type " + std::to_string(type));
    }
    if (width == 4 && static_cast<int64_t>(value) != static_cast<int32_t>(value))
      return Fail("reference out of reach");
    memcpy(place, &value, width);
    return true;
  }

  bool Relocate() {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_RELA || section.sh_info >= sections_.size() ||
          placed_[section.sh_info] == SIZE_MAX)
        continue;
      size_t count = section.sh_size / sizeof(Elf64_Rela);
      for (size_t i = 0; i < count; ++i) {
        Elf64_Rela rela;
        memcpy(&rela, object_.data() + section.sh_offset + i * sizeof(rela), sizeof(rela));
        if (!Apply(rela, section.sh_info)) return false;
      }
    }
    return true;
  }

  bool Seal() {
    for (const Elf64_Sym& symbol : symbols_) {
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= sections_.size() ||
          placed_[symbol.st_shndx] == SIZE_MAX || NameOf(symbol) != kKernelSymbol)
        continue;
      loaded_->entry_ = base_ + placed_[symbol.st_shndx] + symbol.st_value;
    }
    if (!loaded_->entry_) return Fail("exports no kernel");
    if (mprotect(base_, loaded_->bytes_, PROT_READ | PROT_EXEC) != 0)
      return Fail("the system refuses executable memory");
    return true;
  }

  std::string_view object_, strings_;
  std::string* error_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Elf64_Sym> symbols_;
  std::vector<size_t> placed_;
  std::map<uint32_t, uint8_t*> stub_of_;
  std::unique_ptr<LoadedObject> loaded_;
  uint8_t* base_ = nullptr;
  size_t stubs_ = 0;
};

std::unique_ptr<LoadedObject> LoadedObject::Load(std::string_view object, std::string* error) {
  return ObjectMapper(object, error).Map();
}

LoadedObject::~LoadedObject() {
  if (memory_) munmap(memory_, bytes_);
}

}  // namespace farcall::cpu_device
