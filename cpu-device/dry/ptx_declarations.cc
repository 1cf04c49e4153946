// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/dry/ptx_declarations.h"

#include <algorithm>
#include <cstring>

#include "cpu-device/driver/state/sparse.h"
#include "cpu-device/exec/layout.h"

namespace farcall::cpu_device::dry {
namespace {

bool IsKernel(const ptx::Function& function) {
  return function.is_entry && function.has_body;
}

bool LivesInMemory(const ptx::Variable& variable) {
  return (variable.space == ptx::Space::kGlobal || variable.space == ptx::Space::kConst) &&
         variable.linkage != ptx::Linkage::kExtern;
}

uint64_t Product(const uint32_t* dims) {
  return uint64_t{dims[0]} * std::max(dims[1], 1u) * std::max(dims[2], 1u);
}

void FillLimits(const ptx::Function& function, KernelInfo* info) {
  uint64_t most = info->max_threads_per_block;
  if (function.maxntid[0] != 0) most = std::min(most, Product(function.maxntid));
  if (function.reqntid[0] != 0) {
    most = std::min(most, Product(function.reqntid));
    for (int i = 0; i < 3; ++i) info->required_block[i] = std::max(function.reqntid[i], 1u);
  }
  info->max_threads_per_block = static_cast<uint32_t>(most);
  if (function.reqnctapercluster[0] != 0)
    for (int i = 0; i < 3; ++i)
      info->required_cluster[i] = std::max(function.reqnctapercluster[i], 1u);
  info->needs_cluster = function.explicit_cluster;
}

}  // namespace

bool PtxDeclarations::Read(std::string_view text, std::string* error) {
  const ptx::ParseResult parsed = ptx::Parse(text, &module_);
  *error = parsed.message;
  return parsed.ok();
}

std::vector<std::string> PtxDeclarations::KernelNames() const {
  std::vector<std::string> names;
  for (const auto& function : module_.functions)
    if (IsKernel(*function)) names.emplace_back(function->name);
  return names;
}

ExecResult PtxDeclarations::PlaceGlobals(GlobalMemory& memory, std::vector<GlobalInfo>* globals) {
  std::vector<uint64_t> addresses(module_.globals.size());
  for (const auto& variable : module_.globals) {
    if (!LivesInMemory(*variable)) continue;
    const uint64_t bytes = std::max<uint64_t>(variable->size_bytes, 1);
    const uint64_t address = memory.Allocate(bytes, std::max<uint32_t>(variable->align, 16));
    if (address == 0) {
      return {ExecStatus::kOutOfMemory, "variable " + std::string(variable->name) +
                                            ": no device memory for " + std::to_string(bytes) +
                                            " bytes"};
    }
    globals->push_back(
        {std::string(variable->name), address, variable->size_bytes, variable->managed});
    addresses[variable->index] = address;
    if (variable->space == ptx::Space::kConst) const_bytes_ += static_cast<uint32_t>(bytes);
    if (variable->init.size() > variable->size_bytes) {
      return {ExecStatus::kInvalidPtx,
              "variable " + std::string(variable->name) + ": initialiser is too long"};
    }
    SetZero(address, variable->size_bytes);
    if (!variable->init.empty())
      memcpy(reinterpret_cast<void*>(address), variable->init.data(), variable->init.size());
  }
  for (const auto& variable : module_.globals) {
    for (const ptx::Relocation& relocation : variable->relocations) {
      // Functions have no address here, and nothing that would call one.
      if (addresses[variable->index] == 0 || relocation.variable == nullptr) continue;
      uint64_t value =
          addresses[relocation.variable->index] + static_cast<uint64_t>(relocation.addend);
      if (relocation.mask == 0 || relocation.size_bytes > 8 ||
          relocation.size_bytes > variable->size_bytes ||
          relocation.offset > variable->size_bytes - relocation.size_bytes) {
        return {ExecStatus::kInvalidPtx,
                "variable " + std::string(variable->name) + ": initialiser is too long"};
      }
      if (relocation.mask != ~0ull)
        value = (value & relocation.mask) >> __builtin_ctzll(relocation.mask);
      memcpy(reinterpret_cast<void*>(addresses[variable->index] + relocation.offset), &value,
             relocation.size_bytes);
    }
  }
  return {};
}

bool PtxDeclarations::Describe(std::string_view name, KernelInfo* info, std::string* trouble) {
  ptx::Function* function = module_.FindFunction(name);
  if (function == nullptr || !IsKernel(*function)) return false;
  info->name = std::string(function->name);
  for (const auto& param : function->params)
    info->params.push_back({param->param_offset, static_cast<uint32_t>(param->size_bytes)});
  info->param_bytes = function->param_bytes;
  FillLimits(*function, info);
  KernelLayout layout;
  *trouble = ComputeLayout(module_, *function, &layout);
  if (trouble->empty()) {
    info->static_shared_bytes = layout.static_shared_bytes;
    info->local_bytes = layout.local_bytes;
  }
  for (const auto& body : module_.functions) module_.DropBody(*body);
  info->const_bytes = const_bytes_;
  // Nobody allocates registers: virtual ones over a usual reuse, within what the limits allow.
  uint32_t limit = function->maxnreg != 0 ? function->maxnreg : 255;
  limit = std::min(limit, 65536 / std::max<uint32_t>(info->max_threads_per_block, 256));
  info->registers = std::clamp<uint32_t>(layout.register_count / 3, 16, std::max(limit, 16u));
  info->ptx_version = function->target;
  info->uses_grid_sync = layout.uses_grid_workspace;
  return true;
}

}  // namespace farcall::cpu_device::dry
