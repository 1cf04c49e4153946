// SPDX-License-Identifier: Apache-2.0
// `farcall doctor`: step by step what a user would have to check, a remedy for each finding.
// `farcall devices`: what is there.
#include <cstdio>
#include <memory>

#include "cli/client_environment.h"
#include "cli/commands.h"
#include "client-shim/core/settings.h"
#include "server/serve_options.h"
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
  Hash256 key = Sha256(std::as_bytes(std::span(target.token)));
  std::span<const uint8_t> proof;
  if (!target.token.empty()) proof = key;
  return ClientHandshake(channel, hello, proof, Clock::now() + std::chrono::seconds(20));
}

bool Say(bool good, const std::string& what, const std::string& remedy = "") {
  std::printf("%-5s %s\n", good ? "ok" : "FAIL", what.c_str());
  if (!good && !remedy.empty()) std::printf("      %s\n", remedy.c_str());
  return good;
}

void PrintDevice(size_t index, const DeviceSnapshot& device) {
  std::printf("  %zu  %s  %.1f GiB  %s\n", index, device.name.c_str(),
              static_cast<double>(device.total_bytes) / (1ull << 30), device.pci_bus_id.c_str());
}

// What won, and where it stands. The token's value is nobody's to read.
void PrintSettings(const Settings& settings, const std::string& endpoint) {
  if (!endpoint.empty()) std::printf("      endpoint = %s  (--endpoint)\n", endpoint.c_str());
  for (std::string_view name : Settings::Names()) {
    Setting setting = settings.Find(name);
    if (setting.value.empty() || (name == "endpoint" && !endpoint.empty())) continue;
    std::printf("      %.*s = %s  (%s)\n", static_cast<int>(name.size()), name.data(),
                name == "token" ? "(set)" : setting.value.c_str(), setting.source.c_str());
  }
}

bool Doctor(const std::string& endpoint) {
  const Settings settings = Settings::Load(Settings::Files());
  std::string folder = DriverLibraryFolder();
  bool good =
      Say(!folder.empty(), "driver library " + (folder.empty() ? "missing" : "in " + folder),
          "install again, or build the target farcall_shim_cuda");
  good &= Say(settings.error().empty(),
              settings.error().empty() ? "settings" : "settings: " + settings.error(),
              "mend or remove that file");
  PrintSettings(settings, endpoint);
  Target target = FindTarget(endpoint, settings);
  if (!Say(!target.endpoint.empty(),
           target.endpoint.empty() ? "no endpoint" : "endpoint " + target.endpoint,
           "set FARCALL_ENDPOINT=tcp://host:port, endpoint in config.toml, or give --endpoint")) {
    return false;
  }
  Result<std::unique_ptr<Channel>> channel =
      Dial(target.endpoint, Clock::now() + std::chrono::seconds(5));
  if (!Say(channel.ok(), channel.ok() ? "reachable" : channel.status().message(),
           "is `farcall serve` running there, and does a firewall let the port through?")) {
    return false;
  }
  Result<Welcome> welcome = Ask(**channel, target);
  if (!Say(welcome.ok(),
           welcome.ok() ? "server " + welcome->server_version + " on " + welcome->server_host +
                              " welcomes us"
                        : welcome.status().message(),
           "check FARCALL_TOKEN or FARCALL_TOKEN_FILE, and that both sides are of the same "
           "release")) {
    return false;
  }
  good &= Say(!welcome->devices.empty(),
              std::to_string(welcome->devices.size()) + " " + welcome->device_kind + " device(s)",
              "the server sees no device: nvidia-smi there, or serve --device cpu");
  for (size_t i = 0; i < welcome->devices.size(); ++i) PrintDevice(i, welcome->devices[i]);
  return good;
}

int Devices(const std::string& endpoint) {
  const Settings settings = Settings::Load(Settings::Files());
  if (!settings.error().empty()) {
    std::fprintf(stderr, "farcall devices: %s\n", settings.error().c_str());
    return 1;
  }
  Target target = FindTarget(endpoint, settings);
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
  for (size_t i = 0; i < welcome->devices.size(); ++i) PrintDevice(i, welcome->devices[i]);
  return 0;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int& exit_code) {
  auto endpoint = std::make_shared<std::string>();
  CLI::App* doctor =
      app.add_subcommand("doctor", "Checks what stands between a program and its remote device");
  doctor->add_option("--endpoint", *endpoint, "the server");
  doctor->footer("Example: farcall doctor --endpoint tcp://gpu-host:7717");
  doctor->callback([endpoint, &exit_code] { exit_code = Doctor(*endpoint) ? 0 : 1; });
  CLI::App* devices = app.add_subcommand("devices", "Lists the devices behind an endpoint");
  devices->add_option("--endpoint", *endpoint, "the server");
  devices->footer("Example: farcall devices --endpoint tcp://gpu-host:7717");
  devices->callback([endpoint, &exit_code] { exit_code = Devices(*endpoint); });
}

}  // namespace farcall::cli
