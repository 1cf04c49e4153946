// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/device_output.h"

#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "cpu-device/exec/executor.h"

namespace farcall::cpu_device {
namespace {

constexpr size_t kFlushBytes = 64 << 10;
constexpr size_t kLineBytes = 8 << 10;  // of one printf call; the rest is cut

struct Output {
  std::mutex mutex;
  std::string pending;
};

Output& TheOutput() {
  static Output* output = new Output;
  return *output;
}

void WriteAll(int fd, const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    ssize_t wrote = write(fd, text.data() + at, text.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    at += static_cast<size_t>(wrote);
  }
}

class ArgumentReader {
 public:
  explicit ArgumentReader(const uint8_t* at) : at_(reinterpret_cast<uintptr_t>(at)) {}
  template <typename T>
  T Next() {
    at_ = (at_ + sizeof(T) - 1) & ~(sizeof(T) - 1);
    T value;
    memcpy(&value, reinterpret_cast<const void*>(at_), sizeof(T));
    at_ += sizeof(T);
    return value;
  }

 private:
  uintptr_t at_;
};

// One conversion specification, copied so that snprintf sees it alone.
struct Spec {
  char text[48];
  size_t used = 0;
  bool Add(char c) {
    if (used + 2 >= sizeof(text)) return false;
    text[used++] = c;
    text[used] = 0;
    return true;
  }
};

int FormatOne(char* out, size_t room, const Spec& spec, char kind, bool wide,
              ArgumentReader& arguments) {
  switch (kind) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      if (wide) return snprintf(out, room, spec.text, arguments.Next<int64_t>());
      return snprintf(out, room, spec.text, arguments.Next<int32_t>());
    case 'c':
      return snprintf(out, room, spec.text, arguments.Next<int32_t>());
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      return snprintf(out, room, spec.text, arguments.Next<double>());
    case 'p':
      return snprintf(out, room, spec.text, arguments.Next<void*>());
    case 's': {
      const char* text = arguments.Next<const char*>();
      return snprintf(out, room, spec.text, text ? text : "(null)");
    }
    default:
      return snprintf(out, room, "%s", spec.text);
  }
}

}  // namespace

void WriteDeviceText(const char* text, size_t bytes) {
  Output& output = TheOutput();
  std::lock_guard lock(output.mutex);
  output.pending.append(text, bytes);
  if (output.pending.size() >= kFlushBytes) {
    WriteAll(Options().output_fd, output.pending);
    output.pending.clear();
  }
}

void WriteAssertion(const std::string& line) {
  FlushDeviceOutput();  // what came before it
  WriteAll(Options().error_fd, line);
}

int WriteDeviceFormat(const char* format, const uint8_t* raw) {
  if (!format) return -1;
  char line[kLineBytes];
  size_t used = 0;
  int conversions = 0;
  ArgumentReader arguments(raw);
  for (const char* p = format; *p && used + 1 < sizeof(line); ++p) {
    if (*p != '%') {
      line[used++] = *p;
      continue;
    }
    if (p[1] == '%') {
      line[used++] = '%';
      ++p;
      continue;
    }
    Spec spec;
    spec.Add('%');
    int longs = 0;
    bool fits = true;
    for (++p; *p && strchr("-+ #0123456789.*hlLjzt", *p); ++p) {
      if (*p == '*') {
        char number[16];
        snprintf(number, sizeof(number), "%d", arguments.Next<int32_t>());
        for (const char* n = number; *n; ++n) fits &= spec.Add(*n);
        continue;
      }
      // sizes: l, ll, j, z, t are 64 bits on this target; the host's snprintf gets ll for all.
      if (*p == 'l' || *p == 'j' || *p == 'z' || *p == 't' || *p == 'L') {
        longs = 2;
        continue;
      }
      fits &= spec.Add(*p);
    }
    if (!*p) break;
    bool integer = strchr("diuxXo", *p) != nullptr;
    if (integer && longs) fits &= spec.Add('l') && spec.Add('l');
    fits &= spec.Add(*p);
    if (!fits || *p == 'n') continue;
    int wrote = FormatOne(line + used, sizeof(line) - used, spec, *p, longs != 0, arguments);
    ++conversions;
    if (wrote > 0) used = std::min(used + static_cast<size_t>(wrote), sizeof(line) - 1);
  }
  WriteDeviceText(line, used);
  return conversions;
}

void FlushDeviceOutput() {
  Output& output = TheOutput();
  std::lock_guard lock(output.mutex);
  WriteAll(Options().output_fd, output.pending);
  output.pending.clear();
}

}  // namespace farcall::cpu_device
