// SPDX-License-Identifier: Apache-2.0
// printf over the packed argument buffer of vprintf: every argument at its natural alignment,
// floats as double.
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

class Arguments {
 public:
  explicit Arguments(const uint8_t* at) : at_(at) {}
  template <typename T>
  T Take() {
    offset_ = (offset_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    std::memcpy(&value, at_ + offset_, sizeof value);
    offset_ += sizeof value;
    return value;
  }

 private:
  const uint8_t* at_;
  uint64_t offset_ = 0;
};

template <typename T>
std::string Print(const std::string& spec, T value) {
  char buffer[512];
  int n = std::snprintf(buffer, sizeof buffer, spec.c_str(), value);
  return n < 0 ? std::string()
               : std::string(buffer, std::min<size_t>(static_cast<size_t>(n), sizeof buffer - 1));
}

std::string Conversion(std::string spec, bool wide, char kind, Arguments* arguments) {
  switch (kind) {
    case 'd':
    case 'i':
      return wide ? Print(spec + "ll" + kind, arguments->Take<long long>())
                  : Print(spec + kind, arguments->Take<int>());
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return wide ? Print(spec + "ll" + kind, arguments->Take<unsigned long long>())
                  : Print(spec + kind, arguments->Take<unsigned>());
    case 'c':
      return Print(spec + kind, arguments->Take<int>());
    case 'p':
      return Print(spec + kind, arguments->Take<void*>());
    case 's': {
      const char* text = arguments->Take<const char*>();
      return text ? Print(spec + kind, text) : "(null)";
    }
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      return Print(spec + kind, arguments->Take<double>());
    default:
      return spec + kind;
  }
}

}  // namespace

std::string FormatDevicePrintf(const char* format, const uint8_t* packed) {
  Arguments arguments(packed);
  std::string out;
  while (*format) {
    if (*format != '%') {
      out += *format++;
      continue;
    }
    if (*++format == '%') {
      out += *format++;
      continue;
    }
    std::string spec = "%";
    while (*format && std::strchr("-+ #0123456789.*", *format)) {
      if (*format == '*') {
        spec += std::to_string(arguments.Take<int>());
        ++format;
      } else {
        spec += *format++;
      }
    }
    unsigned longs = 0;
    bool wide = false;
    while (*format && std::strchr("hlLzjt", *format)) {
      longs += *format == 'l';
      wide |= *format == 'z' || *format == 'j' || *format == 't';
      ++format;
    }
    if (!*format) break;
    out += Conversion(spec, wide || longs > 0, *format++, &arguments);
  }
  return out;
}

}  // namespace farcall::cpu_device::ptx_interpreter
