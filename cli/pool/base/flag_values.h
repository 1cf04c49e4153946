// SPDX-License-Identifier: Apache-2.0
// What flags of several verbs hold: names, times, files for tokens.
#pragma once

#include <cstdint>
#include <string>

namespace farcall::cli {

// Of claims, hosts, users and tokens. "" or what is wrong.
std::string CheckName(const std::string& text);

// "90s", "30m", "1h", "7d" in seconds; 0: not such.
int64_t ReadDuration(const std::string& text);
std::string CheckDuration(const std::string& text);

// "300us", "1.5ms", "10s" in microseconds, 10 s at most; false: not such.
bool ReadMicroseconds(const std::string& text, uint32_t* us);

// 0.001 to 100,000; false: not such.
bool ReadTflops(const std::string& text, double* tflops);
std::string CheckTflops(const std::string& text);

// Into a new file, readable by its owner only; the exit code.
int WriteTokenFile(const std::string& path, const std::string& token);

}  // namespace farcall::cli
