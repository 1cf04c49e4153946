// SPDX-License-Identifier: Apache-2.0
// Functions that a program only declares: what nvcc's headers and libcudadevrt expect of the
// device.
#include <algorithm>

#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {
namespace {

// Carried out by a function of exec's.
struct Builtin {
  std::string_view name;
  const char* symbol;
  unsigned result_bits;  // 0: none
  // A letter each: w 32 bits, d 64 bits, p address to be read, s address of a struct given by
  // value, - not handed on.
  std::string_view arguments;
  enum Context { kNone, kBlock, kThread } context = kNone;  // what of the caller comes first
  bool returns = true;
};

constexpr Builtin kBuiltins[] = {
    {"vprintf", "fc_rt_vprintf", 32, "pp"},
    {"malloc", "fc_rt_malloc", 64, "d"},
    {"free", "fc_rt_free", 0, "d"},
    {"cudaGraphSetConditional", "fc_rt_set_conditional", 0, "dw"},
    {"__assertfail", "fc_rt_assert", 0, "ppwp-", Builtin::kThread, false},
    // Dynamic parallelism. Its functions without an entry here are refused.
    {"__cuda_syscall_cnpv2SetLastError", "fc_rt_set_device_error", 32, "w", Builtin::kThread},
    {"__cuda_syscall_cnpv2GetLastError", "fc_rt_device_error", 32, "", Builtin::kThread},
    {"__cuda_syscall_cnpv2GetParameterBufferV2", "fc_rt_parameter_buffer", 64, "dssw",
     Builtin::kThread},
    {"__cuda_syscall_cnpv2LaunchDeviceV2", "fc_rt_launch", 32, "dd", Builtin::kBlock},
    {"__cuda_syscall_cnpv2StreamCreate", "fc_rt_create_handle", 32, "dw", Builtin::kBlock},
    {"__cuda_syscall_cnpv2StreamDestroy", "fc_rt_destroy_handle", 32, "d", Builtin::kBlock},
    {"__cuda_syscall_cnpv2StreamWaitEvent", "fc_rt_order_handles", 32, "dd-", Builtin::kBlock},
    {"__cuda_syscall_cnpv2EventCreate", "fc_rt_create_handle", 32, "dw", Builtin::kBlock},
    {"__cuda_syscall_cnpv2EventDestroy", "fc_rt_destroy_handle", 32, "d", Builtin::kBlock},
    {"__cuda_syscall_cnpv2EventRecord", "fc_rt_order_handles", 32, "dd", Builtin::kBlock},
    {"__cuda_syscall_cnpv2FuncGetAttribute", "fc_rt_kernel_attribute", 32, "dwd", Builtin::kBlock},
};

// Dynamic parallelism had other names before its second version, with the same arguments.
std::string NewName(std::string_view name) {
  constexpr std::string_view kOld = "cnp", kNew = "__cuda_syscall_cnpv2";
  return std::string(name.starts_with(kOld) ? kNew : "") +
         std::string(name.substr(name.starts_with(kOld) ? kOld.size() : 0));
}

}  // namespace

// *known: the device has such a function, with as many arguments.
bool Emitter::CallBuiltin(const Instruction& instruction, std::string_view name, bool* known) {
  const Operand& results = instruction.operands[0];
  static const Operand kNone;
  const Operand& arguments = instruction.operands.size() > 2 ? instruction.operands[2] : kNone;
  const std::string wanted = NewName(name);
  const auto* builtin = std::find_if(std::begin(kBuiltins), std::end(kBuiltins),
                                     [&](const Builtin& one) { return one.name == wanted; });
  *known = builtin != std::end(kBuiltins) && builtin->arguments.size() == arguments.elements.size();
  if (!*known) return true;
  auto slot_of = [&](const Operand& operand) -> Value* {
    if (operand.variable == nullptr) return nullptr;
    const auto found = scope_->param_slots.find(operand.variable);
    return found == scope_->param_slots.end() ? nullptr : found->second;
  };
  std::vector<Value*> values;
  if (builtin->context != Builtin::kNone) values.push_back(block_);
  if (builtin->context == Builtin::kThread) values.push_back(thread_);
  for (size_t i = 0; i < arguments.elements.size(); ++i) {
    const char kind = builtin->arguments[i];
    if (kind == '-') continue;
    const Operand& operand = arguments.elements[i];
    const unsigned bits = kind == 'w' ? 32 : 64;
    Value* slot = slot_of(operand);
    if (kind == 's') {
      if (!slot) return Unsupported(instruction, "argument");
      values.push_back(slot);
      continue;
    }
    Value* value = slot ? b_.CreateLoad(IntOf(bits), slot) : ReadInt(operand, bits);
    values.push_back(kind == 'p' ? b_.CreateIntToPtr(value, b_.getPtrTy()) : value);
  }
  llvm::Type* result = builtin->result_bits ? IntOf(builtin->result_bits) : b_.getVoidTy();
  Value* value = Call(builtin->symbol, result, values);
  if (!builtin->returns) Unreachable();
  if (!builtin->result_bits || results.elements.empty()) return true;
  if (Value* slot = slot_of(results.elements[0]))
    b_.CreateStore(value, slot);
  else
    Write(results.elements[0], value);
  return true;
}

}  // namespace farcall::cpu_device::jit
