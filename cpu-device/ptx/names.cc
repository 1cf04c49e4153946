// SPDX-License-Identifier: Apache-2.0
// Name tables of opcode.h and their reverse look-ups.
#include "cpu-device/ptx/names.h"

#include <unordered_map>

namespace farcall::cpu_device::ptx {
namespace {

struct TypeRow {
  std::string_view name;
  unsigned bits;
};
constexpr TypeRow kTypes[] = {{"", 0},
#define X(id, text, bits) {text, bits},
                              FARCALL_PTX_TYPES(X)
#undef X
};

struct SpecialRow {
  std::string_view name;
  Type type;
};
constexpr SpecialRow kSpecials[] = {{"", Type::kNone},
#define X(id, text, type) {text, Type::k##type},
                                    FARCALL_PTX_SPECIAL_REGISTERS(X)
#undef X
};

constexpr std::string_view kOpcodes[] = {"",
#define X(id, text) text,
                                         FARCALL_PTX_OPCODES(X)
#undef X
};

constexpr std::string_view kSpaces[] = {
    "",      "reg",          "const",       "global", "local",
    "param", "param::entry", "param::func", "shared", "shared::cluster",
    "tex",
};

template <typename Enum, typename Rows, typename GetName>
std::unordered_map<std::string_view, Enum> Reverse(const Rows& rows, GetName name) {
  std::unordered_map<std::string_view, Enum> map;
  for (unsigned i = 1; i < std::size(rows); ++i) map.emplace(name(rows[i]), static_cast<Enum>(i));
  return map;
}

template <typename Enum>
Enum Find(const std::unordered_map<std::string_view, Enum>& map, std::string_view key) {
  auto it = map.find(key);
  return it == map.end() ? static_cast<Enum>(0) : it->second;
}

}  // namespace

std::string_view Name(Opcode opcode) {
  return kOpcodes[static_cast<unsigned>(opcode)];
}
std::string_view Name(Type type) {
  return kTypes[static_cast<unsigned>(type)].name;
}
std::string_view Name(Space space) {
  return kSpaces[static_cast<unsigned>(space)];
}
std::string_view Name(SpecialRegister reg) {
  return kSpecials[static_cast<unsigned>(reg)].name;
}
Type TypeOf(SpecialRegister reg) {
  return kSpecials[static_cast<unsigned>(reg)].type;
}
unsigned BitsOf(Type type) {
  return kTypes[static_cast<unsigned>(type)].bits;
}

bool IsSigned(Type type) {
  return type >= Type::kS8 && type <= Type::kS64;
}
bool IsUnsigned(Type type) {
  return type >= Type::kU8 && type <= Type::kU64;
}
bool IsInteger(Type type) {
  return IsSigned(type) || IsUnsigned(type) || (type >= Type::kB8 && type <= Type::kB128);
}
bool IsFloat(Type type) {
  return type >= Type::kF16 && type <= Type::kF64;
}

bool IsPacked(Type type) {
  std::string_view name = Name(type);
  size_t x = name.find('x');
  return x != std::string_view::npos && x > 0 && x + 1 < name.size() && name[x + 1] <= '9';
}

Opcode FindOpcode(std::string_view name) {
  static const auto& map =
      *new auto(Reverse<Opcode>(kOpcodes, [](std::string_view row) { return row; }));
  return Find(map, name);
}

Type FindType(std::string_view name) {
  static const auto& map =
      *new auto(Reverse<Type>(kTypes, [](const TypeRow& row) { return row.name; }));
  return Find(map, name);
}

Space FindSpace(std::string_view name) {
  static const auto& map = *new auto([] {
    auto spaces = Reverse<Space>(kSpaces, [](std::string_view row) { return row; });
    spaces.emplace("shared::cta", Space::kShared);
    return spaces;
  }());
  return Find(map, name);
}

SpecialRegister FindSpecialRegister(std::string_view name, unsigned* number) {
  static const auto& map = *new auto(
      Reverse<SpecialRegister>(kSpecials, [](const SpecialRow& row) { return row.name; }));
  *number = 0;
  SpecialRegister found = Find(map, name);
  if (found != SpecialRegister::kNone) return found;
  // %envreg<0..31>, %pm<0..7>, %pm<0..7>_64: the number is part of the spelling.
  bool wide = name.ends_with("_64");
  if (wide) name.remove_suffix(3);
  size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits >= name.size() || name.size() - digits > 2) return SpecialRegister::kNone;
  unsigned n = 0;
  for (char c : name.substr(digits)) n = n * 10 + static_cast<unsigned>(c - '0');
  std::string_view stem = name.substr(0, digits);
  *number = n;
  if (stem == "%envreg" && n < 32 && !wide) return SpecialRegister::kEnvreg;
  if (stem == "%pm" && n < 8) return wide ? SpecialRegister::kPm64 : SpecialRegister::kPm;
  return SpecialRegister::kNone;
}

}  // namespace farcall::cpu_device::ptx
