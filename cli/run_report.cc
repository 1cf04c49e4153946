// SPDX-License-Identifier: Apache-2.0
#include "cli/run_report.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client-shim/core/report/counters.h"
#include "generated/proto/call_id.h"

namespace farcall::cli {

namespace {

using client::Stats;
using Json = nlohmann::ordered_json;

// The counters of one process, mapped while they are read.
class CountersFile {
 public:
  explicit CountersFile(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat status {};
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size == static_cast<off_t>(sizeof(Stats)))
      at_ = mmap(nullptr, sizeof(Stats), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
  }
  CountersFile(const CountersFile&) = delete;
  CountersFile& operator=(const CountersFile&) = delete;
  ~CountersFile() {
    if (at_ != MAP_FAILED) munmap(at_, sizeof(Stats));
  }
  const Stats* stats() const {
    const auto* stats = static_cast<const Stats*>(at_ == MAP_FAILED ? nullptr : at_);
    return stats != nullptr && stats->magic == Stats::kMagic ? stats : nullptr;
  }

 private:
  void* at_ = MAP_FAILED;
};

void Add(const Stats& stats, RunReport* report) {
  ++report->processes;
  report->waits += stats.round_trips.load();
  report->posted += stats.posted.load();
  for (size_t id = 0; id < Stats::kMaxCalls; ++id) {
    const client::CallCounters& row = stats.by_call[id];
    const uint64_t calls = row.calls.load(), left = row.local_left.load();
    if (calls == 0) continue;
    CallCount& count = report->calls[CallName(static_cast<uint16_t>(id))];
    count.calls += calls;
    count.posted += row.posted.load();
    count.waited += row.waited.load();
    count.local += calls > left ? calls - left : 0;
    count.wait_ns += row.wait_ns.load();
  }
  const uint64_t libraries = std::min<uint64_t>(stats.libraries.load(), Stats::kMaxLibraries);
  for (uint64_t i = 0; i < libraries; ++i)
    report->libraries.insert({stats.library[i], strnlen(stats.library[i], Stats::kMaxPath)});
}

__attribute__((format(printf, 2, 3))) void Line(std::string* text, const char* format, ...) {
  char line[512];
  va_list args;
  va_start(args, format);
  // clang 14 does not see that va_start sets it.
  vsnprintf(line, sizeof(line), format, args);  // NOLINT(clang-analyzer-valist.Uninitialized)
  va_end(args);
  *text += std::string("farcall: ") + line + "\n";
}

std::string Size(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

std::string FileName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

using Row = std::pair<std::string, CallCount>;

std::vector<Row> ByWaits(const RunReport& report) {
  std::vector<Row> rows;
  for (const auto& [name, count] : report.calls)
    if (count.waited != 0) rows.emplace_back(name, count);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.second.waited > b.second.waited; });
  return rows;
}

void AddWaits(const RunReport& report, std::string* text) {
  constexpr size_t kMax = 12;
  const std::vector<Row> rows = ByWaits(report);
  if (!rows.empty()) Line(text, "  waits by API (calls that waited, time waited here):");
  for (size_t i = 0; i < rows.size() && i < kMax; ++i) {
    Line(text, "    %10llu  %9.3f ms  %s", static_cast<unsigned long long>(rows[i].second.waited),
         static_cast<double>(rows[i].second.wait_ns) / 1e6, rows[i].first.c_str());
  }
  if (rows.size() > kMax) Line(text, "    and %zu more", rows.size() - kMax);
}

void AddSkipped(const RunReport& report, std::string* text) {
  constexpr size_t kMax = 12;
  if (report.skipped.empty()) return Line(text, "  KERNELS SKIPPED: none was launched");
  Line(text,
       "  KERNELS SKIPPED: %llu launches of %zu kernels were not executed; what depends on them is "
       "no result",
       static_cast<unsigned long long>(report.Skipped()), report.skipped.size());
  std::vector<std::pair<std::string, uint64_t>> rows(report.skipped.begin(), report.skipped.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (size_t i = 0; i < rows.size() && i < kMax; ++i) {
    Line(text, "    %10llu  %s", static_cast<unsigned long long>(rows[i].second),
         rows[i].first.c_str());
  }
  if (rows.size() > kMax) Line(text, "    and %zu more", rows.size() - kMax);
}

void AddCosts(const RunReport& report, std::string* text) {
  Line(text, "  a network would add (waits x round trip + bytes / bandwidth), in seconds:");
  std::string row;
  double round_trip = -1;
  for (const Network& network : ReportedNetworks()) {
    char cell[64];
    if (network.round_trip_ms != round_trip) {
      if (!row.empty()) Line(text, "%s", row.c_str());
      snprintf(cell, sizeof(cell), "    %5g ms:", network.round_trip_ms);
      row = cell;
      round_trip = network.round_trip_ms;
    }
    snprintf(cell, sizeof(cell), "  %10.3f at %3g Gbit/s",
             AddedSeconds(report, network.round_trip_ms, network.gigabits), network.gigabits);
    row += cell;
  }
  if (!row.empty()) Line(text, "%s", row.c_str());
}

}  // namespace

uint64_t RunReport::AllCalls() const {
  uint64_t all = 0;
  for (const auto& [name, count] : calls) all += count.calls;
  return all;
}

uint64_t RunReport::Launches() const {
  uint64_t all = 0;
  for (const auto& [name, count] : calls)
    if (name.rfind("cuLaunchKernel", 0) == 0 || name.rfind("cuLaunchCooperative", 0) == 0 ||
        name.rfind("cuGraphLaunch", 0) == 0)
      all += count.calls;
  return all;
}

uint64_t RunReport::Skipped() const {
  uint64_t all = 0;
  for (const auto& [kernel, launches] : skipped) all += launches;
  return all;
}

const std::vector<Network>& ReportedNetworks() {
  static const auto* networks = [] {
    auto* made = new std::vector<Network>;
    for (double round_trip_ms : {0.1, 1.0, 10.0, 50.0})
      for (double gigabits : {1.0, 10.0, 100.0}) made->push_back({round_trip_ms, gigabits});
    return made;
  }();
  return *networks;
}

double AddedSeconds(const RunReport& report, double round_trip_ms, double gigabits) {
  const double bits = 8.0 * static_cast<double>(report.bytes_up + report.bytes_down);
  return static_cast<double>(report.waits) * round_trip_ms / 1e3 + bits / (gigabits * 1e9);
}

void ReadCounters(const std::string& folder, RunReport* report) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".counters") continue;
    const CountersFile file(entry.path());
    if (file.stats() != nullptr) Add(*file.stats(), report);
  }
}

Status ReadServerReport(const std::string& path, RunReport* report) {
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, false);
  try {
    report->device_kind = json.at("kind");
    report->device_name = json.at("device");
    report->bytes_up += json.at("bytes_up").get<uint64_t>();
    report->bytes_down += json.at("bytes_down").get<uint64_t>();
    for (const Json& one : json.at("memory")) {
      report->memory.push_back({one.at("device"), one.at("peak_bytes"),
                                one.at("peak_bytes_of_all_sessions"),
                                one.at("peak_charged_bytes")});
    }
    for (const auto& [kernel, launches] : json.at("skipped").items())
      report->skipped[kernel] += launches.get<uint64_t>();
  } catch (const Json::exception&) {
    return {Code::kInvalid, "the server's report '" + path + "' cannot be read"};
  }
  return {};
}

std::string ToText(const RunReport& report) {
  using Number = unsigned long long;
  const bool is_dry = report.device_kind == "dry";
  std::string text;
  Line(&text, "---- report of this run: %s ----", report.device_name.c_str());
  if (is_dry) {
    Line(&text, "  DRY DEVICE: %llu launches, none executed; what the program printed is no result",
         static_cast<Number>(report.Launches()));
  } else {
    Line(&text, "  launches        %llu", static_cast<Number>(report.Launches()));
  }
  if (report.skips()) AddSkipped(report, &text);
  Line(&text, "  processes       %llu", static_cast<Number>(report.processes));
  Line(&text, "  calls           %llu (%llu records posted)",
       static_cast<Number>(report.AllCalls()), static_cast<Number>(report.posted));
  Line(&text, "  waits           %llu", static_cast<Number>(report.waits));
  Line(&text, "  bytes           %s up, %s down", Size(report.bytes_up).c_str(),
       Size(report.bytes_down).c_str());
  for (const DeviceUse& use : report.memory) {
    Line(&text, "  peak memory     device %d: %s (%llu bytes)%s", use.device,
         Size(use.peak_bytes).c_str(), static_cast<Number>(use.peak_bytes),
         use.all_sessions_bytes == use.peak_bytes
             ? ""
             : (", all processes " + Size(use.all_sessions_bytes)).c_str());
  }
  std::string names;
  for (const std::string& path : report.libraries) names.append(" ").append(FileName(path));
  if (!names.empty()) Line(&text, "  kernels from   %.450s", names.c_str());
  AddWaits(report, &text);
  AddCosts(report, &text);
  return text;
}

std::string ToJson(const RunReport& report) {
  Json json;
  json["device"] = report.device_name;
  json["kind"] = report.device_kind;
  json["executed"] = report.device_kind != "dry" && report.skipped.empty();
  json["exit_code"] = report.exit_code;
  json["wall_s"] = static_cast<double>(report.wall_ns) / 1e9;
  json["processes"] = report.processes;
  json["calls"] = report.AllCalls();
  json["launches"] = report.Launches();
  json["skipped_launches"] = report.Skipped();
  json["skipped"] = report.skipped;
  json["posted"] = report.posted;
  json["waits"] = report.waits;
  json["bytes_up"] = report.bytes_up;
  json["bytes_down"] = report.bytes_down;
  json["memory"] = Json::array();
  for (const DeviceUse& use : report.memory) {
    json["memory"].push_back({{"device", use.device},
                              {"peak_bytes", use.peak_bytes},
                              {"peak_bytes_of_all_processes", use.all_sessions_bytes},
                              {"peak_charged_bytes", use.charged_bytes}});
  }
  json["libraries"] = report.libraries;
  json["by_api"] = Json::object();
  for (const auto& [name, count] : report.calls) {
    json["by_api"][name] = {{"calls", count.calls},
                            {"posted", count.posted},
                            {"waited", count.waited},
                            {"local", count.local},
                            {"wait_ns", count.wait_ns}};
  }
  json["cost_formula"] =
      "seconds = waits * rtt_ms / 1e3 + 8 * (bytes_up + bytes_down) / (gbit * 1e9)";
  json["cost"] = Json::array();
  for (const Network& network : ReportedNetworks()) {
    json["cost"].push_back(
        {{"rtt_ms", network.round_trip_ms},
         {"gbit", network.gigabits},
         {"seconds", AddedSeconds(report, network.round_trip_ms, network.gigabits)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace farcall::cli
