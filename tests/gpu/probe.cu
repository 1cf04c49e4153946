// SPDX-License-Identifier: Apache-2.0
// Measures what a GPU's driver does where CUDA's manuals are silent: address hints, the cost of
// virtual memory calls, which calls wait for running work, launch, event and copy costs.
//
//   nvcc probe.cu probe_*.cu -o probe && ./probe [--json FILE] [SECTION ...]
//
// Expect a table, and JSON in FILE. A section runs in a process of its own: one that fails, hangs
// or breaks its context takes nothing else along. Without a device: one line, exit code 1.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>

#include "probe_support.h"

namespace probe {
namespace {

struct Section {
  const char* name;
  const char* what;
  void (*run)();
};

const Section kSections[] = {
    {"device", "what device this is", ProbeDevice},
    {"address_hints", "cuMemAddressReserve at a wanted address", ProbeAddressHints},
    {"vmm", "cost of virtual memory calls", ProbeVmm},
    {"vmm_smoke", "create, map, write, read back", ProbeVmmSmoke},
    {"sharing", "exporting memory as a file descriptor", ProbeSharing},
    {"allocation", "cost of allocation", ProbeAllocation},
    {"synchronising", "which calls wait for running work", ProbeSynchronising},
    {"unmap_in_use", "unmapping memory that a running kernel uses", ProbeUnmapInUse},
    {"context", "contexts: time and device memory", ProbeContext},
    {"launch", "launch cost", ProbeLaunch},
    {"events", "events and idle queries", ProbeEvents},
    {"completion", "how soon the host learns of completed work", ProbeCompletion},
    {"bandwidth", "copies", ProbeBandwidth},
};
constexpr unsigned kSectionSeconds = 60;

struct Result {
  std::string name, unit, value, note;
};

struct Outcome {
  std::string status = "ok";
  std::vector<Result> results;
};

int report_fd = -1;  // where the running section writes its results, a line each

void WriteLine(const std::string& line) {
  if (write(report_fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) _exit(3);
}

// One line "name \t unit \t value \t note" each; "!" opens the section's error.
Outcome Parse(const std::string& text) {
  Outcome outcome;
  for (size_t start = 0, end; start < text.size(); start = end + 1) {
    end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    if (line[0] == '!') {
      outcome.status = line.substr(1);
      continue;
    }
    std::string fields[4];
    for (int i = 0; i < 4; ++i) {
      const size_t tab = i < 3 ? line.find('\t') : line.size();
      fields[i] = line.substr(0, tab);
      line = tab < line.size() ? line.substr(tab + 1) : "";
    }
    outcome.results.push_back({fields[0], fields[1], fields[2], fields[3]});
  }
  return outcome;
}

Outcome RunSection(const Section& section) {
  int ends[2];
  std::fflush(stdout);
  if (pipe(ends) != 0) return {"cannot open a pipe", {}};
  const pid_t child = fork();
  if (child < 0) return {"cannot start a process", {}};
  if (child == 0) {
    close(ends[0]);
    report_fd = ends[1];
    setpgid(0, 0);
    alarm(kSectionSeconds);
    section.run();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof(buffer))) > 0;) text.append(buffer, size);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  kill(-child, SIGKILL);  // whatever processes the section itself left
  Outcome outcome = Parse(text);
  if (WIFSIGNALED(status)) {
    outcome.status = WTERMSIG(status) == SIGALRM
                         ? "no end after " + std::to_string(kSectionSeconds) + " s"
                         : "ended by signal " + std::to_string(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0 && outcome.status == "ok") {
    outcome.status = "ended with code " + std::to_string(WEXITSTATUS(status));
  }
  return outcome;
}

void PrintTable(const Section& section, const Outcome& outcome) {
  std::printf("\n%s: %s\n", section.name, section.what);
  for (const Result& result : outcome.results) {
    std::printf("  %-46s %14s %-5s %s\n", result.name.c_str(), result.value.c_str(),
                result.unit.c_str(), result.note.c_str());
  }
  if (outcome.status != "ok") std::printf("  not finished: %s\n", outcome.status.c_str());
  std::fflush(stdout);
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

bool WriteJson(const char* path, const std::map<std::string, Outcome>& outcomes) {
  std::FILE* file = std::fopen(path, "w");
  if (!file) return false;
  std::fprintf(file, "{");
  const char* comma = "";
  for (const auto& [name, outcome] : outcomes) {
    std::fprintf(file, "%s\n  %s: {\"status\": %s, \"results\": [", comma, Quoted(name).c_str(),
                 Quoted(outcome.status).c_str());
    const char* inner = "";
    for (const Result& result : outcome.results) {
      // Figures have a unit; findings in words have none and stand quoted.
      const std::string value = result.unit.empty() ? Quoted(result.value) : result.value;
      std::fprintf(file, "%s\n    {\"name\": %s, \"value\": %s, \"unit\": %s, \"note\": %s}", inner,
                   Quoted(result.name).c_str(), value.c_str(), Quoted(result.unit).c_str(),
                   Quoted(result.note).c_str());
      inner = ",";
    }
    std::fprintf(file, "]}");
    comma = ",";
  }
  std::fprintf(file, "\n}\n");
  return std::fclose(file) == 0;
}

}  // namespace

void Report(const std::string& name, double value, const std::string& unit,
            const std::string& note) {
  char number[64];
  std::snprintf(number, sizeof(number), "%.6g", value);
  WriteLine(name + "\t" + unit + "\t" + number + "\t" + note + "\n");
}

void ReportText(const std::string& name, const std::string& text, const std::string& note) {
  WriteLine(name + "\t\t" + text + "\t" + note + "\n");
}

void EndSection(const std::string& error) {
  WriteLine("!" + error + "\n");
  _exit(1);
}

int Main(int argc, char** argv) {
  const char* json = nullptr;
  std::vector<const Section*> chosen;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
      continue;
    }
    const auto* found =
        std::find_if(std::begin(kSections), std::end(kSections),
                     [&](auto& section) { return std::strcmp(section.name, argv[i]) == 0; });
    if (found == std::end(kSections)) {
      std::fprintf(stderr, "probe: no section '%s':", argv[i]);
      for (const Section& section : kSections) std::fprintf(stderr, " %s", section.name);
      std::fprintf(stderr, "\n");
      return 2;
    }
    chosen.push_back(found);
  }
  if (chosen.empty())
    for (const Section& section : kSections) chosen.push_back(&section);

  // A child looks for the device, for a process that used CUDA cannot fork.
  const Outcome device = RunSection(kSections[0]);
  if (device.results.empty()) {
    std::fprintf(stderr, "probe: no CUDA device: %s\n", device.status.c_str());
    return 1;
  }
  std::map<std::string, Outcome> outcomes;
  int unfinished = 0;
  for (const Section* section : chosen) {
    const Outcome outcome = section == &kSections[0] ? device : RunSection(*section);
    PrintTable(*section, outcome);
    unfinished += outcome.status != "ok";
    outcomes[section->name] = outcome;
  }
  if (json && !WriteJson(json, outcomes)) {
    std::fprintf(stderr, "probe: cannot write %s\n", json);
    return 1;
  }
  if (unfinished) std::fprintf(stderr, "probe: %d section(s) not finished\n", unfinished);
  return unfinished ? 3 : 0;
}

}  // namespace probe

int main(int argc, char** argv) {
  return probe::Main(argc, argv);
}
