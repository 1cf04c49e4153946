// SPDX-License-Identifier: Apache-2.0
// Instructions of a function body: guard, mnemonic, operands.
#include <string>

#include "cpu-device/ptx/body_parser.h"
#include "cpu-device/ptx/constant.h"
#include "cpu-device/ptx/modifiers.h"
#include "cpu-device/ptx/names.h"

namespace farcall::cpu_device::ptx {
namespace {

constexpr int kMaxOperandDepth = 8;
constexpr size_t kMaxElements = 4096;

std::string Quoted(std::string_view name) {
  std::string quoted = "'";
  quoted += name.substr(0, 80);
  return quoted += '\'';
}

}  // namespace

bool BodyParser::Guard(Instruction* instruction) {
  if (!lexer_.AcceptPunct('@')) return lexer_.ok();
  instruction->guard_negated = lexer_.AcceptPunct('!');
  std::string_view name = lexer_.ExpectIdentifier("a predicate");
  LocalSymbol symbol;
  if (!lexer_.ok()) return false;
  if (!scopes_.Find(name, &symbol) || symbol.reg == kNoRegister)
    return lexer_.Fail("guard " + Quoted(name) + " is no register");
  if (function_.registers[symbol.reg].type != Type::kPred)
    return lexer_.Fail("guard " + Quoted(name) + " is no predicate");
  instruction->guard = symbol.reg;
  return true;
}

bool BodyParser::ParseInstruction() {
  Instruction instruction;
  instruction.line = lexer_.peek().line;
  bool guarded = lexer_.IsPunct('@');
  if (!Guard(&instruction)) return false;
  std::string_view mnemonic = lexer_.ExpectIdentifier("an instruction");
  if (!lexer_.ok()) return false;
  if (!guarded && lexer_.AcceptPunct(':')) return DefineLabel(mnemonic);
  auto [known, fresh] = mnemonics_.try_emplace(mnemonic);
  if (fresh && !ParseMnemonic(mnemonic, &known->second.opcode, &known->second.mods))
    return lexer_.FailAt(instruction.line, "unknown instruction " + Quoted(mnemonic));
  instruction.opcode = known->second.opcode;
  instruction.mods = known->second.mods;
  instruction.mnemonic = mnemonic;
  instruction.loc = location_;
  bool parsed = false;
  switch (instruction.opcode) {
    case Opcode::kCall:
      parsed = CallOperands(&instruction);
      break;
    case Opcode::kBra:
    case Opcode::kBrx:
      parsed = BranchOperands(&instruction);
      break;
    default:
      parsed = Operands(&instruction);
      break;
  }
  if (!parsed || !lexer_.ExpectPunct(';')) return false;
  function_.body.push_back(std::move(instruction));
  return true;
}

bool BodyParser::Operands(Instruction* instruction) {
  if (lexer_.IsPunct(';')) return true;
  do {
    Operand operand;
    if (!ParseOperand(&operand, 0)) return false;
    instruction->operands.push_back(std::move(operand));
    if (lexer_.AcceptPunct('|')) {
      if (instruction->operands.size() != 1) return lexer_.Fail("'|' after a source operand");
      if (!ParseOperand(&instruction->second_dst, 0)) return false;
    }
    if (instruction->operands.size() > kMaxElements) return lexer_.Fail("too many operands");
  } while (lexer_.AcceptPunct(','));
  return lexer_.ok();
}

void BodyParser::LabelReference(Instruction* instruction, std::string_view name, uint32_t line) {
  Operand operand;
  operand.kind = Operand::Kind::kLabel;
  LabelFixup fixup;
  fixup.name = name;
  fixup.instruction = static_cast<uint32_t>(function_.body.size());
  fixup.operand = static_cast<uint32_t>(instruction->operands.size());
  fixup.line = line;
  scopes_.top().fixups.push_back(fixup);
  instruction->operands.push_back(operand);
}

// "bra label", "brx.idx %r1, table".
bool BodyParser::BranchOperands(Instruction* instruction) {
  if (instruction->opcode == Opcode::kBrx) {
    Operand index;
    if (!ParseOperand(&index, 0) || !lexer_.ExpectPunct(',')) return false;
    instruction->operands.push_back(std::move(index));
  }
  uint32_t line = lexer_.peek().line;
  std::string_view name = lexer_.ExpectIdentifier("a label");
  if (!lexer_.ok()) return false;
  LabelReference(instruction, name, line);
  return true;
}

// "(ret), callee, (args), prototype"; all but the callee may be absent.
bool BodyParser::CallOperands(Instruction* instruction) {
  instruction->operands.resize(3);
  Operand& returns = instruction->operands[0];
  Operand& arguments = instruction->operands[2];
  returns.kind = arguments.kind = Operand::Kind::kList;
  if (lexer_.AcceptPunct('(')) {
    if (!Elements(')', &returns.elements, 1) || !lexer_.ExpectPunct(',')) return false;
  }
  if (!Name(&instruction->operands[1])) return false;
  const Operand& callee = instruction->operands[1];
  bool callable =
      callee.Is(Operand::Kind::kRegister) || (callee.Is(Operand::Kind::kSymbol) && callee.function);
  if (!callable) return lexer_.Fail("callee is neither function nor register");
  if (!lexer_.AcceptPunct(',')) return lexer_.ok();
  if (lexer_.AcceptPunct('(')) {
    if (!Elements(')', &arguments.elements, 1)) return false;
    if (!lexer_.AcceptPunct(',')) return lexer_.ok();
  }
  std::string_view name = lexer_.ExpectIdentifier("a prototype or a target table");
  uint32_t index = 0;
  Operand kind;
  if (scopes_.Find(&BodyScope::prototypes, name, &index))
    kind.kind = Operand::Kind::kPrototype;
  else if (scopes_.Find(&BodyScope::call_tables, name, &index))
    kind.kind = Operand::Kind::kTable;
  else if (lexer_.ok())
    return lexer_.Fail("no prototype or target table " + Quoted(name));
  kind.value = index;
  instruction->operands.push_back(std::move(kind));
  return lexer_.ok();
}

// Comma-separated operands up to and with `close`.
bool BodyParser::Elements(char close, std::vector<Operand>* out, int depth) {
  if (depth > kMaxOperandDepth) return lexer_.Fail("operands nested too deep");
  if (lexer_.AcceptPunct(close)) return true;
  do {
    out->emplace_back();
    if (!ParseOperand(&out->back(), depth)) return false;
    if (out->size() > kMaxElements) return lexer_.Fail("too many operands");
  } while (lexer_.AcceptPunct(','));
  return lexer_.ExpectPunct(close);
}

bool BodyParser::ParseOperand(Operand* out, int depth) {
  if (lexer_.AcceptPunct('{')) {
    out->kind = Operand::Kind::kVector;
    return Elements('}', &out->elements, depth + 1);
  }
  if (lexer_.AcceptPunct('[')) return Address(out, depth + 1);
  if (lexer_.peek().kind == Token::Kind::kString) {
    lexer_.Next();
    out->kind = Operand::Kind::kString;
    return true;
  }
  if (lexer_.IsIdentifier() && lexer_.peek().text != "WARP_SZ") {
    if (!Name(out)) return false;
    bool symbol = out->Is(Operand::Kind::kSymbol);
    if (symbol && (lexer_.IsPunct('+') || lexer_.IsPunct('-')))
      out->value = static_cast<int64_t>(ParseConstant(lexer_).value);
    return lexer_.ok();
  }
  if (lexer_.IsPunct('!')) {
    // Of a register it negates a predicate; of a literal it is part of the constant.
    Lexer ahead = lexer_;
    ahead.Next();
    if (ahead.IsIdentifier() && ahead.peek().text != "WARP_SZ") {
      lexer_.Next();
      if (!Name(out)) return false;
      if (!out->Is(Operand::Kind::kRegister)) return lexer_.Fail("'!' of no predicate");
      return out->negated = true;
    }
  }
  if (!StartsConstant(lexer_)) return lexer_.Fail("expected an operand, got " + lexer_.Describe());
  Constant c = ParseConstant(lexer_);
  out->kind = c.is_float ? Operand::Kind::kFloat : Operand::Kind::kInteger;
  out->float_type = !c.is_float ? Type::kNone : c.single ? Type::kF32 : Type::kF64;
  out->value = static_cast<int64_t>(c.value);
  return lexer_.ok();
}

// "v.x" of a vector register, "%v.y" likewise.
bool BodyParser::RegisterComponent(std::string_view name, Operand* out) {
  size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 2 != name.size()) return false;
  size_t component = std::string_view("xyzw").find(name[dot + 1]);
  if (component == std::string_view::npos) component = std::string_view("rgba").find(name[dot + 1]);
  LocalSymbol symbol;
  if (component == std::string_view::npos || !scopes_.Find(name.substr(0, dot), &symbol))
    return false;
  if (symbol.reg == kNoRegister || component >= symbol.width) return false;
  out->kind = Operand::Kind::kRegister;
  out->reg = symbol.reg + static_cast<RegisterId>(component);
  return true;
}

bool BodyParser::Name(Operand* out) {
  std::string_view name = lexer_.ExpectIdentifier("an operand");
  if (!lexer_.ok()) return false;
  LocalSymbol symbol;
  if (scopes_.Find(name, &symbol)) {
    if (symbol.variable) {
      out->kind = Operand::Kind::kSymbol;
      out->variable = symbol.variable;
    } else if (symbol.width > 1) {
      out->kind = Operand::Kind::kVector;
      for (unsigned i = 0; i < symbol.width; ++i) {
        Operand element;
        element.kind = Operand::Kind::kRegister;
        element.reg = symbol.reg + i;
        out->elements.push_back(element);
      }
    } else {
      out->kind = Operand::Kind::kRegister;
      out->reg = symbol.reg;
    }
    return true;
  }
  if (name == "_") {
    out->kind = Operand::Kind::kSink;
    return true;
  }
  unsigned number = 0;
  out->special = name[0] == '%' ? FindSpecialRegister(name, &number) : SpecialRegister::kNone;
  if (out->special != SpecialRegister::kNone) {
    out->kind = Operand::Kind::kSpecialRegister;
    out->value = number;
    return true;
  }
  if (RegisterComponent(name, out)) return true;
  out->kind = Operand::Kind::kSymbol;
  out->variable = module_.FindGlobal(name);
  if (!out->variable) out->function = module_.FindFunction(name);
  if (out->variable || out->function) return true;
  return lexer_.Fail("no such name " + Quoted(name));
}

// "[%rd1+16]", "[sym+4]", "[64]", "[tex, {%f1, %f2}]".
bool BodyParser::Address(Operand* out, int depth) {
  out->kind = Operand::Kind::kAddress;
  if (lexer_.IsIdentifier() && lexer_.peek().text != "WARP_SZ") {
    if (!Name(out)) return false;
    bool based = out->Is(Operand::Kind::kRegister) || out->Is(Operand::Kind::kSymbol);
    if (!based) return lexer_.Fail("an address starts with a register or a variable");
    out->kind = Operand::Kind::kAddress;
    if (lexer_.IsPunct('+') || lexer_.IsPunct('-'))
      out->value = static_cast<int64_t>(ParseConstant(lexer_).value);
  } else {
    Constant c = ParseConstant(lexer_);
    if (lexer_.ok() && c.is_float) return lexer_.Fail("an address cannot be a float");
    out->value = static_cast<int64_t>(c.value);
  }
  if (lexer_.AcceptPunct(',')) return Elements(']', &out->elements, depth);
  return lexer_.ExpectPunct(']');
}

}  // namespace farcall::cpu_device::ptx
