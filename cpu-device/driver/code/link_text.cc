// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/code/link_text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

namespace farcall::cpu_device {
namespace {

// What the driver gives to the device runtime's library (libcudadevrt.a) for grids that wait: a
// handle is the launch's workspace, whose second word counts blocks as cooperative groups do. The
// first block adds what makes the top bit turn once all have come.
constexpr char kGridCallPrefix[] = "__cuda_syscall_CGS_";
constexpr char kGridCalls[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b64 out) __cuda_syscall_CGS_get_intrinsic_handle(.param .b32 scope)
{
  .reg .b32 %high, %low;
  .reg .b64 %handle;
  mov.u32 %high, %envreg1;
  mov.u32 %low, %envreg2;
  mov.b64 %handle, {%low, %high};
  st.param.b64 [out], %handle;
  ret;
}
.visible .func (.param .b32 out) __cuda_syscall_CGS_sync(.param .b64 handle, .param .b32 flags)
{
  .reg .pred %one_thread, %not_first, %first_block, %waits;
  .reg .b32 %flag, %r<10>;
  .reg .b64 %workspace;
  ld.param.b64 %workspace, [handle];
  ld.param.b32 %flag, [flags];
  and.b32 %flag, %flag, 1;
  setp.ne.u32 %one_thread, %flag, 0;
  @%one_thread bra ARRIVE;
  bar.sync 0;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %tid.y;
  mov.u32 %r2, %tid.z;
  or.b32 %r0, %r0, %r1;
  or.b32 %r0, %r0, %r2;
  setp.ne.u32 %not_first, %r0, 0;
  @%not_first bra JOIN;
ARRIVE:
  mov.u32 %r0, %nctaid.x;
  mov.u32 %r1, %nctaid.y;
  mov.u32 %r2, %nctaid.z;
  mul.lo.u32 %r0, %r0, %r1;
  mul.lo.u32 %r0, %r0, %r2;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ctaid.y;
  mov.u32 %r5, %ctaid.z;
  or.b32 %r3, %r3, %r4;
  or.b32 %r3, %r3, %r5;
  setp.eq.u32 %first_block, %r3, 0;
  mov.u32 %r6, 2147483649;
  sub.u32 %r6, %r6, %r0;
  selp.b32 %r6, %r6, 1, %first_block;
  atom.acq_rel.gpu.add.u32 %r7, [%workspace+4], %r6;
WAIT:
  ld.acquire.gpu.u32 %r8, [%workspace+4];
  xor.b32 %r8, %r8, %r7;
  setp.ge.s32 %waits, %r8, 0;
  @%waits bra WAIT;
  @%one_thread bra DONE;
JOIN:
  bar.sync 0;
DONE:
  st.param.b32 [out], 0;
  ret;
}
)";

// What follows a directive of the header on its line, and the line's place; empty: there is none.
std::string_view Directive(std::string_view ptx, std::string_view name, size_t* at) {
  for (size_t line = 0; line < ptx.size();) {
    const size_t end = std::min(ptx.find('\n', line), ptx.size());
    const size_t word = ptx.find_first_not_of(" \t\r", line);
    if (word < end && ptx.substr(word, name.size()) == name) {
      *at = word;
      return ptx.substr(word + name.size(), end - word - name.size());
    }
    line = end + 1;
  }
  return {};
}

int Digits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c == ',' || c == '/') break;
    if (c >= '0' && c <= '9') value = value * 10 + (c - '0');
  }
  return value;
}

bool InName(char c) {
  return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$';
}

// Calls `each(place, word)` for names, directives (with their dot), numbers and single characters;
// comments and strings are left out.
template <typename Each>
void ForEachWord(std::string_view ptx, const Each& each) {
  for (size_t at = 0; at < ptx.size();) {
    const std::string_view rest = ptx.substr(at);
    size_t length = 1;
    if (rest.substr(0, 2) == "//") {
      length = std::min(rest.find('\n'), rest.size());
    } else if (rest.substr(0, 2) == "/*") {
      length = std::min(rest.find("*/"), rest.size() - 2) + 2;
    } else if (rest[0] == '"') {
      length = std::min(rest.find('"', 1), rest.size() - 1) + 1;
    } else if (isspace(static_cast<unsigned char>(rest[0]))) {
      length = 1;
    } else {
      while (length < rest.size() && (InName(rest[0]) || rest[0] == '.' || rest[0] == '%') &&
             InName(rest[length]))
        ++length;
      each(at, rest.substr(0, length));
    }
    at += length;
  }
}

// The names that a module declares outside of functions, and whether its own alone: those without
// .visible, .extern, .weak and .common.
std::map<std::string_view, bool> ModuleNames(std::string_view ptx) {
  std::map<std::string_view, bool> names;
  bool linked = false, named = false, is_variable = false, is_function = false;
  int braces = 0, parentheses = 0;
  ForEachWord(ptx, [&](size_t, std::string_view word) {
    const char c = word[0];
    braces += c == '{' ? 1 : c == '}' ? -1 : 0;
    parentheses += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (braces > 0) return;
    if (c == ';' || (c == '}' && !is_variable)) {
      linked = named = is_variable = is_function = false;
    } else if (c == '.') {
      linked |= word == ".visible" || word == ".extern" || word == ".weak" || word == ".common";
      is_variable |= word == ".global" || word == ".const" || word == ".shared";
      is_function |= word == ".func";
    } else if (!named && (is_variable || is_function) && parentheses == 0 && InName(c) &&
               !isdigit(static_cast<unsigned char>(c))) {
      named = true;
      names[word] = !linked;
    }
  });
  return names;
}

// Every unit with the names of its own that another has too made its own in writing.
std::vector<std::string> Apart(const std::vector<std::string>& inputs) {
  std::vector<std::map<std::string_view, bool>> names;
  std::map<std::string_view, int> units;
  for (const std::string& input : inputs) {
    names.push_back(ModuleNames(input));
    for (const auto& [name, own] : names.back()) ++units[name];
  }
  std::vector<std::string> apart;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string text;
    size_t copied = 0;
    ForEachWord(inputs[i], [&](size_t at, std::string_view word) {
      const auto found = names[i].find(word);
      if (found == names[i].end() || !found->second || units[word] < 2) return;
      text.append(inputs[i], copied, at + word.size() - copied);
      text += "$unit" + std::to_string(i);
      copied = at + word.size();
    });
    apart.push_back(text + inputs[i].substr(copied));
  }
  return apart;
}

}  // namespace

std::string LinkText(const std::vector<std::string>& units) {
  if (units.size() == 1) return units.front();
  std::vector<std::string> inputs = Apart(units);
  for (const std::string& unit : units) {
    if (unit.find(kGridCallPrefix) == std::string::npos) continue;
    inputs.emplace_back(kGridCalls);
    break;
  }
  size_t first = 0;
  int newest = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t at = 0;
    const int version = Digits(Directive(inputs[i], ".target", &at)) * 1000 +
                        Digits(Directive(inputs[i], ".version", &at));
    if (version > newest) {
      newest = version;
      first = i;
    }
  }
  std::string whole = inputs[first];
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i == first) continue;
    std::string rest = inputs[i];
    // Its .target stays: functions tell what they were compiled for.
    for (const std::string_view name : {".version", ".address_size"}) {
      size_t at = 0;
      if (!Directive(rest, name, &at).empty()) rest.insert(at, "//");
    }
    whole += "\n" + rest;
  }
  return whole;
}

}  // namespace farcall::cpu_device
