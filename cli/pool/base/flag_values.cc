// SPDX-License-Identifier: Apache-2.0
#include "cli/pool/base/flag_values.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "settings/exit_code.h"

namespace farcall::cli {

std::string CheckName(const std::string& text) {
  bool fine =
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
      std::string::npos;
  return fine ? std::string() : "'" + text + "': letters, digits and . _ -";
}

int64_t ReadDuration(const std::string& text) {
  constexpr std::string_view kUnits = "smhd";
  constexpr int64_t kSeconds[] = {1, 60, 3600, 86400};
  size_t unit = text.empty() ? kUnits.npos : kUnits.find(text.back());
  int64_t number = 0;
  const char *begin = text.data(), *end = begin + text.size() - (unit == kUnits.npos ? 0 : 1);
  auto [at, error] = std::from_chars(begin, end, number);
  if (unit == kUnits.npos || error != std::errc() || at != end || number < 1 || number > 100'000)
    return 0;
  return number * kSeconds[unit];
}

std::string CheckDuration(const std::string& text) {
  return ReadDuration(text) != 0 ? std::string()
                                 : "'" + text + "': a time such as 90s, 30m, 1h or 7d";
}

bool ReadMicroseconds(const std::string& text, uint32_t* us) {
  constexpr double kMax = 10e6;
  double number = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(at, static_cast<size_t>(text.data() + text.size() - at));
  const double scale = unit == "us" ? 1 : unit == "ms" ? 1e3 : unit == "s" ? 1e6 : 0;
  const double value = std::round(number * scale);
  if (error != std::errc() || scale == 0 || !(value >= 0) || value > kMax) return false;
  *us = static_cast<uint32_t>(value);
  return true;
}

bool ReadTflops(const std::string& text, double* tflops) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *tflops);
  return error == std::errc() && at == end && *tflops >= 0.001 && *tflops <= 100'000;
}

std::string CheckTflops(const std::string& text) {
  double tflops = 0;
  return ReadTflops(text, &tflops) ? "" : "'" + text + "': a number from 0.001 to 100000, as 40";
}

int WriteTokenFile(const std::string& path, const std::string& token) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const std::string line = token + "\n";
  const bool is_whole =
      file >= 0 && write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int error = errno;
  if (file >= 0) close(file);
  if (is_whole) return kExitOk;
  std::fprintf(stderr, "farcall pool: '%s': %s\n", path.c_str(), std::strerror(error));
  return kExitFailure;
}

}  // namespace farcall::cli
