// SPDX-License-Identifier: Apache-2.0
// `farcall doctor`: step by step what a user would have to check, a remedy for each finding.
// `farcall devices`: what is there.
#include <cstdio>
#include <memory>

#include "cli/client_environment.h"
#include "cli/commands.h"
#include "cli/doctor_program.h"
#include "cli/server_libraries.h"
#include "client-shim/core/settings.h"
#include "proto/printable.h"
#include "server/supervisor/serve_options.h"
#include "transport/handshake.h"

namespace farcall::cli {

namespace {

using client::Setting;
using client::Settings;

struct Target {
  std::string endpoint, token;
};

// Flags beat environment beat files.
Target FindTarget(const std::string& flag, const Settings& settings) {
  Target target;
  target.endpoint = flag.empty() ? settings.Find("endpoint").value : flag;
  target.token = settings.Find("token").value;
  std::string file = settings.Find("token_file").value;
  if (target.token.empty() && !file.empty()) {
    Result<std::string> token = server::ReadTokenFile(file);
    if (token.ok()) target.token = *token;
  }
  return target;
}

Result<Welcome> Ask(Channel& channel, const Target& target) {
  Hello hello;
  hello.program = "farcall doctor";
  hello.client_version = FARCALL_VERSION;
  Result<Welcomed> welcomed =
      ClientHandshake(channel, hello, ClientCredentials::OfToken(target.token),
                      Clock::now() + std::chrono::seconds(20));
  return welcomed.ok() ? Result<Welcome>(std::move(welcomed->welcome)) : welcomed.status();
}

std::string DeviceLine(size_t index, const DeviceSnapshot& device) {
  char line[512];
  std::snprintf(line, sizeof(line), "%zu  %s  %.1f GiB  %s", index, device.name.c_str(),
                static_cast<double>(device.total_bytes) / (1ull << 30), device.pci_bus_id.c_str());
  return line;
}

nlohmann::ordered_json DeviceList(const std::vector<DeviceSnapshot>& devices) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const DeviceSnapshot& device : devices) {
    list.push_back({{"name", device.name},
                    {"total_bytes", device.total_bytes},
                    {"pci_bus_id", device.pci_bus_id}});
  }
  return list;
}

// What won, and where it stands. The token's value is nobody's to read.
void TellSettings(const Settings& settings, const std::string& endpoint, Findings& findings) {
  if (!endpoint.empty()) findings.Note("endpoint = " + endpoint + "  (--endpoint)");
  for (std::string_view name : Settings::Names()) {
    Setting setting = settings.Find(name);
    if (setting.value.empty() || (name == "endpoint" && !endpoint.empty())) continue;
    findings.Note(std::string(name) + " = " + (name == "token" ? "(set)" : setting.value) + "  (" +
                  setting.source + ")");
  }
}

// Settings and files of this machine.
Settings ExamineClient(const std::string& endpoint, Findings& findings) {
  Settings settings = Settings::Load(Settings::Files());
  std::string folder = DriverLibraryFolder();
  findings.Say(!folder.empty(), "driver library " + (folder.empty() ? "missing" : "in " + folder),
               "install again, or build the target farcall_shim_cuda");
  findings.Say(settings.error().empty(),
               settings.error().empty() ? "settings" : "settings: " + settings.error(),
               "mend or remove that file");
  TellSettings(settings, endpoint, findings);
  return settings;
}

void ExamineServer(const Target& target, Findings& findings) {
  Result<std::unique_ptr<Channel>> channel =
      Dial(target.endpoint, Clock::now() + std::chrono::seconds(5));
  // What to do stands in the message, as its cause does.
  if (!findings.Say(channel.ok(), channel.ok() ? "reachable" : channel.status().message())) return;
  Result<Welcome> welcome = Ask(**channel, target);
  if (!findings.Say(welcome.ok(), welcome.ok() ? "server " + welcome->server_version + " on " +
                                                     welcome->server_host + " welcomes us"
                                               : welcome.status().message()))
    return;
  findings.Say(!welcome->devices.empty(),
               std::to_string(welcome->devices.size()) + " " + welcome->device_kind + " device(s)",
               "the server sees no device: nvidia-smi there, or serve --device cpu");
  for (size_t i = 0; i < welcome->devices.size(); ++i)
    findings.Note(DeviceLine(i, welcome->devices[i]));
  findings.Attach("devices", DeviceList(welcome->devices));
}

struct DoctorFlags {
  bool json = false;
  ProgramQuestion question;
};

int Doctor(DoctorFlags flags) {
  Findings findings(flags.json);
  ProgramQuestion& question = flags.question;
  if (!question.endpoint.empty() && !question.device.empty()) {
    std::fprintf(stderr, "farcall doctor: give --endpoint or --device, not both\n");
    return 2;
  }
  const Settings settings = ExamineClient(question.endpoint, findings);
  bool is_private = !question.device.empty();
  if (!is_private) {
    Target target = FindTarget(question.endpoint, settings);
    question.endpoint = target.endpoint;
    if (target.endpoint.empty() && !question.command.empty()) {
      is_private = true;
    } else if (findings.Say(
                   !target.endpoint.empty(),
                   target.endpoint.empty() ? "no endpoint" : "endpoint " + target.endpoint,
                   "set FARCALL_ENDPOINT=tcp://host:port, endpoint in config.toml, or give "
                   "--endpoint")) {
      ExamineServer(target, findings);
    }
  }
  if (!question.command.empty() && findings.good()) ExamineProgram(question, findings);
  findings.Finish();
  return findings.good() ? 0 : 1;
}

struct DevicesFlags {
  std::string endpoint;
  bool json = false, libraries = false;
};

int Devices(const DevicesFlags& flags) {
  const Settings settings = Settings::Load(Settings::Files());
  if (!settings.error().empty()) {
    std::fprintf(stderr, "farcall devices: %s\n", settings.error().c_str());
    return 1;
  }
  Target target = FindTarget(flags.endpoint, settings);
  if (target.endpoint.empty()) {
    std::fprintf(
        stderr,
        "farcall devices: no endpoint; set FARCALL_ENDPOINT=tcp://host:port or give --endpoint\n");
    return 1;
  }
  Result<std::unique_ptr<Channel>> channel =
      Dial(target.endpoint, Clock::now() + std::chrono::seconds(5));
  Result<Welcome> welcome =
      channel.ok() ? Ask(**channel, target) : Result<Welcome>(channel.status());
  if (!welcome.ok()) {
    std::fprintf(stderr, "farcall devices: %s: %s\n", target.endpoint.c_str(),
                 welcome.status().message().c_str());
    return 1;
  }
  std::vector<ServerLibrary> libraries;
  if (flags.libraries) {
    ClientSettings client;
    client.endpoint = target.endpoint;
    libraries = AskServerLibraries(ClientEnvironment(client));
    if (libraries.empty()) {
      std::fprintf(stderr, "farcall devices: %s: its libraries cannot be asked\n",
                   target.endpoint.c_str());
      return 1;
    }
  }
  if (flags.json) {
    nlohmann::ordered_json list = DeviceList(welcome->devices);
    if (flags.libraries) list = {{"devices", list}, {"libraries", LibraryList(libraries)}};
    std::printf("%s\n", list.dump(2, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
    return 0;
  }
  for (size_t i = 0; i < welcome->devices.size(); ++i)
    std::printf("  %s\n", Printable(DeviceLine(i, welcome->devices[i]), kMaxMessageBytes).c_str());
  for (const ServerLibrary& library : libraries)
    std::printf("  %s\n", Printable(LibraryLine(library), kMaxMessageBytes).c_str());
  return 0;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* doctor =
      app.add_subcommand("doctor", "Checks settings, connection and server, and what CMD loads");
  doctor->add_option("--endpoint", flags->question.endpoint,
                     "the server (default: FARCALL_ENDPOINT, then config.toml)");
  doctor->add_option("--device", flags->question.device,
                     "device of a private server for CMD: auto, cuda, cpu or dry");
  doctor->add_option("--seconds", flags->question.seconds, "seconds after which CMD is stopped")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  doctor->add_flag(
      "--thin", flags->question.thin,
      "start CMD as `farcall run --thin` does, and check that no library of NVIDIA's is loaded");
  doctor->add_flag(
      "--no-audit", flags->question.no_audit,
      "with --thin: set LD_LIBRARY_PATH only, to see what is found before Farcall's libraries");
  doctor->add_flag(
      "--audit", flags->question.audit,
      "without --thin: start CMD as `farcall run` does, with Farcall's libraries before RPATHs");
  doctor->add_flag("--json", flags->json, "print the findings as JSON");
  doctor->add_option("command", flags->question.command,
                     "a program to run and examine, with its arguments");
  doctor->positionals_at_end();
  doctor->footer(
      "Example: farcall doctor --audit --endpoint tcp://gpu-host:7717 -- python -c 'import torch; "
      "torch.cuda.init()'");
  doctor->callback([flags, &exit_code] { exit_code = Doctor(*flags); });
  auto list = std::make_shared<DevicesFlags>();
  CLI::App* devices = app.add_subcommand("devices", "Lists the devices behind an endpoint");
  devices->add_option("--endpoint", list->endpoint,
                      "the server (default: FARCALL_ENDPOINT, then config.toml)");
  devices->add_flag("--libraries", list->libraries,
                    "also list the CUDA libraries that the server has for thin mode");
  devices->add_flag("--json", list->json, "print the findings as JSON");
  devices->footer("Example: farcall devices --endpoint tcp://gpu-host:7717");
  devices->callback([list, &exit_code] { exit_code = Devices(*list); });
}

}  // namespace farcall::cli
