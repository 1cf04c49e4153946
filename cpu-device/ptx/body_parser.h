// SPDX-License-Identifier: Apache-2.0
// Parses one function body into a flat instruction list.
#pragma once

#include <unordered_map>

#include "cpu-device/ptx/lexer.h"
#include "cpu-device/ptx/module.h"
#include "cpu-device/ptx/scope.h"

namespace farcall::cpu_device::ptx {

class BodyParser {
 public:
  BodyParser(const Module& module, Function& function)
      : module_(module), function_(function), lexer_(function.body_text, function.body_line) {}

  ParseResult Run();

 private:
  // body_parser.cc: statements
  void DeclareParameters();
  bool Statement();
  bool Directive();
  bool DeclareRegisters();
  bool DeclareVariable(Space space, Linkage linkage);
  bool Location();
  bool Pragma();
  bool DefineLabel(std::string_view name);
  bool BranchTargets(std::string_view name);
  bool CallTargets(std::string_view name);
  bool CallPrototype(std::string_view name);
  bool CloseScope();
  bool Declare(std::string_view name, const LocalSymbol& symbol);
  RegisterId AddRegisters(std::string_view name, Type type, uint32_t count, uint8_t width,
                          bool numbered);

  // operand_parser.cc: instructions
  bool Guard(Instruction* instruction);
  bool ParseInstruction();
  bool Operands(Instruction* instruction);
  bool CallOperands(Instruction* instruction);
  bool BranchOperands(Instruction* instruction);
  bool ParseOperand(Operand* out, int depth);
  bool Name(Operand* out);
  bool Address(Operand* out, int depth);
  bool Elements(char close, std::vector<Operand>* out, int depth);
  bool RegisterComponent(std::string_view name, Operand* out);
  void LabelReference(Instruction* instruction, std::string_view name, uint32_t line);

  struct Mnemonic {
    Opcode opcode;
    Modifiers mods;
  };

  const Module& module_;
  Function& function_;
  Lexer lexer_;
  ScopeStack scopes_;
  std::unordered_map<std::string_view, Mnemonic> mnemonics_;  // each spelling is analysed once
  uint32_t location_ = kNoIndex;
};

}  // namespace farcall::cpu_device::ptx
