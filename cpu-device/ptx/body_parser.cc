// SPDX-License-Identifier: Apache-2.0
// Statements of a function body: declarations, labels, scopes, directives.
#include "cpu-device/ptx/body_parser.h"

#include <algorithm>
#include <string>

#include "cpu-device/ptx/declarations.h"
#include "cpu-device/ptx/names.h"

namespace farcall::cpu_device::ptx {
namespace {

constexpr uint64_t kMaxRegisters = 1u << 22;  // per function; guards memory against %r<4000000000>
constexpr size_t kMaxScopes = 256;

std::string Quoted(std::string_view name) {
  std::string quoted = "'";
  quoted += name.substr(0, 80);
  return quoted += '\'';
}

}  // namespace

ParseResult BodyParser::Run() {
  DeclareParameters();
  while (lexer_.ok() && !(lexer_.AtEnd() && scopes_.depth() == 1)) {
    if (lexer_.AtEnd()) lexer_.Fail("'{' without '}'");
    if (!Statement()) break;
  }
  if (lexer_.ok()) CloseScope();
  std::stable_sort(function_.labels.begin(), function_.labels.end(),
                   [](const Label& a, const Label& b) { return a.instruction < b.instruction; });
  return {lexer_.error()};
}

void BodyParser::DeclareParameters() {
  for (auto* list : {&function_.returns, &function_.params}) {
    for (auto& param : *list) {
      LocalSymbol symbol;
      if (param->space == Space::kReg) {
        param->reg = AddRegisters(param->name, param->type, 1, 1, false);
        symbol.reg = param->reg;
      } else {
        symbol.variable = param.get();
      }
      if (param->name != "_") Declare(param->name, symbol);
    }
  }
}

bool BodyParser::Statement() {
  if (lexer_.AcceptPunct(';')) return true;
  if (lexer_.AcceptPunct('{')) {
    if (scopes_.depth() >= kMaxScopes) return lexer_.Fail("scopes nested too deep");
    scopes_.Push();
    return true;
  }
  if (lexer_.IsPunct('}')) {
    if (scopes_.depth() == 1) return lexer_.Fail("'}' without '{'");
    lexer_.Next();
    return CloseScope();
  }
  if (lexer_.peek().kind == Token::Kind::kDirective) return Directive();
  return ParseInstruction();
}

bool BodyParser::Directive() {
  Linkage linkage = Linkage::kInternal;
  if (lexer_.AcceptDirective(".extern")) linkage = Linkage::kExtern;
  Token token = lexer_.Next();
  std::string_view word = token.text.substr(1);
  if (word == "reg") return DeclareRegisters();
  if (word == "loc") return Location();
  if (word == "pragma") return Pragma();
  if (word == "file") {
    lexer_.ExpectInteger("a file number");
    if (lexer_.peek().kind == Token::Kind::kString) lexer_.Next();
    return lexer_.ok();
  }
  Space space = FindSpace(word);
  if (space != Space::kNone) return DeclareVariable(space, linkage);
  if (word == "callprototype") return CallPrototype({});
  return lexer_.FailAt(token.line, "unexpected " + Quoted(token.text) + " in a function body");
}

bool BodyParser::Declare(std::string_view name, const LocalSymbol& symbol) {
  if (scopes_.top().symbols.emplace(name, symbol).second) return true;
  return lexer_.Fail(Quoted(name) + " is declared twice");
}

RegisterId BodyParser::AddRegisters(std::string_view name, Type type, uint32_t count, uint8_t width,
                                    bool numbered) {
  RegisterId first = static_cast<RegisterId>(function_.registers.size());
  if (function_.registers.size() + uint64_t{count} * width > kMaxRegisters) {
    lexer_.Fail("more than " + std::to_string(kMaxRegisters) + " registers");
    return first;
  }
  for (uint32_t i = 0; i < count; ++i)
    for (unsigned w = 0; w < width; ++w)
      function_.registers.push_back({name, numbered ? i : kNoIndex, type});
  return first;
}

// After ".reg": ".b32 %r<17>, a;"
bool BodyParser::DeclareRegisters() {
  Variable decl;  // its specifiers are those of any variable
  do {
    Variable next;
    next.type = decl.type;
    next.vector = decl.vector;
    if (!ParseVariable(lexer_, &next)) return false;
    decl = next;
    if (lexer_.AcceptPunct('<')) {
      uint64_t count = lexer_.ExpectInteger("a register count");
      if (!lexer_.ExpectPunct('>')) return false;
      if (count > kMaxRegisters) {
        return lexer_.Fail(std::to_string(count) + " registers asked, at most " +
                           std::to_string(kMaxRegisters));
      }
      RegisterRange range;
      range.count = static_cast<uint32_t>(count);
      range.width = next.vector;
      range.first = AddRegisters(next.name, next.type, range.count, range.width, true);
      if (!scopes_.top().ranges.emplace(next.name, range).second)
        return lexer_.Fail("range " + Quoted(next.name) + " is declared twice");
    } else {
      LocalSymbol symbol;
      symbol.width = next.vector;
      symbol.reg = AddRegisters(next.name, next.type, 1, next.vector, false);
      if (!Declare(next.name, symbol)) return false;
    }
  } while (lexer_.AcceptPunct(','));
  return lexer_.ExpectPunct(';');
}

bool BodyParser::DeclareVariable(Space space, Linkage linkage) {
  auto variable = std::make_unique<Variable>();
  variable->space = space;
  variable->linkage = linkage;
  if (!ParseVariable(lexer_, variable.get()) || !ParseInitializer(lexer_, variable.get()))
    return false;
  if (!variable->relocations.empty())
    return lexer_.Fail("an initialiser inside a function cannot hold addresses");
  variable->index = static_cast<uint32_t>(function_.locals.size());
  LocalSymbol symbol;
  symbol.variable = variable.get();
  function_.locals.push_back(std::move(variable));
  return Declare(symbol.variable->name, symbol) && lexer_.ExpectPunct(';');
}

// ".loc file line column" with ", function_name label [+ n], inlined_at file line column" after it.
bool BodyParser::Location() {
  SourceLocation location;
  location.file = static_cast<uint32_t>(lexer_.ExpectInteger("a file number"));
  location.line = static_cast<uint32_t>(lexer_.ExpectInteger("a line number"));
  if (lexer_.peek().kind == Token::Kind::kInteger)
    location.column = static_cast<uint32_t>(lexer_.Next().value);
  while (lexer_.AcceptPunct(',')) {
    std::string_view word = lexer_.ExpectIdentifier("function_name or inlined_at");
    if (word == "function_name") {
      lexer_.ExpectIdentifier("a label");
      if (lexer_.AcceptPunct('+')) lexer_.ExpectInteger("an offset");
    } else if (word == "inlined_at") {
      for (int i = 0; i < 3; ++i) lexer_.ExpectInteger("a position");
    } else if (lexer_.ok()) {
      return lexer_.Fail("unexpected " + Quoted(word) + " in .loc");
    }
  }
  location_ = static_cast<uint32_t>(function_.locations.size());
  function_.locations.push_back(location);
  return lexer_.ok();
}

bool BodyParser::Pragma() {
  do {
    if (lexer_.peek().kind != Token::Kind::kString)
      return lexer_.Fail("expected a string, got " + lexer_.Describe());
    lexer_.Next();
  } while (lexer_.AcceptPunct(','));
  return lexer_.ExpectPunct(';');
}

// After "name:". A table or a prototype may follow instead of an instruction.
bool BodyParser::DefineLabel(std::string_view name) {
  if (lexer_.AcceptDirective(".branchtargets")) return BranchTargets(name);
  if (lexer_.AcceptDirective(".calltargets")) return CallTargets(name);
  if (lexer_.AcceptDirective(".callprototype")) return CallPrototype(name);
  uint32_t at = static_cast<uint32_t>(function_.body.size());
  if (!scopes_.top().labels.emplace(name, at).second)
    return lexer_.Fail("label " + Quoted(name) + " is defined twice");
  function_.labels.push_back({name, at});
  return true;
}

bool BodyParser::BranchTargets(std::string_view name) {
  uint32_t table = static_cast<uint32_t>(function_.branch_targets.size());
  function_.branch_targets.push_back({name, {}});
  do {
    LabelFixup fixup;
    fixup.line = lexer_.peek().line;
    fixup.name = lexer_.ExpectIdentifier("a label");
    fixup.table = table;
    fixup.operand = static_cast<uint32_t>(function_.branch_targets[table].targets.size());
    function_.branch_targets[table].targets.push_back(0);
    scopes_.top().fixups.push_back(fixup);
  } while (lexer_.AcceptPunct(','));
  if (!scopes_.top().tables.emplace(name, table).second)
    return lexer_.Fail("label " + Quoted(name) + " is defined twice");
  return lexer_.ExpectPunct(';');
}

bool BodyParser::CallTargets(std::string_view name) {
  CallTable table{name, {}};
  do {
    std::string_view target = lexer_.ExpectIdentifier("a function name");
    const Function* function = module_.FindFunction(target);
    if (lexer_.ok() && !function) return lexer_.Fail("no function " + Quoted(target));
    table.targets.push_back(function);
  } while (lexer_.AcceptPunct(','));
  scopes_.top().call_tables.emplace(name, static_cast<uint32_t>(function_.call_targets.size()));
  function_.call_targets.push_back(std::move(table));
  return lexer_.ExpectPunct(';');
}

// "(.param .b32 _) _ (.param .b64 _) .noreturn;"
bool BodyParser::CallPrototype(std::string_view name) {
  auto prototype = std::make_unique<Prototype>();
  prototype->name = name;
  if (lexer_.IsPunct('(') && !ParseParameters(lexer_, &prototype->returns)) return false;
  lexer_.ExpectIdentifier("'_'");
  if (lexer_.IsPunct('(') && !ParseParameters(lexer_, &prototype->params)) return false;
  while (lexer_.peek().kind == Token::Kind::kDirective) {
    std::string_view word = lexer_.Next().text;
    if (word == ".noreturn")
      prototype->noreturn = true;
    else if (word == ".abi_preserve" || word == ".abi_preserve_control")
      lexer_.ExpectInteger("a register count");
    else
      return lexer_.Fail("unexpected " + Quoted(word) + " in a prototype");
  }
  scopes_.top().prototypes.emplace(name, static_cast<uint32_t>(function_.prototypes.size()));
  function_.prototypes.push_back(std::move(prototype));
  return lexer_.ExpectPunct(';');
}

// Binds what the scope's labels answer; the rest is the outer scope's, or an error at the
// outermost.
bool BodyParser::CloseScope() {
  BodyScope scope = scopes_.Pop();
  for (LabelFixup& fixup : scope.fixups) {
    auto label = scope.labels.find(fixup.name);
    auto table = scope.tables.find(fixup.name);
    if (label != scope.labels.end() && fixup.table != kNoIndex) {
      function_.branch_targets[fixup.table].targets[fixup.operand] = label->second;
    } else if (label != scope.labels.end()) {
      function_.body[fixup.instruction].operands[fixup.operand].value = label->second;
    } else if (table != scope.tables.end() && fixup.table == kNoIndex) {
      Operand& operand = function_.body[fixup.instruction].operands[fixup.operand];
      operand.kind = Operand::Kind::kTable;
      operand.value = table->second;
    } else if (scopes_.depth() > 0) {
      scopes_.top().fixups.push_back(fixup);
    } else {
      return lexer_.FailAt(fixup.line, "no label " + Quoted(fixup.name));
    }
  }
  return true;
}

}  // namespace farcall::cpu_device::ptx
