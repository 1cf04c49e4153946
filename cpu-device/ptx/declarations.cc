// SPDX-License-Identifier: Apache-2.0
// Declarations that module scope, function scope and parameter lists share.
#include "cpu-device/ptx/declarations.h"

#include <bit>
#include <string>

#include "cpu-device/ptx/constant.h"
#include "cpu-device/ptx/names.h"

namespace farcall::cpu_device::ptx {
namespace {

constexpr int kMaxInitializerDepth = 16;
constexpr uint32_t kMaxAlign = 1u << 20;
constexpr uint64_t kMaxParameterBytes = 1u << 20;
constexpr uint64_t kMaxInitializerBytes = 1u << 30;

bool ParseAlign(Lexer& lexer, uint32_t* out) {
  uint64_t align = lexer.ExpectInteger("an alignment");
  if (!lexer.ok()) return false;
  if (!std::has_single_bit(align) || align > kMaxAlign)
    return lexer.Fail("alignment " + std::to_string(align) + " is no power of two up to 1048576");
  *out = static_cast<uint32_t>(align);
  return true;
}

// .attribute(.managed), .attribute(.unified(1, 2))
bool ParseAttribute(Lexer& lexer, Variable* variable) {
  if (!lexer.ExpectPunct('(')) return false;
  int depth = 1;
  while (depth > 0 && !lexer.AtEnd()) {
    if (lexer.IsDirective(".managed")) variable->managed = true;
    if (lexer.IsPunct('(')) ++depth;
    if (lexer.IsPunct(')')) --depth;
    lexer.Next();
  }
  return depth == 0 || lexer.Fail("attribute without ')'");
}

// One directive before the name. False if it belongs to no declaration.
bool ParseSpecifier(Lexer& lexer, Variable* variable) {
  Token token = lexer.Next();
  std::string_view word = token.text.substr(1);
  if (word == "align")
    return ParseAlign(lexer, variable->is_pointer ? &variable->pointer_align : &variable->align);
  if (word == "attribute") return ParseAttribute(lexer, variable);
  if (word == "ptr") return variable->is_pointer = true;
  if (word == "v2" || word == "v4" || word == "v8") {
    variable->vector = static_cast<uint8_t>(word[1] - '0');
    return true;
  }
  Type type = FindType(word);
  if (type != Type::kNone) {
    variable->type = type;
    return true;
  }
  Space space = FindSpace(word);
  if (variable->is_pointer && space != Space::kNone) {
    variable->pointer_space = space;
    return true;
  }
  return lexer.FailAt(token.line, "unexpected '" + std::string(token.text) + "' in a declaration");
}

bool ParseDimensions(Lexer& lexer, Variable* variable) {
  while (lexer.AcceptPunct('[')) {
    variable->is_array = true;
    uint64_t count = 0;
    if (!lexer.IsPunct(']')) {
      Constant c = ParseConstant(lexer);
      if (lexer.ok() && c.is_float) return lexer.Fail("array size is a float");
      count = c.value;
    }
    if (!lexer.ExpectPunct(']')) return false;
    if (count > kMaxVariableBytes || variable->dims.size() >= 16)
      return lexer.Fail("array of " + std::to_string(count) + " elements is too large");
    variable->dims.push_back(count);
  }
  return true;
}

uint64_t ElementBytes(const Variable& variable) {
  return uint64_t{BytesOf(variable.type)} * variable.vector;
}

bool SetSize(Lexer& lexer, Variable* variable) {
  uint64_t size = ElementBytes(*variable);
  for (uint64_t dim : variable->dims) {
    if (dim != 0 && size > kMaxVariableBytes / dim)
      return lexer.Fail("variable '" + std::string(variable->name) + "' is larger than 1 TiB");
    size *= dim;
  }
  variable->size_bytes = size;
  return true;
}

class InitializerParser {
 public:
  InitializerParser(Lexer& lexer, Variable* variable) : lexer_(lexer), variable_(variable) {}

  bool Run() {
    if (!lexer_.IsPunct('{')) return Element();
    return List(0, 0);
  }

 private:
  // Elements below dimension `level`, one entry of which spans this many scalars.
  uint64_t Span(size_t level) const {
    uint64_t span = variable_->vector;
    for (size_t i = level + 1; i < variable_->dims.size(); ++i) span *= variable_->dims[i];
    return span;
  }

  bool List(size_t level, int depth) {
    if (depth > kMaxInitializerDepth) return lexer_.Fail("initialiser nested too deep");
    if (!lexer_.ExpectPunct('{')) return false;
    const uint64_t start = count_, span = Span(level);
    uint64_t entries = 0;
    while (!lexer_.IsPunct('}')) {
      if (lexer_.IsPunct('{')) {
        if (!List(level + 1, depth + 1)) return false;
        ++entries;
        if (!SkipTo(start + entries * span)) return false;
      } else if (!Element()) {
        return false;
      }
      if (!lexer_.AcceptPunct(',')) break;
    }
    return lexer_.ExpectPunct('}');
  }

  // A short sub-list leaves the rest of its row zero.
  bool SkipTo(uint64_t count) {
    if (count < count_) return lexer_.Fail("initialiser has more values than its row holds");
    if (count == count_) return true;
    count_ = count;
    return Reserve(0);
  }

  bool Reserve(uint64_t more) {
    const uint64_t width = BytesOf(variable_->type);
    const uint64_t end = (count_ + more) * width;
    const bool sized = variable_->size_bytes != 0;
    if (count_ > kMaxVariableBytes || (sized && end > variable_->size_bytes)) {
      return lexer_.Fail("initialiser of '" + std::string(variable_->name) + "' exceeds its " +
                         std::to_string(variable_->size_bytes) + " bytes");
    }
    if (end > kMaxInitializerBytes) return lexer_.Fail("initialiser is larger than 1 GiB");
    if (more > 0) variable_->init.resize(end);
    return true;
  }

  bool Element() {
    if (!Reserve(1)) return false;
    if (lexer_.IsIdentifier() && lexer_.peek().text != "WARP_SZ") return Symbol(~0ull);
    Constant c = ParseConstant(lexer_);
    if (!lexer_.ok()) return false;
    if (lexer_.IsPunct('(')) return MaskedSymbol(c.value);
    Put(Encode(c));
    return true;
  }

  // 0xFF00(symbol): one byte of an address.
  bool MaskedSymbol(uint64_t mask) {
    lexer_.Next();
    if (mask == 0) return lexer_.Fail("mask of a symbol is zero");
    return Symbol(mask) && lexer_.ExpectPunct(')');
  }

  bool Symbol(uint64_t mask) {
    Relocation reloc;
    reloc.mask = mask;
    reloc.offset = count_ * BytesOf(variable_->type);
    reloc.size_bytes = static_cast<uint8_t>(BytesOf(variable_->type));
    reloc.symbol = lexer_.ExpectIdentifier("a symbol");
    if (reloc.symbol == "generic" && lexer_.AcceptPunct('(')) {
      reloc.generic = true;
      reloc.symbol = lexer_.ExpectIdentifier("a symbol");
      if (!Addend(&reloc) || !lexer_.ExpectPunct(')')) return false;
    }
    if (!Addend(&reloc)) return false;
    if (reloc.size_bytes > 8) return lexer_.Fail("address in an element wider than 8 bytes");
    variable_->relocations.push_back(reloc);
    ++count_;
    return lexer_.ok();
  }

  bool Addend(Relocation* reloc) {
    if (!lexer_.IsPunct('+') && !lexer_.IsPunct('-')) return lexer_.ok();
    reloc->addend += static_cast<int64_t>(ParseConstant(lexer_).value);
    return lexer_.ok();
  }

  // Bits of `c` as the element's type: 1.5 in an .f32 array is the single 0x3FC00000.
  uint64_t Encode(const Constant& c) const {
    if (variable_->type == Type::kF32) {
      if (c.is_float && c.single) return c.value;
      if (c.is_float)
        return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(c.value)));
      return std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(c.value)));
    }
    if (variable_->type == Type::kF64) {
      if (c.is_float && c.single) {
        float single = std::bit_cast<float>(static_cast<uint32_t>(c.value));
        return std::bit_cast<uint64_t>(static_cast<double>(single));
      }
      if (c.is_float) return c.value;
      return std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(c.value)));
    }
    return c.value;
  }

  void Put(uint64_t bits) {
    const uint64_t width = BytesOf(variable_->type), at = count_ * width;
    for (uint64_t i = 0; i < width && i < 8; ++i)
      variable_->init[at + i] = static_cast<uint8_t>(bits >> (8 * i));
    ++count_;
  }

  Lexer& lexer_;
  Variable* variable_;
  uint64_t count_ = 0;  // scalars placed
};

bool IsReference(Type type) {
  return type == Type::kTexref || type == Type::kSamplerref || type == Type::kSurfref;
}

}  // namespace

bool ParseVariable(Lexer& lexer, Variable* variable) {
  while (lexer.peek().kind == Token::Kind::kDirective)
    if (!ParseSpecifier(lexer, variable)) return false;
  variable->line = lexer.peek().line;
  variable->name = lexer.ExpectIdentifier("a variable name");
  if (!lexer.ok()) return false;
  if (variable->type == Type::kNone)
    return lexer.Fail("variable '" + std::string(variable->name) + "' has no type");
  if (!ParseDimensions(lexer, variable) || !SetSize(lexer, variable)) return false;
  if (variable->align == 0) {
    uint64_t natural = ElementBytes(*variable);
    variable->align = natural == 0 ? 1 : static_cast<uint32_t>(std::bit_ceil(natural));
  }
  return true;
}

bool ParseInitializer(Lexer& lexer, Variable* variable) {
  if (!lexer.AcceptPunct('=')) return lexer.ok();
  if (IsReference(variable->type)) {
    uint32_t line = 0;
    if (!lexer.IsPunct('{')) return lexer.Fail("expected '{', got " + lexer.Describe());
    lexer.SkipBraces(&line);  // sampler state: kept by whoever binds textures
    return lexer.ok();
  }
  if (!InitializerParser(lexer, variable).Run()) return false;
  if (variable->is_array && variable->dims[0] == 0) {
    uint64_t row = ElementBytes(*variable);
    for (size_t i = 1; i < variable->dims.size(); ++i) row *= variable->dims[i];
    if (row == 0) return lexer.Fail("only the first dimension may be left open");
    variable->dims[0] = (variable->init.size() + row - 1) / row;
    variable->size_bytes = variable->dims[0] * row;
  }
  return true;
}

bool ParseParameters(Lexer& lexer, std::vector<std::unique_ptr<Variable>>* out) {
  if (!lexer.ExpectPunct('(')) return false;
  uint64_t end = 0;
  while (!lexer.IsPunct(')')) {
    auto param = std::make_unique<Variable>();
    if (lexer.AcceptDirective(".param"))
      param->space = Space::kParam;
    else if (lexer.AcceptDirective(".reg"))
      param->space = Space::kReg;
    else
      return lexer.Fail("expected .param or .reg, got " + lexer.Describe());
    if (!ParseVariable(lexer, param.get())) return false;
    end = (end + param->align - 1) / param->align * param->align;
    if (end + param->size_bytes > kMaxParameterBytes)
      return lexer.Fail("parameters exceed " + std::to_string(kMaxParameterBytes) + " bytes");
    param->param_offset = static_cast<uint32_t>(end);
    param->index = static_cast<uint32_t>(out->size());
    end += param->size_bytes;
    out->push_back(std::move(param));
    if (!lexer.AcceptPunct(',')) break;
  }
  return lexer.ExpectPunct(')');
}

uint32_t ParameterBytes(const std::vector<std::unique_ptr<Variable>>& params) {
  if (params.empty()) return 0;
  const Variable& last = *params.back();
  return last.param_offset + static_cast<uint32_t>(last.size_bytes);
}

bool ParseExtent(Lexer& lexer, uint32_t out[3]) {
  uint32_t dims[3] = {1, 1, 1};
  for (unsigned i = 0; i < 3; ++i) {
    uint64_t n = lexer.ExpectInteger("a number of threads");
    if (!lexer.ok()) return false;
    if (n == 0 || n > 0x7fffffff)
      return lexer.Fail("extent " + std::to_string(n) + " is out of range");
    dims[i] = static_cast<uint32_t>(n);
    if (!lexer.AcceptPunct(',')) break;
  }
  for (unsigned i = 0; i < 3; ++i) out[i] = dims[i];
  return true;
}

}  // namespace farcall::cpu_device::ptx
