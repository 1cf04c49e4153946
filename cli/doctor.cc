// SPDX-License-Identifier: Apache-2.0
// `farcall doctor`: step by step what a user would have to check, a remedy for each finding.
// `farcall devices`: what is there.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cli/client_environment.h"
#include "cli/commands.h"
#include "server/serve_options.h"
#include "transport/handshake.h"

namespace farcall::cli {

namespace {

struct Target {
  std::string endpoint, token;
};

Target FindTarget(const std::string& flag) {
  auto read = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  Target target;
  target.endpoint = flag.empty() ? read("FARCALL_ENDPOINT") : flag;
  target.token = read("FARCALL_TOKEN");
  if (target.token.empty() && !read("FARCALL_TOKEN_FILE").empty()) {
    Result<std::string> token = server::ReadTokenFile(read("FARCALL_TOKEN_FILE"));
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

bool Doctor(const std::string& endpoint) {
  std::string folder = DriverLibraryFolder();
  bool good =
      Say(!folder.empty(), "driver library " + (folder.empty() ? "missing" : "in " + folder),
          "install again, or build the target farcall_shim_cuda");
  Target target = FindTarget(endpoint);
  if (!Say(!target.endpoint.empty(),
           target.endpoint.empty() ? "no endpoint" : "endpoint " + target.endpoint,
           "set FARCALL_ENDPOINT=tcp://host:port or give --endpoint")) {
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
  Target target = FindTarget(endpoint);
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
