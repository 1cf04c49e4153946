// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/images/cubin.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>

#include "cpu-device/images/elf.h"

namespace farcall::cpu_device::images {
namespace {

constexpr uint16_t kCudaMachine = 190;
constexpr uint8_t kObject = 1, kFunction = 2;
constexpr uint8_t kEntry = 0x10;  // of a symbol's `other`: callable by a launch
constexpr uint8_t kNewFlagsAbi = 8;
constexpr uint32_t kRela = 4;
constexpr uint32_t kReservedShared = 1024;  // of each block, since sm_90 counted by the compiler

// Attributes of .nv.info, by the numbers that cuobjdump -elf names.
enum Attribute : uint8_t {
  kMaxThreads = 0x05,
  kParamCbank = 0x0a,
  kRequiredThreads = 0x10,
  kFrameSize = 0x11,
  kParamInfo = 0x17,
  kParamSize = 0x19,
  kRegisterCount = 0x2f,
  kClusterShape = 0x3d,
  kExplicitCluster = 0x3e,
  kParamInfo2 = 0x45,
};

bool Fail(std::string* error, const std::string& what) {
  *error = "cubin: " + what;
  return false;
}

struct Info {
  uint8_t attribute = 0;
  uint16_t value = 0;  // the value itself, or the length of `bytes`
  Bytes bytes;
};

// Calls `take` for each attribute of a .nv.info section; false if one is cut off.
template <typename Take>
bool ForEachInfo(Bytes section, Take take) {
  constexpr uint8_t kHasBytes = 4;
  for (uint64_t at = 0; at < section.size();) {
    uint8_t format = 0;
    Info info;
    if (!LoadAt(section, at, &format) || !LoadAt(section, at + 1, &info.attribute) ||
        !LoadAt(section, at + 2, &info.value))
      return false;
    at += 4;
    if (format == kHasBytes) {
      if (info.value > section.size() - at) return false;
      info.bytes = section.subspan(at, info.value);
      at += info.value;
    }
    if (!take(info)) return false;
  }
  return true;
}

class CubinReader {
 public:
  CubinReader(const ElfFile& elf, Cubin* cubin) : elf_(elf), cubin_(*cubin) {}

  bool Read(std::string* error) {
    ReadArch();
    for (const ElfSection& section : elf_.sections) sections_.emplace(section.name, &section);
    FindSymbols();
    if (!ReadModuleInfo()) return Fail(error, ".nv.info is cut off");
    for (KernelInfo& kernel : cubin_.kernels)
      if (!ReadKernelInfo(kernel)) return Fail(error, ".nv.info of " + kernel.name + " is broken");
    ReadFixups();
    return true;
  }

 private:
  const ElfSection* Section(const std::string& name) const {
    const auto found = sections_.find(name);
    return found == sections_.end() ? nullptr : found->second;
  }

  void ReadArch() {
    if (elf_.abi_version >= kNewFlagsAbi) {
      cubin_.arch = cubin_.virtual_arch = elf_.flags >> 8 & 0xff;
      if (const ElfSection* compat = elf_.Find(".nv.compat")) ReadCompatibility(compat->bytes);
      if (const ElfSection* note = elf_.Find(".note.nv.cuinfo")) {
        uint16_t arch = 0;
        if (LoadAt(note->bytes, 26, &arch) && arch != 0) cubin_.virtual_arch = arch;
      }
    } else {
      cubin_.arch = elf_.flags & 0xff;
      cubin_.virtual_arch = elf_.flags >> 16 & 0xff;
    }
  }

  // A cubin of sm_90a says that it is for that architecture alone.
  void ReadCompatibility(Bytes section) {
    constexpr uint8_t kArchSpecific = 0x09;
    ForEachInfo(section, [&](const Info& info) {
      if (info.attribute == kArchSpecific) cubin_.arch_specific = (info.value & 0xff) == 1;
      return true;
    });
  }

  static bool HoldsVariables(std::string_view section) {
    return section == ".nv.global" || section == ".nv.global.init" || section == ".nv.constant3";
  }

  void FindSymbols() {
    for (size_t i = 0; i < elf_.symbols.size(); ++i) {
      const ElfSymbol& symbol = elf_.symbols[i];
      if (symbol.section == 0 || symbol.section >= elf_.sections.size()) continue;
      const ElfSection& section = elf_.sections[symbol.section];
      if (symbol.type == kFunction && (symbol.other & kEntry) != 0) {
        kernel_of_symbol_.emplace(i, cubin_.kernels.size());
        cubin_.kernels.emplace_back().name = symbol.name;
      } else if (symbol.type == kObject && HoldsVariables(section.name) &&
                 symbol.value <= section.size_bytes &&
                 symbol.size_bytes <= section.size_bytes - symbol.value) {
        AddVariable(i, symbol, section);
      }
    }
  }

  void AddVariable(size_t index, const ElfSymbol& symbol, const ElfSection& section) {
    variable_of_symbol_.emplace(index, cubin_.variables.size());
    CubinVariable& variable = cubin_.variables.emplace_back();
    variable.name = symbol.name;
    variable.size_bytes = symbol.size_bytes;
    // As its section, as far as its place in there tells.
    variable.align_bytes = std::clamp<uint64_t>(section.align & ~(section.align - 1), 1, 256);
    while (symbol.value % variable.align_bytes != 0) variable.align_bytes /= 2;
    if (symbol.value + symbol.size_bytes <= section.bytes.size())
      variable.init = section.bytes.subspan(symbol.value, symbol.size_bytes);
    variables_in_[symbol.section].emplace(symbol.value, cubin_.variables.size() - 1);
  }

  // Registers and stack, by the index of the kernel's symbol.
  bool ReadModuleInfo() {
    const ElfSection* section = Section(".nv.info");
    if (section == nullptr) return true;
    return ForEachInfo(section->bytes, [&](const Info& info) {
      uint32_t symbol = 0, value = 0;
      if (info.attribute != kRegisterCount && info.attribute != kFrameSize) return true;
      if (!LoadAt(info.bytes, 0, &symbol) || !LoadAt(info.bytes, 4, &value)) return false;
      const auto found = kernel_of_symbol_.find(symbol);
      if (found == kernel_of_symbol_.end()) return true;
      KernelInfo& kernel = cubin_.kernels[found->second];
      (info.attribute == kRegisterCount ? kernel.registers : kernel.local_bytes) = value;
      return true;
    });
  }

  bool ReadKernelInfo(KernelInfo& kernel) {
    kernel.binary_version = cubin_.arch;
    kernel.ptx_version = cubin_.virtual_arch;
    if (const ElfSection* constants = Section(".nv.constant3"))
      kernel.const_bytes = static_cast<uint32_t>(constants->size_bytes);
    if (const ElfSection* shared = Section(".nv.shared." + kernel.name)) {
      uint64_t bytes = shared->size_bytes;
      const bool counts_reserved = cubin_.arch >= 90 && Section(".nv.shared.reserved.0") != nullptr;
      if (counts_reserved) bytes -= std::min<uint64_t>(bytes, kReservedShared);
      kernel.static_shared_bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
    }
    const ElfSection* code = Section(".text." + kernel.name);
    if (kernel.registers == 0 && code != nullptr) kernel.registers = code->info >> 24;
    const ElfSection* section = Section(".nv.info." + kernel.name);
    if (section == nullptr) return true;
    std::vector<std::pair<uint32_t, KernelParam>> params;
    const bool whole =
        ForEachInfo(section->bytes, [&](const Info& info) { return Take(info, kernel, &params); });
    return whole && PlaceParams(std::move(params), kernel);
  }

  static bool Take(const Info& info, KernelInfo& kernel,
                   std::vector<std::pair<uint32_t, KernelParam>>* params) {
    uint32_t shape[3] = {};
    const bool has_shape = LoadAt(info.bytes, 0, &shape);
    const uint64_t threads = uint64_t{std::min(shape[0], 65536u)} *
                             std::min(std::max(shape[1], 1u), 65536u) *
                             std::min(std::max(shape[2], 1u), 65536u);
    switch (info.attribute) {
      case kMaxThreads:
      case kRequiredThreads:
        if (!has_shape || threads == 0) return false;
        kernel.max_threads_per_block =
            static_cast<uint32_t>(std::min<uint64_t>(kernel.max_threads_per_block, threads));
        if (info.attribute == kRequiredThreads)
          for (int i = 0; i < 3; ++i) kernel.required_block[i] = std::max(shape[i], 1u);
        return true;
      case kClusterShape:
        if (!has_shape) return false;
        std::copy(shape, shape + 3, kernel.required_cluster);
        return true;
      case kExplicitCluster:
        kernel.needs_cluster = true;
        return true;
      case kParamSize:
        kernel.param_bytes = info.value;
        return true;
      case kParamInfo:
      case kParamInfo2: {
        uint16_t ordinal = 0, offset = 0;
        uint32_t size = 0;
        if (!LoadAt(info.bytes, 4, &ordinal) || !LoadAt(info.bytes, 6, &offset) ||
            !LoadAt(info.bytes, 8, &size))
          return false;
        // Beside the size stand hints about pointers: below it in the first form, above in the
        // second.
        size = info.attribute == kParamInfo ? size >> 18 : size & 0xffff;
        params->push_back({ordinal, {offset, size}});
        return true;
      }
      default:
        return true;
    }
  }

  // In the order of the source, each inside the parameter block.
  static bool PlaceParams(std::vector<std::pair<uint32_t, KernelParam>> params,
                          KernelInfo& kernel) {
    std::sort(params.begin(), params.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < params.size(); ++i) {
      const KernelParam& param = params[i].second;
      const bool inside = param.offset_bytes <= kernel.param_bytes &&
                          param.size_bytes <= kernel.param_bytes - param.offset_bytes;
      if (params[i].first != i || !inside) return false;
      kernel.params.push_back(param);
    }
    return true;
  }

  // Pointers in initial bytes. Those to functions, and into sections without variables, stay zero:
  // no code runs that would follow them.
  void ReadFixups() {
    constexpr uint32_t kAddress32 = 3, kAddress64 = 4, kAbsolute64 = 2, kAbsolute32 = 1;
    for (const ElfSection& section : elf_.sections) {
      if (section.type != kRela || variables_in_.count(section.info) == 0) continue;
      for (uint64_t at = 0; at + 24 <= section.bytes.size(); at += 24) {
        uint64_t place = 0;
        uint32_t type = 0, symbol = 0;
        CubinFixup fixup;
        LoadAt(section.bytes, at, &place);
        LoadAt(section.bytes, at + 8, &type);
        LoadAt(section.bytes, at + 12, &symbol);
        LoadAt(section.bytes, at + 16, &fixup.addend);
        const bool is_64 = type == kAddress64 || type == kAbsolute64;
        if (!is_64 && type != kAddress32 && type != kAbsolute32) continue;
        fixup.size_bytes = is_64 ? 8 : 4;
        const auto target = variable_of_symbol_.find(symbol);
        if (target == variable_of_symbol_.end()) continue;
        fixup.target = target->second;
        AddFixup(section.info, place, fixup);
      }
    }
  }

  void AddFixup(uint32_t section, uint64_t place, CubinFixup fixup) {
    const auto& starts = variables_in_[section];
    auto next = starts.upper_bound(place);
    if (next == starts.begin()) return;
    const auto& [start, index] = *std::prev(next);
    CubinVariable& variable = cubin_.variables[index];
    fixup.offset = place - start;
    if (fixup.offset > variable.size_bytes || variable.size_bytes - fixup.offset < fixup.size_bytes)
      return;
    variable.fixups.push_back(fixup);
  }

  const ElfFile& elf_;
  Cubin& cubin_;
  std::unordered_map<std::string_view, const ElfSection*> sections_;
  std::unordered_map<size_t, size_t> kernel_of_symbol_, variable_of_symbol_;
  // Section -> start of a variable in it, index of the variable.
  std::unordered_map<uint32_t, std::map<uint64_t, size_t>> variables_in_;
};

}  // namespace

bool IsElf(std::span<const uint8_t> image) {
  uint32_t magic = 0;
  return LoadAt(image, 0, &magic) && magic == 0x464C457F;
}

bool ReadCubin(std::span<const uint8_t> image, Cubin* cubin, std::string* error) {
  ElfFile elf;
  if (!ReadElf(image, &elf, error)) return false;
  if (elf.machine != kCudaMachine)
    return Fail(error, "ELF machine " + std::to_string(elf.machine) + ", not CUDA's 190");
  *cubin = {};
  return CubinReader(elf, cubin).Read(error);
}

}  // namespace farcall::cpu_device::images
