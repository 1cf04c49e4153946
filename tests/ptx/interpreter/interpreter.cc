// SPDX-License-Identifier: Apache-2.0
// Module placement and the loop over blocks.
#include "tests/ptx/interpreter/interpreter.h"

#include <cstdlib>
#include <cstring>

#include "tests/ptx/interpreter/machine.h"

namespace farcall::cpu_device::ptx_interpreter {

using ptx::Linkage;
using ptx::Space;

Interpreter::~Interpreter() {
  for (void* p : device_heap_) std::free(p);
}

RunResult Interpreter::Load(std::string_view ptx_text, std::unique_ptr<Interpreter>* out) {
  std::unique_ptr<Interpreter> made(new Interpreter);
  ptx::ParseResult parsed = ptx::Parse(ptx_text, &made->module_);
  if (parsed.ok()) parsed = made->module_.EnsureAll();
  if (!parsed.ok()) return {RunStatus::kInvalid, parsed.message, {}};
  RunResult result = made->PlaceGlobals();
  if (result.ok()) result = made->PlaceShared();
  if (result.ok()) *out = std::move(made);
  return result;
}

// Aligned and initialised; addresses in initialisers are filled in when all have their place.
RunResult Interpreter::PlaceGlobals() {
  auto place = [this](const ptx::Variable& variable) {
    if (variable.space != Space::kGlobal && variable.space != Space::kConst) return;
    const uint64_t align = variable.align < 16 ? 16 : variable.align;
    storage_.push_back(std::make_unique<uint8_t[]>(variable.size_bytes + 2 * align));
    uint64_t start = reinterpret_cast<uint64_t>(storage_.back().get());
    start = (start + align - 1) / align * align;
    globals_[&variable] = reinterpret_cast<uint8_t*>(start);
    if (!variable.init.empty())
      std::memcpy(globals_[&variable], variable.init.data(), variable.init.size());
  };
  for (const auto& variable : module_.globals) place(*variable);
  for (const auto& function : module_.functions)
    for (const auto& local : function->locals) place(*local);
  for (const auto& variable : module_.globals)
    if (!Relocate(*variable))
      return {RunStatus::kUnsupported, "initialiser of '" + std::string(variable->name) + "'", {}};
  return {};
}

bool Interpreter::Relocate(const ptx::Variable& variable) {
  for (const ptx::Relocation& reloc : variable.relocations) {
    uint64_t address = 0;
    if (reloc.function) {
      address = reinterpret_cast<uint64_t>(reloc.function);
    } else {
      auto target = globals_.find(reloc.variable);
      if (target == globals_.end()) return false;
      address = reinterpret_cast<uint64_t>(target->second);
    }
    address += static_cast<uint64_t>(reloc.addend);
    address &= reloc.mask;
    for (uint64_t mask = reloc.mask; !(mask & 1); mask >>= 1) address >>= 1;
    std::memcpy(globals_[&variable] + reloc.offset, &address, reloc.size_bytes);
  }
  return true;
}

// One layout for the whole module: every kernel sees every shared variable at the same offset.
RunResult Interpreter::PlaceShared() {
  auto place = [this](const ptx::Variable& variable) {
    if (variable.space != Space::kShared || variable.linkage == Linkage::kExtern) return;
    static_shared_bytes_ =
        (static_shared_bytes_ + variable.align - 1) / variable.align * variable.align;
    shared_[&variable] = static_shared_bytes_;
    static_shared_bytes_ += variable.size_bytes;
  };
  for (const auto& variable : module_.globals) place(*variable);
  for (const auto& function : module_.functions)
    for (const auto& local : function->locals) place(*local);
  constexpr uint64_t kLimit = 227 * 1024;
  if (static_shared_bytes_ <= kLimit) return {};
  return {RunStatus::kInvalid,
          "shared memory: " + std::to_string(static_shared_bytes_) + " bytes, at most 232448",
          {}};
}

uint64_t Interpreter::AddressOf(const ptx::Variable& variable) const {
  auto global = globals_.find(&variable);
  if (global != globals_.end()) return reinterpret_cast<uint64_t>(global->second);
  auto shared = shared_.find(&variable);
  if (shared != shared_.end()) return shared->second;
  throw Stop{RunStatus::kUnsupported, "address of '" + std::string(variable.name) + "'"};
}

void* Interpreter::GlobalAddress(std::string_view name) const {
  const ptx::Variable* variable = module_.FindGlobal(name);
  auto it = variable ? globals_.find(variable) : globals_.end();
  return it == globals_.end() ? nullptr : it->second;
}

void Interpreter::RunCluster(const ptx::Function& entry, const LaunchConfig& config, Dim3 first,
                             const std::vector<uint8_t>& params, std::string* output,
                             uint64_t* steps_left) {
  const Dim3 size = config.cluster;
  std::vector<std::unique_ptr<Block>> blocks;
  Cluster cluster;
  for (uint32_t rank = 0; rank < size.x * size.y * size.z; ++rank) {
    const Dim3 index{first.x + rank % size.x, first.y + rank / size.x % size.y,
                     first.z + rank / size.x / size.y};
    blocks.push_back(
        std::make_unique<Block>(*this, entry, config, index, params, output, steps_left));
    blocks.back()->JoinCluster(&cluster, rank);
    cluster.blocks.push_back(blocks.back().get());
  }
  for (bool live = true; live;) {
    bool progress = false;
    live = false;
    Block* waiting = nullptr;
    for (auto& block : blocks) {
      if (!block->Turn(&progress)) continue;
      live = true;
      waiting = block.get();
    }
    if (live && !progress) waiting->Deadlock();
  }
}

RunResult Interpreter::Run(std::string_view kernel, const LaunchConfig& config,
                           const std::vector<uint8_t>& params) {
  RunResult result;
  const ptx::Function* entry = module_.FindFunction(kernel);
  if (!entry || !entry->is_entry || !entry->has_body)
    return {RunStatus::kInvalid, "no kernel '" + std::string(kernel) + "'", {}};
  if (params.size() != entry->param_bytes) {
    return {RunStatus::kInvalid,
            "arguments: " + std::to_string(params.size()) + " bytes, " +
                std::to_string(entry->param_bytes) + " declared",
            {}};
  }
  uint64_t threads = uint64_t{config.block.x} * config.block.y * config.block.z;
  if (threads == 0 || threads > 1024)
    return {RunStatus::kInvalid, "block of " + std::to_string(threads) + " threads", {}};
  uint64_t steps_left = config.max_steps;
  try {
    const Dim3 each = config.cluster;
    for (uint32_t z = 0; z < config.grid.z; z += each.z) {
      for (uint32_t y = 0; y < config.grid.y; y += each.y)
        for (uint32_t x = 0; x < config.grid.x; x += each.x)
          RunCluster(*entry, config, {x, y, z}, params, &result.output, &steps_left);
    }
  } catch (const Stop& stop) {
    result.status = stop.status;
    result.message = stop.message;
  }
  return result;
}

}  // namespace farcall::cpu_device::ptx_interpreter
