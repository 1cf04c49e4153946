// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/run_totals.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "proto/printable.h"

namespace farcall::server {

namespace {

std::string Quoted(const std::string& name) {
  const std::string text = Printable(name, kMaxMessageBytes);
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

void RunTotals::AddPeak(int device, uint64_t bytes) {
  Memory& use = memory[device];
  use.largest_session_bytes = std::max(use.largest_session_bytes, bytes);
  use.all_sessions_bytes += bytes;
}

void RunTotals::NoteCharged(int device, uint64_t bytes) {
  Memory& use = memory[device];
  use.charged_bytes = std::max(use.charged_bytes, bytes);
}

std::string ToJson(const RunTotals& totals, const std::string& kind, const std::string& name) {
  std::string text = "{\"kind\": " + Quoted(kind) + ", \"device\": " + Quoted(name) +
                     ", \"sessions\": " + std::to_string(totals.sessions) +
                     ", \"bytes_up\": " + std::to_string(totals.bytes_up) +
                     ", \"bytes_down\": " + std::to_string(totals.bytes_down) + ", \"memory\": [";
  bool first = true;
  for (const auto& [device, use] : totals.memory) {
    text += (first ? "" : ", ") + ("{\"device\": " + std::to_string(device)) +
            ", \"peak_bytes\": " + std::to_string(use.largest_session_bytes) +
            ", \"peak_bytes_of_all_sessions\": " + std::to_string(use.all_sessions_bytes) +
            ", \"peak_charged_bytes\": " + std::to_string(use.charged_bytes) + "}";
    first = false;
  }
  text += "], \"skipped\": {";
  first = true;
  for (const auto& [kernel, launches] : totals.skipped) {
    text += (first ? "" : ", ") + Quoted(kernel) + ": " + std::to_string(launches);
    first = false;
  }
  return text + "}}\n";
}

Status WriteReport(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? Status() : Status(Code::kUnavailable, "report '" + path + "': cannot be written");
}

}  // namespace farcall::server
