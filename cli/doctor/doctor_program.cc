// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/doctor_program.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include "cli/programs/client_environment.h"
#include "cli/programs/elf_symbols.h"
#include "cli/programs/framework_environment.h"
#include "cli/programs/private_server.h"
#include "cli/programs/program_probe.h"
#include "cli/programs/server_libraries.h"
#include "cli/programs/thin_libraries.h"
#include "generated/proto/call_info.h"
#include "proto/log_line.h"

namespace farcall::cli {

namespace {

namespace fs = std::filesystem;

bool StartsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// The libraries of CUDA, by the start of their names.
bool IsCudaLibrary(std::string_view path) {
  static constexpr std::string_view kStarts[] = {
      "libcuda.",      "libcudart",   "libcublas",       "libcudnn",     "libcufft",
      "libcurand",     "libcusolver", "libcusparse",     "libcufile",    "libcupti",
      "libcutensor",   "libnccl",     "libnvrtc",        "libnvJitLink", "libnvidia-ml",
      "libnvToolsExt", "libnvshmem",  "libnvptxcompiler"};
  std::string_view name =
      path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
  return std::any_of(std::begin(kStarts), std::end(kStarts),
                     [&](std::string_view start) { return StartsWith(name, start); });
}

std::string FileName(const std::string& path) {
  return fs::path(path).filename();
}

// SONAMEs that lie in our folder.
std::set<std::string> OurLibraries(const std::string& folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    std::string name = entry.path().filename();
    if (name.find(".so") != std::string::npos) names.insert(name);
  }
  return names;
}

bool IsIn(const std::string& file, const std::string& folder) {
  std::error_code error;
  return fs::equivalent(fs::path(file).parent_path(), folder, error) && !error;
}

bool IsOurs(const std::string& file) {
  return IsIn(file, DriverLibraryFolder()) || IsIn(file, ThinLibraryFolder());
}

std::string Remedy(const LibraryLookup& lookup) {
  if (StartsWith(lookup.reason, "RPATH"))
    return "that RPATH comes before LD_LIBRARY_PATH: start the program with `farcall run`, which "
           "goes past it, or move " +
           FileName(lookup.file) + " out of that folder";
  if (lookup.reason == "its own path")
    return "the program opens it by its path: start it with `farcall run`, which answers with ours";
  return "put the folder of ours first in LD_LIBRARY_PATH, as `farcall run` and `farcall env` do";
}

// In thin mode nothing of NVIDIA's should be there.
void TellForeign(const std::set<std::string>& foreign, Findings& findings) {
  findings.Say(foreign.empty(),
               foreign.empty()
                   ? "none of NVIDIA's libraries is mapped"
                   : std::to_string(foreign.size()) + " of NVIDIA's libraries are mapped",
               "docs/reference/thin.md lists what thin mode takes the place of");
  for (const std::string& file : foreign) findings.Note(file);
  findings.Attach("mapped_not_ours", foreign);
}

// "libcudnn" of "/a/libcudnn.so.9".
std::string StemOf(const std::string& name) {
  const std::string file = FileName(name);
  return file.substr(0, file.find(".so"));
}

bool IsOtherVersionLoaded(const std::string& name, const std::vector<LibraryLookup>& lookups) {
  return std::any_of(lookups.begin(), lookups.end(), [&](const LibraryLookup& other) {
    return !other.file.empty() && StemOf(other.name) == StemOf(name);
  });
}

void TellNotFound(const LibraryLookup& lookup, const std::string& line, bool should_be,
                  bool has_other, Findings& findings) {
  if (should_be || !lookup.by_dlopen) {
    findings.Say(false, line + ": not found",
                 should_be ? Remedy(lookup)
                           : "install the package that it is in, or name its folder in "
                             "LD_LIBRARY_PATH");
  } else if (has_other) {
    // Many programs ask for one name after another.
    findings.Say(true, line + ": another version of it is loaded");
  } else {
    // Some are optional, and some decide whether a framework uses the GPU at all.
    findings.Warn(line + ": not found",
                  "if the program does not use the device, install that library or name its folder "
                  "in LD_LIBRARY_PATH");
  }
}

void TellLibraries(const std::vector<LibraryLookup>& lookups, bool thin, Findings& findings) {
  std::set<std::string> ours = OurLibraries(DriverLibraryFolder()), foreign;
  if (thin)
    for (const std::string& name : FindThinLibraries(ThinLibraryFolder()).ours) ours.insert(name);
  std::set<std::string> loaded;  // of ours, by name
  for (const LibraryLookup& lookup : lookups)
    if (!lookup.file.empty() && IsOurs(lookup.file)) loaded.insert(FileName(lookup.name));
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  bool driver = false;
  for (const LibraryLookup& lookup : lookups) {
    if (!IsCudaLibrary(lookup.name)) continue;
    bool is_ours = !lookup.file.empty() && IsOurs(lookup.file);
    if (!lookup.file.empty() && !is_ours) foreign.insert(lookup.file);
    bool should_be = ours.count(FileName(lookup.name)) > 0;
    driver |= is_ours && FileName(lookup.name) == "libcuda.so.1";
    list.push_back({{"name", lookup.name},
                    {"file", lookup.file},
                    {"why", lookup.reason},
                    {"wanted_by", lookup.wanted_by},
                    {"dlopen", lookup.by_dlopen},
                    {"ours", is_ours}});
    std::string line = lookup.name + (lookup.by_dlopen ? ", opened by " : ", needed by ") +
                       FileName(lookup.wanted_by);
    const std::string whole = thin ? WholeOf(FileName(lookup.name)) : FileName(lookup.name);
    if (lookup.file.empty() && ours.count(whole) > 0 && loaded.count(whole) > 0) {
      findings.Say(true, line + ": the one that is loaded (ours)");
    } else if (lookup.file.empty() && should_be && lookup.by_dlopen &&
               lookup.name.find('/') == std::string::npos) {
      // Its folder is on the search path: dlopen was told not to load it (RTLD_NOLOAD).
      findings.Say(true, line + ": asked only whether it is loaded");
    } else if (lookup.file.empty()) {
      TellNotFound(lookup, line, should_be, IsOtherVersionLoaded(lookup.name, lookups), findings);
    } else {
      findings.Say(is_ours || !should_be,
                   line + ": " + lookup.file + " (" + lookup.reason + (is_ours ? "; ours)" : ")"),
                   Remedy(lookup));
    }
  }
  findings.Attach("libraries", std::move(list));
  if (thin) TellForeign(foreign, findings);
  findings.Say(driver,
               driver ? "the driver library is ours" : "the program never got our libcuda.so.1",
               "it uses no CUDA, ends before it asks for it, is statically linked, or setuid: such "
               "programs ignore "
               "LD_LIBRARY_PATH");
}

// Calls that the program's objects link to and that we answer with an error, by name.
std::map<std::string, std::string> LinkedInVain(const std::vector<LibraryLookup>& lookups) {
  std::set<std::string_view> served, known;
  for (uint16_t id = 1; id < kCallIdCount; ++id) {
    known.insert(CallName(id));
    if (kCallInfo[id].call_class != CallClass::kUnsupported) served.insert(CallName(id));
  }
  std::map<std::string, std::string> missing;
  std::set<std::string> objects;
  for (const LibraryLookup& lookup : lookups) {
    if (!lookup.file.empty() && !IsOurs(lookup.file)) objects.insert(lookup.file);
    if (lookup.name == "libcuda.so.1" && !lookup.by_dlopen) objects.insert(lookup.wanted_by);
  }
  for (const std::string& object : objects) {
    Result<std::vector<std::string>> symbols = UndefinedSymbols(object);
    if (!symbols.ok()) continue;
    for (const std::string& symbol : *symbols)
      if (known.count(symbol) > 0 && served.count(symbol) == 0) missing[symbol] = object;
  }
  return missing;
}

void TellMissing(const ProgramReport& report, Findings& findings) {
  std::map<std::string, std::string> linked = LinkedInVain(report.lookups);
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const auto& [name, object] : linked) names.push_back(name);
  findings.Say(linked.empty(),
               linked.empty() ? "every driver call its objects link to is served"
                              : std::to_string(linked.size()) +
                                    " driver calls it links to answer NOT_SUPPORTED",
               "docs/reference/coverage.md lists them; they matter only if the program calls them");
  for (const auto& [name, object] : linked) findings.Note(name + " (" + FileName(object) + ")");
  findings.Attach("linked_not_supported", std::move(names));
}

std::string WithoutHead(const std::string& line) {
  return std::string(ParseLogLine(line).text);
}

// What to do about a line of our library's log; empty: nothing is known beyond the line. A line
// that is only for information explains a failure, and is none.
std::string RemedyOfLine(const std::string& line) {
  const auto has = [&](std::string_view text) { return line.find(text) != std::string::npos; };
  if (has(": out of memory: "))
    return "the vGPU's quota or the device is full, as farcall top shows: ask for more with --mem, "
           "or raise the server's --mem";
  if (has(" failed on the server with 209") || has(" failed on the server with 218") ||
      has(" failed on the server with 222"))
    return "no kernel image for this device: use a server with a GPU, or build with PTX "
           "(-arch=compute_90), which the CPU device needs";
  if (has(" failed on the server with ") || has(": module load: "))
    return "docs/reference/coverage.md and docs/reference/cpu-device.md say what each device can "
           "do";
  return "";
}

// What our library logged while the program ran: asked for in vain, refused by the device, anything
// else of weight. A program that ended well has dealt with a refusal.
void TellLog(const ProgramReport& report, Findings& findings) {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  const bool ended_well = report.exit_code == 0 && !report.timed_out;
  for (const std::string& line : report.log) {
    const LogSeverity severity = ParseLogLine(line).severity;
    const bool grave = severity == LogSeverity::kWarn || severity == LogSeverity::kError;
    const std::string remedy = RemedyOfLine(line);
    if (!grave && remedy.empty()) continue;
    lines.push_back(WithoutHead(line));
    const bool is_full = line.find(": out of memory: ") != std::string::npos;
    const std::string what =
        (remedy.empty() || is_full ? "the program met: " : "the device refused: ") +
        WithoutHead(line);
    if (!grave && ended_well)
      findings.Warn(what, remedy);
    else
      findings.Say(false, what, remedy);
  }
  if (lines.empty()) findings.Say(true, "nothing it asked for was refused");
  findings.Attach("met", std::move(lines));
}

// What stands behind thin mode's: a program that needs one that is not there is refused by name.
void TellServerLibraries(const std::vector<ServerLibrary>& libraries, Findings& findings) {
  size_t there = 0;
  for (const ServerLibrary& library : libraries) there += library.version.empty() ? 0 : 1;
  if (libraries.empty()) return;
  findings.Say(there != 0,
               "the server has " + std::to_string(there) + " of " +
                   std::to_string(libraries.size()) + " libraries for thin mode",
               "install CUDA's toolkit or NVIDIA's packages there, or name their folders in its "
               "FARCALL_LIBRARIES");
  for (const ServerLibrary& library : libraries) findings.Note(LibraryLine(library));
  findings.Attach("server_libraries", LibraryList(libraries));
}

std::string HowItEnded(const ProgramReport& report, int seconds) {
  if (report.timed_out)
    return "ended by farcall doctor after " + std::to_string(seconds) + " s (--seconds)";
  if (report.exit_code >= 128) return "signal " + std::to_string(report.exit_code - 128);
  return "exit code " + std::to_string(report.exit_code);
}

// What the program itself was told: `connected to URL (KIND, N devices)`.
bool WasOnDryDevice(const ProgramReport& report) {
  return std::any_of(report.log.begin(), report.log.end(), [](const std::string& line) {
    return line.find("connected to ") != std::string::npos &&
           line.find(" (dry, ") != std::string::npos;
  });
}

}  // namespace

void ExamineProgram(const ProgramQuestion& question, Findings& findings) {
  ClientSettings settings;
  settings.endpoint = question.endpoint;
  settings.thin = question.thin;
  if (question.thin && !findings.Say(!ThinLibraryFolder().empty(), "thin mode's libraries",
                                     "lib/farcall/thin is not beside this binary's folder"))
    return;
  PrivateServer server;
  if (settings.endpoint.empty()) {
    Status started = server.Start(question.device, "");
    if (!findings.Say(started.ok(),
                      started.ok() ? "private server on " + server.url() : started.message(),
                      "name a server with --endpoint, or a device with --device"))
      return;
    settings.endpoint = server.url();
    settings.is_private = true;
  }
  auto environment = ClientEnvironment(settings);
  for (auto& [name, value] : environment) {
    if (name != "LD_LIBRARY_PATH") continue;
    const Variables more = WheelEnvironment(question.command[0], value);
    if (!more.empty()) value = more[0].second;
  }
  if (!server.token().empty()) environment.emplace_back("FARCALL_TOKEN", server.token());
  if (question.thin) TellServerLibraries(AskServerLibraries(environment), findings);
  if (question.audit || (question.thin && !question.no_audit))
    environment.emplace_back("LD_AUDIT", AuditorVariable());
  Result<ProgramReport> report = ProbeProgram(question.command, environment, question.seconds);
  if (!findings.Say(report.ok(),
                    report.ok() ? "ran " + question.command[0] : report.status().message()))
    return;
  findings.Say(
      report->exit_code == 0 || report->timed_out, HowItEnded(*report, question.seconds),
      WasOnDryDevice(*report)
          ? "the dry device executes no kernel, so a program that checks its values fails; "
            "what it said itself stands on stderr"
          : "what the program itself said stands on stderr");
  findings.Begin("loaded");
  TellLibraries(report->lookups, question.thin, findings);
  findings.Begin("calls");
  TellMissing(*report, findings);
  TellLog(*report, findings);
}

}  // namespace farcall::cli
