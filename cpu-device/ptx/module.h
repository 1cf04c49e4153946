// SPDX-License-Identifier: Apache-2.0
// A parsed PTX module: what the JIT and the interpreter work on. Bodies are parsed on demand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpu-device/ptx/instruction.h"

namespace farcall::cpu_device::ptx {

enum class Linkage : uint8_t { kInternal, kVisible, kWeak, kCommon, kExtern };

// A symbol's address inside an initialiser.
struct Relocation {
  uint64_t offset = 0;     // bytes into Variable::init
  uint8_t size_bytes = 8;  // of the field written
  uint64_t mask =
      ~0ull;  // 0xFF00(sym): (address & mask) >> trailing zeros of mask goes in the field
  bool generic = false;  // generic(sym)
  std::string_view symbol;
  const Variable* variable = nullptr;  // one of the two is set after Parse
  const Function* function = nullptr;
  int64_t addend = 0;
};

// A variable of any space but registers: module scope, function scope, or a parameter.
struct Variable {
  std::string_view name;
  Space space = Space::kNone;
  Type type = Type::kNone;     // element type
  uint8_t vector = 1;          // .v2 .v4: elements per item
  uint32_t align = 0;          // always set: .align or the natural alignment
  std::vector<uint64_t> dims;  // empty for a scalar; 0 = unsized ([])
  uint64_t size_bytes =
      0;  // 0 for unsized arrays (extern shared) and texture references of unknown size
  Linkage linkage = Linkage::kInternal;
  bool managed = false;  // .attribute(.managed)
  bool is_array = false;
  // Initial bytes: empty = zeros; may be shorter than size_bytes, the rest is zero.
  std::vector<uint8_t> init;
  std::vector<Relocation> relocations;
  // Parameters only.
  bool is_pointer = false;  // .ptr
  Space pointer_space = Space::kNone;
  uint32_t pointer_align = 0;
  uint32_t param_offset = 0;     // within the argument block, by size and alignment, in order
  RegisterId reg = kNoRegister;  // .func parameter declared .reg: its register
  uint32_t index = 0;            // position in the list that owns it
  uint32_t line = 0;
};

struct Register {
  std::string_view name;       // of a range `%r<17>`: the prefix "%r"
  uint32_t number = kNoIndex;  // of a range: 0..16; else kNoIndex
  Type type = Type::kNone;
};

struct SourceLocation {
  uint32_t file = 0, line = 0, column = 0;  // file: key of Module::files
};

// Signature of an indirect call.
struct Prototype {
  std::string_view name;
  std::vector<std::unique_ptr<Variable>> returns, params;
  bool noreturn = false;
};

struct LabelTable {
  std::string_view name;
  std::vector<uint32_t> targets;  // instruction indices
};
struct CallTable {
  std::string_view name;
  std::vector<const Function*> targets;
};
struct Label {
  std::string_view name;
  uint32_t instruction = 0;  // index into body; == body.size() for a label at the end
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  bool has_body = false;  // false: a prototype (.extern .func, forward declaration never completed)
  Linkage linkage = Linkage::kInternal;
  std::vector<std::unique_ptr<Variable>> params, returns;
  uint32_t param_bytes = 0;  // argument block of an entry: end of the last parameter
  // Directives; 0 = absent.
  uint32_t maxntid[3] = {0, 0, 0};
  uint32_t reqntid[3] = {0, 0, 0};
  uint32_t minnctapersm = 0, maxnctapersm = 0, maxnreg = 0;
  uint32_t reqnctapercluster[3] = {0, 0, 0};
  uint32_t maxclusterrank = 0;
  bool explicit_cluster = false, noreturn = false;
  std::vector<std::string_view> pragmas;
  uint32_t index = 0;   // in Module::functions
  unsigned target = 0;  // what .target said last before it: units that were linked have their own
  uint32_t line = 0;

  // ---- Filled by Module::EnsureBody ----
  bool body_parsed = false;
  std::vector<Register> registers;  // by RegisterId
  std::vector<std::unique_ptr<Variable>>
      locals;  // .local .shared .param (call slots) .const .global of every nested scope
  std::vector<Instruction> body;  // scopes flattened
  std::vector<Label> labels;      // sorted by instruction
  std::vector<LabelTable> branch_targets;
  std::vector<CallTable> call_targets;
  std::vector<std::unique_ptr<Prototype>> prototypes;
  std::vector<SourceLocation> locations;  // .loc entries used by the body

  // Text of the body between its braces, for the lazy parse and for hashing (disk cache key).
  std::string_view body_text;
  uint32_t body_line = 0;  // of body_text's first character
};

struct ParseResult {
  std::string message;  // "line 12: expected ';', got '}'"; empty = success
  bool ok() const { return message.empty(); }
};

struct Module {
  Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;

  std::unique_ptr<std::string> text;  // own copy; every string_view of the module points into it
  unsigned version_major = 0, version_minor = 0;
  unsigned target = 0;           // the first: 75 for sm_75, sm_90a
  std::string_view target_name;  // "sm_90a"
  bool target_texmode_independent = false;
  bool debug = false;  // .target ..., debug
  unsigned address_size = 64;
  std::vector<std::unique_ptr<Variable>>
      globals;  // .global .const .shared .tex at module scope, in order
  std::vector<std::unique_ptr<Function>>
      functions;  // entries, .func, prototypes, in order of first sight
  std::unordered_map<uint32_t, std::string_view> files;
  std::unordered_map<std::string_view, std::string_view> aliases;  // .alias name, aliasee

  const Variable* FindGlobal(std::string_view name) const;
  // Follows aliases. Const: lookups never parse.
  const Function* FindFunction(std::string_view name) const;
  Function* FindFunction(std::string_view name);

  // Parses `function`'s body if that has not been done. Touches only `function` and reads the rest
  // of the module, so different functions may be parsed at once; the same one needs the caller's
  // lock.
  ParseResult EnsureBody(Function& function) const;
  // Gives the body's memory back; EnsureBody parses it anew.
  void DropBody(Function& function) const;
  // EnsureBody of every function; stops at the first error.
  ParseResult EnsureAll();

  std::unordered_map<std::string_view, Variable*> global_by_name;
  std::unordered_map<std::string_view, Function*> function_by_name;
};

// Parses declarations and finds the bodies' extents; bodies are parsed by Module::EnsureBody.
//   text    need not be NUL-terminated; a trailing NUL ends it
//   Errors  "line N: ..."; *out is then unspecified
//   Thread  any
ParseResult Parse(std::string_view text, Module* out);

}  // namespace farcall::cpu_device::ptx
