// SPDX-License-Identifier: Apache-2.0
// Module scope of PTX: directives, variables, function headers. Bodies are only delimited here.
#include <charconv>
#include <string>

#include "cpu-device/ptx/declarations.h"
#include "cpu-device/ptx/lexer.h"
#include "cpu-device/ptx/module.h"
#include "cpu-device/ptx/names.h"

namespace farcall::cpu_device::ptx {
namespace {

std::string Quoted(std::string_view name) {
  std::string quoted = "'";
  quoted += name.substr(0, 80);
  return quoted += '\'';
}

class ModuleParser {
 public:
  explicit ModuleParser(Module* module) : module_(*module), lexer_(*module->text, 1) {}

  ParseResult Run() {
    if (!lexer_.IsDirective(".version")) lexer_.Fail("expected .version, got " + lexer_.Describe());
    while (lexer_.ok() && !lexer_.AtEnd()) {
      if (lexer_.AcceptPunct(';')) continue;
      if (!Statement()) break;
    }
    if (lexer_.ok() && module_.target == 0) lexer_.Fail("module without .target");
    if (lexer_.ok()) Resolve();
    return {lexer_.error()};
  }

 private:
  bool Statement() {
    Linkage linkage = Linkage::kInternal;
    bool linked = ParseLinkage(&linkage);
    Token token = lexer_.Next();
    if (token.kind != Token::Kind::kDirective)
      return lexer_.FailAt(token.line, "expected a directive, got " + Quoted(token.text));
    std::string_view word = token.text.substr(1);
    if (word == "entry" || word == "func")
      return ParseFunction(word == "entry", linkage, token.line);
    Space space = FindSpace(word);
    if (space != Space::kNone && space != Space::kReg) return ParseGlobal(space, linkage);
    if (linked) return lexer_.FailAt(token.line, "linkage before " + Quoted(token.text));
    if (word == "version") return Version();
    if (word == "target") return Target();
    if (word == "address_size") return AddressSize();
    if (word == "file") return File();
    if (word == "section") return Section();
    if (word == "alias") return Alias();
    if (word == "pragma") return Pragma(nullptr);
    if (word == "loc") return ModuleLocation();
    return lexer_.FailAt(token.line, "unknown directive " + Quoted(token.text));
  }

  bool ParseLinkage(Linkage* out) {
    if (lexer_.AcceptDirective(".visible")) return *out = Linkage::kVisible, true;
    if (lexer_.AcceptDirective(".extern")) return *out = Linkage::kExtern, true;
    if (lexer_.AcceptDirective(".weak")) return *out = Linkage::kWeak, true;
    if (lexer_.AcceptDirective(".common")) return *out = Linkage::kCommon, true;
    return false;
  }

  // "9.0" arrives as one token, a float.
  bool Version() {
    Token token = lexer_.Next();
    std::string_view text = token.text;
    size_t dot = text.find('.');
    const char *begin = text.data(), *end = text.data() + text.size();
    bool good = token.kind == Token::Kind::kFloat && dot != std::string_view::npos;
    good = good && std::from_chars(begin, begin + dot, module_.version_major).ptr == begin + dot;
    good = good && std::from_chars(begin + dot + 1, end, module_.version_minor).ptr == end;
    return good || lexer_.FailAt(token.line, "malformed .version " + Quoted(text));
  }

  bool Target() {
    do {
      std::string_view word = lexer_.ExpectIdentifier("a target");
      if (word.starts_with("sm_") || word.starts_with("compute_")) {
        std::string_view digits = word.substr(word.find('_') + 1);
        auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), target_);
        if (module_.target == 0) {
          module_.target_name = word;
          module_.target = target_;
        }
        if (parsed.ec != std::errc()) return lexer_.Fail("malformed target " + Quoted(word));
      } else if (word == "debug") {
        module_.debug = true;
      } else if (word == "texmode_independent") {
        module_.target_texmode_independent = true;
      } else if (lexer_.ok() && word != "texmode_unified" && word != "map_f64_to_f32") {
        return lexer_.Fail("unknown target " + Quoted(word));
      }
    } while (lexer_.AcceptPunct(','));
    return lexer_.ok();
  }

  bool AddressSize() {
    uint64_t bits = lexer_.ExpectInteger("an address size");
    if (lexer_.ok() && bits != 32 && bits != 64)
      return lexer_.Fail("address size " + std::to_string(bits) + ", expected 32 or 64");
    module_.address_size = static_cast<unsigned>(bits);
    return lexer_.ok();
  }

  // ".file 1 "name", timestamp, size"
  bool File() {
    uint64_t index = lexer_.ExpectInteger("a file number");
    if (lexer_.peek().kind != Token::Kind::kString)
      return lexer_.Fail("expected a file name, got " + lexer_.Describe());
    module_.files[static_cast<uint32_t>(index)] = lexer_.Next().text;
    while (lexer_.AcceptPunct(',')) lexer_.ExpectInteger("a number");
    return lexer_.ok();
  }

  // DWARF: of no use to an executor.
  bool Section() {
    while (!lexer_.AtEnd() && !lexer_.IsPunct('{')) lexer_.Next();
    uint32_t line = 0;
    if (lexer_.AtEnd()) return lexer_.Fail("section without body");
    lexer_.SkipBraces(&line);
    return lexer_.ok();
  }

  bool Alias() {
    std::string_view name = lexer_.ExpectIdentifier("an alias");
    if (!lexer_.ExpectPunct(',')) return false;
    module_.aliases[name] = lexer_.ExpectIdentifier("a function name");
    return lexer_.ExpectPunct(';');
  }

  bool Pragma(std::vector<std::string_view>* out) {
    do {
      if (lexer_.peek().kind != Token::Kind::kString)
        return lexer_.Fail("expected a string, got " + lexer_.Describe());
      std::string_view text = lexer_.Next().text;
      if (out) out->push_back(text);
    } while (lexer_.AcceptPunct(','));
    return lexer_.ExpectPunct(';');
  }

  bool ModuleLocation() {
    for (int i = 0; i < 3; ++i) lexer_.ExpectInteger("a position");
    return lexer_.ok();
  }

  bool ParseGlobal(Space space, Linkage linkage) {
    do {
      auto variable = std::make_unique<Variable>();
      variable->space = space;
      variable->linkage = linkage;
      if (!ParseVariable(lexer_, variable.get())) return false;
      if (!ParseInitializer(lexer_, variable.get())) return false;
      if (!AddGlobal(std::move(variable))) return false;
    } while (lexer_.AcceptPunct(','));
    return lexer_.ExpectPunct(';');
  }

  // A declaration may precede or follow its definition; the first object stays, so that addresses
  // of it stay good.
  bool AddGlobal(std::unique_ptr<Variable> variable) {
    auto [it, fresh] = module_.global_by_name.emplace(variable->name, variable.get());
    if (fresh) {
      variable->index = static_cast<uint32_t>(module_.globals.size());
      module_.globals.push_back(std::move(variable));
      return true;
    }
    Variable& first = *it->second;
    if (first.space != variable->space)
      return lexer_.Fail(Quoted(variable->name) + " is declared in two state spaces");
    if (variable->linkage == Linkage::kExtern) {
      first.align = std::max(first.align, variable->align);
      return true;
    }
    // Of a weak one, any unit's will do; one that is not weak goes before it.
    if (variable->linkage == Linkage::kWeak && first.linkage != Linkage::kExtern) return true;
    if (first.linkage != Linkage::kExtern && first.linkage != Linkage::kCommon &&
        first.linkage != Linkage::kWeak)
      return lexer_.Fail("variable " + Quoted(variable->name) + " is defined twice");
    variable->index = first.index;
    first = std::move(*variable);
    it->second = &first;
    return true;
  }

  bool ParseFunction(bool is_entry, Linkage linkage, uint32_t line) {
    auto function = std::make_unique<Function>();
    function->is_entry = is_entry;
    function->linkage = linkage;
    function->line = line;
    if (!FunctionDirectives(function.get())) return false;
    if (!is_entry && lexer_.IsPunct('(') && !ParseParameters(lexer_, &function->returns))
      return false;
    if (!FunctionDirectives(function.get())) return false;
    function->name = lexer_.ExpectIdentifier("a function name");
    if (!lexer_.ok()) return false;
    if (lexer_.IsPunct('(') && !ParseParameters(lexer_, &function->params)) return false;
    function->param_bytes = ParameterBytes(function->params);
    if (!FunctionDirectives(function.get())) return false;
    if (lexer_.IsPunct('{')) {
      function->has_body = true;
      function->target = target_;
      function->body_text = lexer_.SkipBraces(&function->body_line);
      if (!lexer_.ok()) return false;
    } else if (!lexer_.ExpectPunct(';')) {
      return false;
    }
    return AddFunction(std::move(function));
  }

  bool Number(uint32_t* out) {
    uint64_t value = lexer_.ExpectInteger("a number");
    if (lexer_.ok() && value > 0x7fffffff)
      return lexer_.Fail("number " + std::to_string(value) + " is out of range");
    *out = static_cast<uint32_t>(value);
    return lexer_.ok();
  }

  bool FunctionDirectives(Function* function) {
    while (lexer_.peek().kind == Token::Kind::kDirective) {
      Token token = lexer_.Next();
      std::string_view word = token.text.substr(1);
      uint32_t ignored = 0;
      bool good = true;
      if (word == "maxntid")
        good = ParseExtent(lexer_, function->maxntid);
      else if (word == "reqntid")
        good = ParseExtent(lexer_, function->reqntid);
      else if (word == "reqnctapercluster")
        good = ParseExtent(lexer_, function->reqnctapercluster);
      else if (word == "minnctapersm")
        good = Number(&function->minnctapersm);
      else if (word == "maxnctapersm")
        good = Number(&function->maxnctapersm);
      else if (word == "maxnreg")
        good = Number(&function->maxnreg);
      else if (word == "maxclusterrank")
        good = Number(&function->maxclusterrank);
      else if (word == "explicitcluster")
        function->explicit_cluster = true;
      else if (word == "noreturn")
        function->noreturn = true;
      else if (word == "pragma")
        good = Pragma(&function->pragmas);
      else if (word == "abi_preserve" || word == "abi_preserve_control")
        good = Number(&ignored);
      else if (word == "attribute")
        good = SkipAttribute();
      else if (word != "blocksareclusters")
        return lexer_.FailAt(token.line, "unknown function directive " + Quoted(token.text));
      if (!good) return false;
    }
    return lexer_.ok();
  }

  bool SkipAttribute() {
    if (!lexer_.ExpectPunct('(')) return false;
    int depth = 1;
    while (depth > 0 && !lexer_.AtEnd()) {
      if (lexer_.IsPunct('(')) ++depth;
      if (lexer_.IsPunct(')')) --depth;
      lexer_.Next();
    }
    return depth == 0 || lexer_.Fail("attribute without ')'");
  }

  bool AddFunction(std::unique_ptr<Function> function) {
    auto [it, fresh] = module_.function_by_name.emplace(function->name, function.get());
    if (fresh) {
      function->index = static_cast<uint32_t>(module_.functions.size());
      module_.functions.push_back(std::move(function));
      return true;
    }
    Function& first = *it->second;
    if (!function->has_body) return true;
    if (first.has_body && function->linkage == Linkage::kWeak) return true;
    if (first.has_body && first.linkage != Linkage::kWeak) {
      return lexer_.FailAt(function->line,
                           "function " + Quoted(function->name) + " is defined twice");
    }
    function->index = first.index;
    first = std::move(*function);
    return true;
  }

  // Initialisers may name what is declared later.
  void Resolve() {
    for (auto& variable : module_.globals) {
      for (Relocation& reloc : variable->relocations) {
        reloc.variable = module_.FindGlobal(reloc.symbol);
        if (!reloc.variable)
          reloc.function = static_cast<const Module&>(module_).FindFunction(reloc.symbol);
        if (reloc.variable || reloc.function) continue;
        lexer_.FailAt(variable->line,
                      "no such name " + Quoted(reloc.symbol) + " in an initialiser");
        return;
      }
    }
  }

  Module& module_;
  Lexer lexer_;
  unsigned target_ = 0;
};

}  // namespace

ParseResult Parse(std::string_view text, Module* out) {
  *out = Module();
  out->text = std::make_unique<std::string>(text.substr(0, text.find('\0')));
  return ModuleParser(out).Run();
}

}  // namespace farcall::cpu_device::ptx
