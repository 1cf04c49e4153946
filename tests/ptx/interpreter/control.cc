// SPDX-License-Identifier: Apache-2.0
// Branches, calls, returns, traps, and the few system functions device code calls.
#include <cstdlib>
#include <cstring>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

constexpr size_t kMaxFrames = 512;

}  // namespace

void Core::Branch() {
  Frame& frame = thread_.frame();
  jumped_ = true;
  if (in_.opcode == Opcode::kBra) {
    frame.pc = static_cast<uint32_t>(Op(0).value);
    return;
  }
  const ptx::LabelTable& table =
      frame.function->branch_targets.at(static_cast<size_t>(Op(1).value));
  const uint64_t index = Read(Op(0), Type::kU32);
  if (index >= table.targets.size()) Invalid("index " + std::to_string(index) + " past the table");
  frame.pc = table.targets[index];
}

// Arguments are copied into the callee's parameters; results back into the caller's slots by
// Return.
void Core::Call() {
  const Operand& target = Op(1);
  const ptx::Function* callee = target.function;
  if (!callee) callee = block_.FunctionAt(Read(target, Type::kB64));
  if (!callee) throw Stop{RunStatus::kBadAddress, "call of something that is no function"};
  if (!callee->has_body) {
    if (!SystemCall(*callee)) Unsupported("no body for '" + std::string(callee->name) + "'");
    return;
  }
  if (thread_.frames.size() >= kMaxFrames) throw Stop{RunStatus::kTrap, "call stack overflow"};
  const std::vector<Operand>& arguments = Op(2).elements;
  if (arguments.size() != callee->params.size())
    Invalid("argument count differs from the callee's");
  Frame next = block_.MakeFrame(*callee);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ptx::Variable& param = *callee->params[i];
    const Operand& argument = arguments[i];
    if (param.reg != ptx::kNoRegister) {
      next.regs[param.reg].lo = Read(argument, param.type);
    } else if (argument.Is(Kind::kSymbol) && argument.variable &&
               argument.variable->space == ptx::Space::kParam) {
      if (argument.variable->size_bytes != param.size_bytes) Invalid("argument size differs");
      std::memcpy(next.slots[&param], thread_.frame().slots.at(argument.variable),
                  param.size_bytes);
    } else {
      uint64_t value = Read(argument, param.type);
      std::memcpy(next.slots[&param], &value, ptx::BytesOf(param.type));
    }
  }
  thread_.frames.push_back(std::move(next));
  jumped_ = true;
}

void Core::Return() {
  if (thread_.frames.size() == 1) return Exit();
  Frame done = std::move(thread_.frames.back());
  thread_.frames.pop_back();
  Frame& caller = thread_.frame();
  const ptx::Instruction& call = caller.function->body[caller.pc];
  const std::vector<Operand>& results = call.operands[0].elements;
  Core back(block_, thread_);
  for (size_t i = 0; i < results.size() && i < done.function->returns.size(); ++i) {
    const ptx::Variable& value = *done.function->returns[i];
    const Operand& to = results[i];
    uint64_t bits = 0;
    if (value.reg != ptx::kNoRegister)
      bits = done.regs[value.reg].lo;
    else
      std::memcpy(&bits, done.slots.at(&value), std::min<uint64_t>(8, value.size_bytes));
    if (to.Is(Kind::kSymbol) && to.variable) {
      const void* from =
          value.reg != ptx::kNoRegister ? static_cast<const void*>(&bits) : done.slots.at(&value);
      std::memcpy(caller.slots.at(to.variable), from,
                  std::min(value.size_bytes, to.variable->size_bytes));
    } else {
      back.Write(to, value.type, bits);
    }
  }
  ++caller.pc;
  jumped_ = true;
}

void Core::Exit() {
  thread_.state = ThreadState::kExited;
}

// vprintf, malloc, free, __assertfail: what the toolkit leaves to the driver.
bool Core::SystemCall(const ptx::Function& callee) {
  const std::vector<Operand>& arguments = Op(2).elements;
  auto argument = [&](size_t i) {
    uint64_t bits = 0;
    if (i >= arguments.size() || !arguments[i].variable) Invalid("system call without argument");
    std::memcpy(&bits, thread_.frame().slots.at(arguments[i].variable),
                std::min<uint64_t>(8, arguments[i].variable->size_bytes));
    return bits;
  };
  auto answer = [&](uint64_t bits) {
    const std::vector<Operand>& results = Op(0).elements;
    if (results.empty() || !results[0].variable) return;
    std::memcpy(thread_.frame().slots.at(results[0].variable), &bits,
                std::min<uint64_t>(8, results[0].variable->size_bytes));
  };
  if (callee.name == "vprintf") {
    const char* format = reinterpret_cast<const char*>(argument(0));
    std::string text = FormatDevicePrintf(format, reinterpret_cast<const uint8_t*>(argument(1)));
    *block_.output() += text;
    answer(text.size());
    return true;
  }
  if (callee.name == "malloc") {
    void* p = std::calloc(1, std::max<uint64_t>(argument(0), 1));
    block_.device_heap().push_back(p);
    answer(reinterpret_cast<uint64_t>(p));
    return true;
  }
  if (callee.name == "free") {
    // Freed with the interpreter: a use after free stays visible as stale data, not as a crash.
    return true;
  }
  if (callee.name == "__assertfail") {
    const char* text = reinterpret_cast<const char*>(argument(0));
    throw Stop{RunStatus::kAssert, std::string("assertion failed: ") + text};
  }
  return false;
}

bool Core::Control() {
  switch (in_.opcode) {
    case Opcode::kBra:
    case Opcode::kBrx:
      Branch();
      return true;
    case Opcode::kCall:
      Call();
      return true;
    case Opcode::kRet:
      Return();
      return true;
    case Opcode::kExit:
      Exit();
      return true;
    case Opcode::kTrap:
      throw Stop{RunStatus::kTrap, "trap"};
    case Opcode::kBrkpt:
    case Opcode::kNanosleep:
    case Opcode::kPmevent:
    case Opcode::kGriddepcontrol:
    case Opcode::kSetmaxnreg:
      return true;
    default:
      return false;
  }
}

}  // namespace farcall::cpu_device::ptx_interpreter
