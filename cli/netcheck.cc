// SPDX-License-Identifier: Apache-2.0
// `farcall netcheck`: the transports to a server side by side, and how long a program would
// wait on each.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/driver_figures.h"
#include "cli/commands.h"
#include "cli/find_server.h"
#include "cli/output/table.h"
#include "cli/programs/client_environment.h"
#include "settings/exit_code.h"
#include "transport/channel.h"
#include "transport/url.h"

namespace farcall::cli {

namespace {

using Json = nlohmann::ordered_json;

struct NetcheckFlags {
  std::string endpoint, report;
  bool json = false;
  bool only_path = false;
};

int Fail(const std::string& why, int code = 1) {
  std::fprintf(stderr, "farcall netcheck: %s\n", why.c_str());
  return code;
}

// What the other process prints: FARCALL_TRANSPORT holds for all of a process.
int OnlyPath() {
  Result<bench::PathFigures> path = bench::MeasurePath("libcuda.so.1");
  if (!path.ok()) return Fail(path.status().message());
  const Json figures = {{"round_trip_us", path->round_trip_us},
                        {"up_bytes_per_s", path->up_bytes_per_s},
                        {"down_bytes_per_s", path->down_bytes_per_s},
                        {"copied_bytes", path->copied_bytes}};
  std::printf("%s\n", figures.dump().c_str());
  std::fflush(stdout);
  return 0;
}

// A row: figures of the transport, or why it was not measured.
Json Measure(const std::string& transport) {
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\rmeasuring %s ...   ", transport.c_str());
  setenv("FARCALL_TRANSPORT", transport.c_str(), 1);
  const std::string command = "'" + OwnPath() + "' netcheck --only-path";
  std::string text;
  FILE* child = popen(command.c_str(), "r");
  for (int c = 0; child != nullptr && (c = std::fgetc(child)) != EOF && text.size() < 4096;)
    text += static_cast<char>(c);
  if (child != nullptr) pclose(child);
  if (isatty(STDERR_FILENO) != 0) std::fputs("\r                         \r", stderr);
  Json row = {{"transport", transport}};
  const Json figures = Json::parse(text, nullptr, false);
  if (!figures.is_object() || !figures.contains("round_trip_us")) {
    row["why_not"] = "it could not be measured: the reason is on the standard error";
    return row;
  }
  row.update(figures);
  return row;
}

// The transports that the server has for this client.
std::vector<Json> MeasureAll(const FoundServer& server, const Welcome& welcome) {
  const std::string scheme(SchemeOf(server.url));
  std::vector<Json> rows = {Measure(scheme)};
  if (scheme != "tcp") return rows;  // the endpoint asks for this one
  Json shm = {{"transport", "shm"}};
  if (welcome.shm_path.empty())
    shm["why_not"] = "the server offers no shared memory (serve --shm auto does)";
  else if (Status dialed =
               Dial("shm://" + welcome.shm_path, Clock::now() + std::chrono::seconds(1)).status();
           !dialed.ok())
    shm["why_not"] = dialed.message();
  else
    shm = Measure("shm");
  rows.push_back(std::move(shm));
  return rows;
}

// What a program waits for, as its report counts it (docs/reference/dry-device.md).
struct Program {
  double waits = 0, bytes_up = 0, bytes_down = 0;
};

Result<Program> ReadReport(const std::string& path) {
  std::ifstream file(path);
  const Json report = Json::parse(file, nullptr, false);
  for (const char* name : {"waits", "bytes_up", "bytes_down"}) {
    if (!report.is_object() || !report.contains(name) || !report[name].is_number()) {
      return Status(Code::kInvalid, "--report '" + path + "': has no '" + name +
                                        "': give a file that `farcall run --device dry --report "
                                        "FILE -- PROGRAM` wrote");
    }
  }
  return Program{report["waits"].get<double>(), report["bytes_up"].get<double>(),
                 report["bytes_down"].get<double>()};
}

void Predict(const Program& program, Json* row) {
  if (!row->contains("why_not")) {
    (*row)["network_seconds"] = program.waits * (*row)["round_trip_us"].get<double>() / 1e6 +
                                program.bytes_up / (*row)["up_bytes_per_s"].get<double>() +
                                program.bytes_down / (*row)["down_bytes_per_s"].get<double>();
  }
}

std::string Fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : "%.3g", value);
  return text;
}

void Print(const std::vector<Json>& rows, bool has_program) {
  std::vector<Column> columns = {
      {"TRANSPORT"}, {"ROUND TRIP us", true}, {"UP MB/s", true}, {"DOWN MB/s", true}};
  if (has_program) columns.push_back({"PROGRAM WAITS s", true});
  std::vector<Cells> cells;
  std::string notes;
  for (const Json& row : rows) {
    const auto transport = row["transport"].get<std::string>();
    if (row.contains("why_not")) {
      notes += transport + ": " + row["why_not"].get<std::string>() + "\n";
      continue;
    }
    cells.push_back({transport, Fixed(row["round_trip_us"].get<double>()),
                     Fixed(row["up_bytes_per_s"].get<double>() / 1e6),
                     Fixed(row["down_bytes_per_s"].get<double>() / 1e6)});
    if (has_program) cells.back().push_back(Fixed(row["network_seconds"].get<double>()));
  }
  std::fputs((Table(columns, cells) + notes).c_str(), stdout);
}

int Netcheck(const NetcheckFlags& flags) {
  if (flags.only_path) return OnlyPath();
  if (DriverLibraryFolder().empty())
    return Fail("lib/farcall/libcuda.so.1 is not beside this binary's folder");
  Program program;
  if (!flags.report.empty()) {
    Result<Program> read = ReadReport(flags.report);
    if (!read.ok()) return Fail(read.status().message(), kExitUsage);
    program = *read;
  }
  Result<FoundServer> server = FindServer(flags.endpoint);
  if (!server.ok()) return Fail(server.status().message(), kExitUsage);
  if (server->url.empty() || server->is_pool()) {
    return Fail(server->url.empty()
                    ? "no server is named and none runs here: give --endpoint HOST"
                    : "a pool has many servers: give --endpoint of one that is in no pool",
                kExitUsage);
  }
  if (server->is_list())
    return Fail(server->url + " names several servers: give --endpoint of one", kExitUsage);
  Result<QueryAnswer> answer = AskServer(*server);
  if (!answer.ok()) return Fail(answer.status().message());
  ClientSettings settings;
  settings.endpoint = server->url;
  for (const auto& [name, value] : ClientEnvironment(settings))
    setenv(name.c_str(), value.c_str(), 1);
  std::vector<Json> rows = MeasureAll(*server, answer->welcome);
  bool is_measured = false;
  for (Json& row : rows) {
    is_measured = is_measured || !row.contains("why_not");
    if (!flags.report.empty()) Predict(program, &row);
  }
  if (flags.json) {
    std::printf("%s\n", Json{{"endpoint", server->url}, {"transports", rows}}.dump(1).c_str());
  } else {
    std::printf("%s (%s)\n", server->url.c_str(), server->source.c_str());
    Print(rows, !flags.report.empty());
  }
  return is_measured ? 0 : 1;
}

}  // namespace

void AddNetcheckCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<NetcheckFlags>();
  CLI::App* command = app.add_subcommand("netcheck", "Measures each transport to a server");
  command->add_option("--endpoint", flags->endpoint, kServerHelp);
  command->add_option("--report", flags->report,
                      "file that `farcall run --device dry --report FILE` wrote: say how long that "
                      "program would wait on each transport");
  command->add_flag("--json", flags->json, "print the figures as JSON");
  command->add_flag("--only-path", flags->only_path)->group("");
  command->footer(
      "It opens a session over each transport, and copies up to 64 MiB several times.\n"
      "Example: farcall netcheck --endpoint gpu-host --report cost.json");
  command->callback([flags, &exit_code] { exit_code = Netcheck(*flags); });
}

}  // namespace farcall::cli
