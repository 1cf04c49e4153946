// SPDX-License-Identifier: Apache-2.0
// --mem, --share, --limit, --priority and --net as `run`, `quota set` and `pool` take them: refused
// where they are read, so what is left in the texts can be used. "": not given.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "settings/byte_count.h"
#include "settings/byte_rate.h"
#include "settings/percent.h"

namespace farcall::cli {

// For CLI::Option::check: what is wrong with it, "": nothing.
inline std::string CheckBytes(const std::string& text) {
  uint64_t bytes;
  return ParseByteCount(text, &bytes) ? "" : "size '" + text + "': " + kByteCountForm;
}

inline std::string CheckMemory(const std::string& text) {
  uint64_t bytes = 0;
  const bool is_little = ParseByteCount(text, &bytes) && bytes != 0 && bytes < kLeastMemoryBytes;
  return is_little ? "'" + text + "': " + kLittleMemory : CheckBytes(text);
}

inline std::string CheckPart(const std::string& text) {
  uint32_t milli;
  return ParseMilli(text, &milli) ? "" : "'" + text + "': " + kPartForm;
}

// "0": what the ceiling allows.
inline std::string CheckRate(const std::string& text) {
  uint64_t bytes_per_s;
  return text == "0" || ParseByteRate(text, &bytes_per_s)
             ? ""
             : "'" + text + "': " + kByteRateForm + "; 0 for what is allowed";
}

struct QuotaFlags {
  std::string mem, share, limit, priority, net;

  uint64_t Bytes() const {
    uint64_t bytes = 0;
    ParseByteCount(mem, &bytes);
    return bytes;
  }
  uint64_t BytesPerSecond() const {
    uint64_t bytes_per_s = 0;
    if (net != "0") ParseByteRate(net, &bytes_per_s);
    return bytes_per_s;
  }
  static uint32_t Milli(const std::string& part) {
    uint32_t milli = 0;
    ParseMilli(part, &milli);
    return milli;
  }
};

// `flags` outlive the command.
inline void AddQuotaFlags(CLI::App* command, QuotaFlags* flags) {
  command->add_option("--mem", flags->mem, "memory on each device, such as 4GiB")
      ->check(CheckMemory);
  command->add_option("--share", flags->share, "guaranteed part of each device's time, such as 30%")
      ->check(CheckPart);
  command->add_option("--limit", flags->limit, "largest part of each device's time, such as 50%")
      ->check(CheckPart);
  command->add_option("--priority", flags->priority, "scheduling priority")
      ->check(CLI::IsMember({"high", "normal", "low"}));
  command
      ->add_option("--net", flags->net,
                   "network budget, both directions together, such as 100MB/s; 0: as much as the "
                   "server allows")
      ->check(CheckRate);
}

}  // namespace farcall::cli
