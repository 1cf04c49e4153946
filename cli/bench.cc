// SPDX-License-Identifier: Apache-2.0
// `farcall bench`: what the machine gives and what we make of it, side by side in one run.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/driver_figures.h"
#include "bench/raw_loopback.h"
#include "cli/commands.h"
#include "cli/find_server.h"
#include "cli/output/table.h"
#include "cli/programs/client_environment.h"
#include "cli/programs/private_server.h"

namespace farcall::cli {

namespace {

using Json = nlohmann::ordered_json;
constexpr unsigned kLanes = 2;  // as a session opens

struct BenchFlags {
  std::string endpoint, device, place = "free";
  bool json = false;
  bool only_start = false;
};

int Fail(const std::string& why) {
  std::fprintf(stderr, "farcall bench: %s\n", why.c_str());
  return 1;
}

// Starts this binary again to measure one program start; a warm one if the caches are filled by an
// earlier one.
Json MeasureStartInChild() {
  char stats[] = "/tmp/farcall-bench-XXXXXX";
  int file = mkstemp(stats);
  if (file < 0) return {};
  close(file);
  setenv("FARCALL_STATS", stats, 1);
  std::string command = "'" + OwnPath() + "' bench --only-start";
  FILE* child = popen(command.c_str(), "r");
  double start_ms = 0;
  bool measured = child != nullptr && std::fscanf(child, "%lf", &start_ms) == 1;
  if (child != nullptr) pclose(child);
  unsetenv("FARCALL_STATS");
  std::ifstream written(stats);
  Json counts = Json::parse(written, nullptr, false);
  unlink(stats);
  if (!measured || !counts.contains("round_trips")) return {};
  return {{"start_ms", start_ms}, {"start_round_trips", counts["round_trips"]}};
}

int OnlyStart() {
  Result<double> start_ms = bench::MeasureStartOnly("libcuda.so.1");
  if (!start_ms.ok()) return Fail(start_ms.status().message());
  std::printf("%.3f\n", *start_ms);
  return 0;
}

Json Report(const std::string& place, const bench::RawFigures& raw,
            const bench::DriverFigures& ours, const Json& start) {
  Json copies = Json::array();
  for (const bench::CopyFigure& copy : ours.copies) {
    copies.push_back(
        {{"bytes", copy.bytes}, {"h2d_GBps", copy.h2d_GBps}, {"d2h_GBps", copy.d2h_GBps}});
  }
  const bench::CopyFigure& largest = ours.copies.back();
  Json farcall = {{"launch_ns", ours.launch_ns},
                  {"launch_wall_ns", ours.launch_wall_ns},
                  {"launches_per_s", ours.launches_per_s},
                  {"sync_us", ours.sync_us},
                  {"h2d_GBps", largest.h2d_GBps},
                  {"d2h_GBps", largest.d2h_GBps},
                  {"h2d_cpu_s_per_GiB", largest.h2d_cpu_s_per_GiB},
                  {"d2h_cpu_s_per_GiB", largest.d2h_cpu_s_per_GiB}};
  farcall.update(start);
  farcall["copies"] = copies;
  return {{"policy",
           {{"wait", "spin as long as answers take, at most 50 us, then block"},
            {"place", place},
            {"congestion", raw.congestion},
            {"lanes", raw.lanes}}},
          {"raw",
           {{"rtt_us", raw.rtt_us},
            {"rtt_blocking_us", raw.rtt_blocking_us},
            {"stream_GBps", raw.stream_GBps},
            {"stream_cpu_s_per_GiB", raw.stream_cpu_s_per_GiB},
            {"memcpy_GBps", raw.memcpy_GBps}}},
          {"farcall", farcall},
          {"ratio",
           {{"sync", ours.sync_us / raw.rtt_us},
            {"h2d", largest.h2d_GBps / raw.stream_GBps},
            {"d2h", largest.d2h_GBps / raw.stream_GBps},
            {"h2d_cpu", largest.h2d_cpu_s_per_GiB / raw.stream_cpu_s_per_GiB}}}};
}

// "12.3", "1.23 M": three digits, and never an exponent.
std::string Rounded(double value) {
  const char* unit = value >= 1e9 ? " G" : value >= 1e6 ? " M" : value >= 1e4 ? " k" : "";
  const double scaled = value >= 1e9   ? value / 1e9
                        : value >= 1e6 ? value / 1e6
                        : value >= 1e4 ? value / 1e3
                                       : value;
  char text[32];
  std::snprintf(text, sizeof(text),
                scaled >= 100  ? "%.0f%s"
                : scaled >= 10 ? "%.1f%s"
                               : "%.2f%s",
                scaled, unit);
  return text;
}

void Print(const Json& report) {
  const Json &raw = report["raw"], &ours = report["farcall"], &ratio = report["ratio"];
  auto number = [](const Json& part, const char* name) {
    return Rounded(part[name].get<double>());
  };
  std::fputs(Table({{"WHAT"}, {"FARCALL", true}, {"RAW TCP", true}, {"RATIO", true}, {"UNIT"}},
                   {{"synchronization", number(ours, "sync_us"), number(raw, "rtt_us"),
                     number(ratio, "sync"), "us"},
                    {"copy to the device", number(ours, "h2d_GBps"), number(raw, "stream_GBps"),
                     number(ratio, "h2d"), "GB/s"},
                    {"copy to the host", number(ours, "d2h_GBps"), number(raw, "stream_GBps"),
                     number(ratio, "d2h"), "GB/s"},
                    {"processor time of a copy", number(ours, "h2d_cpu_s_per_GiB"),
                     number(raw, "stream_cpu_s_per_GiB"), number(ratio, "h2d_cpu"), "s/GiB"},
                    {"kernel launch", number(ours, "launch_ns"), "-", "-", "ns"},
                    {"kernel launches", number(ours, "launches_per_s"), "-", "-", "1/s"},
                    {"start of a program", number(ours, "start_ms"), "-", "-", "ms"},
                    {"round trips of a start", number(ours, "start_round_trips"), "-", "-", ""}})
                 .c_str(),
             stdout);
  std::vector<Cells> rows;
  for (const Json& copy : ours["copies"]) {
    rows.push_back({BytesText(copy["bytes"].get<uint64_t>()), number(copy, "h2d_GBps"),
                    number(copy, "d2h_GBps")});
  }
  std::printf("\n%s",
              Table({{"COPY", true}, {"UP GB/s", true}, {"DOWN GB/s", true}}, rows).c_str());
  const Json& policy = report["policy"];
  std::printf("\nwaits: %s; place: %s; congestion control: %s; lanes: %u\n",
              policy["wait"].get<std::string>().c_str(), policy["place"].get<std::string>().c_str(),
              policy["congestion"].get<std::string>().c_str(), policy["lanes"].get<unsigned>());
}

// The processors of the client and of the other end; -1: any.
//   Errors  kInvalid (no such place, or none here for it)
Status Place(const BenchFlags& flags, int* client_cpu, int* peer_cpu) {
  if (flags.place == "free") return {};
  if (flags.place != "apart" && flags.place != "shared")
    return {Code::kInvalid, "--place is free, apart or shared, not \"" + flags.place + "\""};
  if (!flags.endpoint.empty())
    return {Code::kInvalid, "--place needs a private server: leave --endpoint out"};
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) {
      *client_cpu = *client_cpu < 0 ? cpu : *client_cpu;
      *peer_cpu = cpu;
    }
  }
  if (flags.place == "shared")
    *peer_cpu = *client_cpu;
  else if (*peer_cpu == *client_cpu)
    return {Code::kInvalid, "--place apart needs two processors"};
  return {};
}

int Bench(const BenchFlags& flags) {
  if (flags.only_start) return OnlyStart();
  if (DriverLibraryFolder().empty())
    return Fail("lib/farcall/libcuda.so.1 is not beside this binary's folder");
  bench::RawOptions options;
  options.lanes = kLanes;
  int client_cpu = -1;
  Status placed = Place(flags, &client_cpu, &options.peer_cpu);
  if (!placed.ok()) return Fail(placed.message());
  if (client_cpu >= 0) bench::PinToCpu(client_cpu);
  Result<bench::RawFigures> raw = bench::MeasureRaw(options);
  if (!raw.ok()) return Fail(raw.status().message());
  ClientSettings settings;
  if (flags.device.empty() && flags.place == "free") {
    Result<FoundServer> found = FindServer(flags.endpoint);
    if (!found.ok()) return Fail(found.status().message());
    settings.endpoint = found->url;
    if (!found->url.empty())
      std::fprintf(stderr, "farcall bench: %s (%s)\n", found->url.c_str(), found->source.c_str());
  }
  if (settings.endpoint.empty()) {
    // Leaked: the session in this process says goodbye after static destructors; the server ends
    // with the process.
    auto* server = new PrivateServer;
    if (options.peer_cpu >= 0) bench::PinToCpu(options.peer_cpu);  // the server inherits it
    Status started = server->Start(flags.device, "");
    if (!started.ok()) return Fail(started.message());
    if (client_cpu >= 0) bench::PinToCpu(client_cpu);
    settings.endpoint = server->url();
    settings.is_private = true;
    setenv("FARCALL_TOKEN", server->token().c_str(), 1);
  }
  for (const auto& [name, value] : ClientEnvironment(settings))
    setenv(name.c_str(), value.c_str(), 1);
  MeasureStartInChild();  // fills the caches
  Json start = MeasureStartInChild();
  if (start.empty()) return Fail("the measured start wrote no statistics");
  Result<bench::DriverFigures> ours = bench::MeasureDriver(DriverLibraryFolder() + "/libcuda.so.1");
  if (!ours.ok()) return Fail(ours.status().message());
  Json report = Report(flags.place, *raw, *ours, start);
  if (flags.json)
    std::printf("%s\n", report.dump(1).c_str());
  else
    Print(report);
  std::fflush(stdout);
  return 0;
}

}  // namespace

void AddBenchCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand("bench", "Measures calls and copies beside raw TCP");
  command->add_option("--endpoint", flags->endpoint, kServerHelp);
  command->add_option("--device", flags->device, "device of a private server: auto, cuda or cpu");
  command->add_option("--place", flags->place,
                      "client and server: free, apart (a processor each) or shared (one)");
  command->add_flag("--json", flags->json, "print the figures as JSON");
  command->add_flag("--only-start", flags->only_start)
      ->group("");  // how a start is measured: in a process of its own
  command->footer("Raw figures are of this host's loopback.\nExample: farcall bench --device cpu");
  command->callback([flags, &exit_code] { exit_code = Bench(*flags); });
}

}  // namespace farcall::cli
