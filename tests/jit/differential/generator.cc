// SPDX-License-Identifier: Apache-2.0
// Kernels, control flow and plain instructions; memory and threads together are in statements.cc.
#include "tests/jit/differential/generator.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <numeric>
#include <utility>

namespace farcall::cpu_device::differential {

namespace {

constexpr int kMaxDepth = 3;
constexpr int kFunctions = 3;

std::string Hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

uint64_t InterestingBits(std::mt19937_64& random) {
  static constexpr uint64_t kValues[] = {
      0, 1, 2, 31, 32, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
      0x7fffffffffffffff, 0x8000000000000000, ~uint64_t{0},
      // f16 pairs: one, subnormals, largest, infinity, NaN
      0x3c003c00, 0x00018001, 0x7bfffbff, 0x7c00fc00, 0x7e017c01,
      // f32: one, -1.5, subnormal, smallest normal, largest, infinities, NaNs
      0x3f800000, 0xbfc00000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x7f800000,
      0xff800000, 0x7fc00001, 0xff800001, 0x4effffff, 0xcf000000, 0x5f000000,
      // f64
      0x3ff0000000000000, 0xbff8000000000000, 0x0000000000000001, 0x800fffffffffffff,
      0x0010000000000000, 0x7fefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
      0x7ff8000000000001, 0x41dfffffffc00000, 0xc3e0000000000000, 0x40effe0000000000};
  switch (random() % 8) {
    case 0:
    case 1:
      return kValues[random() % std::size(kValues)];
    case 2:
      return random() % 64;
    case 3:
      return std::bit_cast<uint32_t>(static_cast<float>(static_cast<int>(random() % 4001) - 2000) /
                                     8) |
             (random() << 32);
    case 4:
      return std::bit_cast<uint64_t>(static_cast<double>(static_cast<int>(random() % 400001)) / 16 -
                                     9999);
    case 5: {  // two halves near one
      auto half = [&] { return (0x3800 + random() % 0x1000) | (random() & 0x8000); };
      return half() | half() << 16 | half() << 32 | half() << 48;
    }
    default:
      return random();
  }
}

Deck::Deck(uint64_t seed) : random_(seed), order_(AllForms().size()) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  next_ = order_.size();
}

const Form& Deck::Deal() {
  if (next_ == order_.size()) {
    std::shuffle(order_.begin(), order_.end(), random_);
    next_ = 0;
  }
  return AllForms()[order_[next_++]];
}

Generator::Generator(uint64_t seed, std::vector<const Form*> forms)
    : random_(seed), forms_(std::move(forms)) {}

void Generator::Line(const std::string& text) {
  body_.append("  ").append(text).append("\n");
}

void Generator::Op(const std::string& mnemonic, const std::string& operands,
                   const std::string& guard) {
  opcodes_.push_back(mnemonic);
  Line(guard + mnemonic + " " + operands + ";");
}

std::string Generator::Register(char width) {
  uint32_t count = width == 'h'   ? kHalfRegisters
                   : width == 'w' ? kWordRegisters
                   : width == 'x' ? kWideRegisters
                                  : kPredicates;
  return std::string("%") + width + std::to_string(Below(count));
}

std::string Generator::Predicate() {
  return (Chance(50) ? "!" : "") + Register('p');
}

std::string Generator::Label() {
  return "L" + std::to_string(labels_++);
}

std::string Generator::Constant(char kind) {
  uint64_t bits = InterestingBits(random_);
  char text[32];
  switch (kind) {
    case 'H':
      return std::to_string(static_cast<int16_t>(bits));
    case 'W':
      return std::to_string(static_cast<int32_t>(bits));
    case 'f':
      std::snprintf(text, sizeof(text), "0f%08x", static_cast<uint32_t>(bits));
      return text;
    case 'g':
      std::snprintf(text, sizeof(text), "0d%016llx", static_cast<unsigned long long>(bits));
      return text;
    default:
      return Hex(bits);
  }
}

// One token of a form's operands as PTX; may emit what prepares it.
std::string Generator::Operand(const std::string& token, const std::string& mnemonic) {
  if (token[0] == '{') {  // {h;h}
    std::string out = "{", inner = token.substr(1, token.size() - 2) + ";";
    for (size_t at = 0; at < inner.size();) {
      size_t end = inner.find(';', at);
      std::string element = inner.substr(at, end - at);
      std::string reg = Register(element.back());
      // A vector of destinations names each register once.
      while (element[0] == '=' && out.find(reg + ",") != std::string::npos)
        reg = Register(element.back());
      out += reg + ",";
      at = end + 1;
    }
    out.back() = '}';
    return out;
  }
  if (token == "=p/=p") {
    std::string first = Register('p'), second = Register('p');
    while (second == first) second = Register('p');
    return first + "|" + second;
  }
  if (token[0] == '=') return Register(token[1]);
  if (token == "!p") return Predicate();
  if (token[0] == 'Z') {
    // Positive and not zero: neither x / 0 nor the least number by -1.
    char w = token[1];
    std::string bits = w == 'h' ? "16" : w == 'w' ? "32" : "64";
    std::string mask = w == 'h' ? "0x7fff" : w == 'w' ? "0x7fffffff" : "0x7fffffffffffffff";
    std::string divisor = std::string("%z") + w;
    Line("and.b" + bits + " " + divisor + ", " + Register(w) + ", " + mask + ";");
    if (Chance(50))
      Line("shr.u" + bits + " " + divisor + ", " + divisor + ", " +
           std::to_string(Below(w == 'h'   ? 15
                                : w == 'w' ? 31
                                           : 63)) +
           ";");
    Line("max.u" + bits + " " + divisor + ", " + divisor + ", 1;");
    return divisor;
  }
  switch (token[0]) {
    case 'H':
    case 'W':
    case 'X':
      return Chance(30) ? Constant(token[0]) : Register(static_cast<char>(token[0] | 0x20));
    case 'f':
      return Chance(30) ? Constant('f') : Register('w');
    case 'g':
      return Chance(30) ? Constant('g') : Register('x');
    case 'u':
      return Chance(70) ? std::to_string(Below(70)) : Register('w');
    case 'n':
      return std::to_string(Below(32));
    case 'm':
      return std::to_string(Below(256));
    default:
      if (token[0] >= '1' && token[0] <= '9')
        return std::to_string(1 + Below(static_cast<uint64_t>(token[0] - '0')));
      return Register(token[0]);
  }
}

void Generator::EmitForm(const Form& form) {
  std::string operands, destination;
  for (const std::string& token : form.operands) {
    std::string operand = Operand(token, form.mnemonic);
    if (operands.empty()) destination = operand;
    operands += (operands.empty() ? "" : ", ") + operand;
  }
  std::string guard = Chance(15) ? "@" + Predicate() + " " : "";
  // A guard that the instruction itself writes is read first.
  Op(form.mnemonic, operands, guard);
  if (form.nan != 0) OneNan(form.nan, destination);
}

// Which NaN an operation gives is open: all become the canonical one, so that bits can be compared.
void Generator::OneNan(char format, const std::string& reg) {
  switch (format) {
    case 'f':
      Line("setp.nan.f32 %q, " + reg + ", " + reg + ";");
      return Line("selp.b32 " + reg + ", 0x7fffffff, " + reg + ", %q;");
    case 'g':
      Line("setp.nan.f64 %q, " + reg + ", " + reg + ";");
      return Line("selp.b64 " + reg + ", 0x7fffffffffffffff, " + reg + ", %q;");
    case 'h':
    case 'b':
      Line(std::string("setp.nan.") + (format == 'h' ? "f16" : "bf16") + " %q, " + reg + ", " +
           reg + ";");
      return Line("selp.b16 " + reg + ", 0x7fff, " + reg + ", %q;");
    default:
      return OneNanOfPair(format, reg);
  }
}

void Generator::OneNanOfPair(char format, const std::string& reg) {
  bool singles = format == 'F';
  std::string type = singles ? "b64 " : "b32 ";
  std::string low = singles ? "%sw" : "%na", high = singles ? "%zw" : "%nb";
  Line("mov." + type + "{" + low + "," + high + "}, " + reg + ";");
  for (const std::string& half : {low, high})
    OneNan(singles ? 'f' : format == 'H' ? 'h' : 'b', half);
  Line("mov." + type + reg + ", {" + low + "," + high + "};");
}

void Generator::Plain(int) {
  EmitForm(*forms_[next_form_++ % forms_.size()]);
}

void Generator::Branch(int depth) {
  std::string otherwise = Label(), end = Label();
  bool was_uniform = std::exchange(uniform_, false);
  bool has_else = Chance(60);
  Op("bra", has_else ? otherwise : end, "@" + Predicate() + " ");
  Statements(depth + 1, 1 + static_cast<int>(Below(3)));
  if (has_else) {
    Op(Chance(50) ? "bra" : "bra.uni", end);
    Line(otherwise + ":");
    Statements(depth + 1, 1 + static_cast<int>(Below(3)));
  }
  Line(end + ":");
  uniform_ = was_uniform;
}

// The count depends on the thread's data: lanes leave one after the other.
void Generator::Loop(int depth) {
  std::string top = Label(), id = std::to_string(depth);
  bool was_uniform = std::exchange(uniform_, false);
  Line("and.b32 %limit" + id + ", " + Register('w') + ", 3;");
  Line("mov.u32 %count" + id + ", 0;");
  Line(top + ":");
  Statements(depth + 1, 1 + static_cast<int>(Below(2)));
  Line("add.u32 %count" + id + ", %count" + id + ", 1;");
  Line("setp.le.u32 %q, %count" + id + ", %limit" + id + ";");
  Op("bra", top, "@%q ");
  uniform_ = was_uniform;
}

void Generator::UniformLoop(int depth) {
  std::string top = Label(), id = std::to_string(depth);
  Line("mov.u32 %count" + id + ", 0;");
  Line(top + ":");
  Statements(depth + 1, 2);
  Line("add.u32 %count" + id + ", %count" + id + ", 1;");
  Line("setp.lt.u32 %q, %count" + id + ", " + std::to_string(1 + Below(3)) + ";");
  Op(Chance(50) ? "bra.uni" : "bra", top, "@%q ");
}

void Generator::Switch(int depth) {
  std::string table = Label(), end = Label(), targets;
  std::vector<std::string> labels;
  for (int i = 0; i < 4; ++i) {
    labels.push_back(Label());
    targets += (i == 0 ? "" : ", ") + labels.back();
  }
  bool was_uniform = std::exchange(uniform_, false);
  Line("and.b32 %index, " + Register('w') + ", 3;");
  Line(table + ": .branchtargets " + targets + ";");
  Op("brx.idx", "%index, " + table);
  for (const std::string& label : labels) {
    Line(label + ":");
    Statements(depth + 1, 1);
    if (Chance(70)) Op("bra", end);
  }
  Line(end + ":");
  uniform_ = was_uniform;
}

void Generator::EmitChoice(int depth, const std::vector<Choice>& choices) {
  int total = 0;
  for (const Choice& choice : choices) total += choice.weight;
  int at = static_cast<int>(Below(static_cast<uint64_t>(total)));
  for (const Choice& choice : choices) {
    at -= choice.weight;
    if (at < 0) return (this->*choice.emit)(depth);
  }
}

void Generator::Statement(int depth) {
  std::vector<Choice> choices = {{60, &Generator::Plain}};
  if (!in_function_) {
    choices.insert(choices.end(), {{8, &Generator::OwnMemory},
                                   {5, &Generator::OwnAtomic},
                                   {4, &Generator::SharedCounter},
                                   {2, &Generator::Special},
                                   {4, &Generator::StridedLoop},
                                   {3, &Generator::CarryChain}});
  }
  if (depth < kMaxDepth) {
    choices.insert(choices.end(), {{4, &Generator::Branch}, {2, &Generator::Loop}});
    if (!in_function_)
      choices.insert(choices.end(), {{2, &Generator::Switch}, {3, &Generator::CallFunction}});
  }
  if (uniform_ && !in_function_) {
    choices.insert(choices.end(),
                   {{4, &Generator::Exchange}, {3, &Generator::Barrier}, {8, &Generator::Warp}});
    choices.push_back(together_ ? Choice{2, &Generator::Leave} : Choice{3, &Generator::MaskedWarp});
    if (depth < kMaxDepth) choices.push_back({2, &Generator::UniformLoop});
  }
  EmitChoice(depth, choices);
}

void Generator::Statements(int depth, int count) {
  for (int i = 0; i < count; ++i) Statement(depth);
}

std::string Generator::Functions() {
  std::string text;
  for (int i = 0; i < kFunctions; ++i) text += Function(i);
  return text;
}

GeneratedKernel Generator::Make(size_t max_statements) {
  GeneratedKernel made;
  made.block = 32 * static_cast<uint32_t>(1 + Below(3));
  made.grid = 1 + static_cast<uint32_t>(Below(2));
  together_ = Chance(60);
  std::string functions = Functions();
  // As many statements as it takes for each form to have been used.
  for (size_t spent = next_form_; next_form_ < spent + forms_.size();) {
    if (made.statements == max_statements) break;
    Statement(0);
    ++made.statements;
  }
  made.ptx = functions + Prolog() + body_ + Epilog();
  made.opcodes = opcodes_;
  return made;
}

}  // namespace farcall::cpu_device::differential
