// SPDX-License-Identifier: Apache-2.0
// `farcall devices`: what is behind an endpoint.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/device_list.h"
#include "cli/output/table.h"
#include "cli/programs/client_environment.h"
#include "cli/programs/server_libraries.h"
#include "proto/printable.h"

namespace farcall::cli {

std::vector<std::string> DeviceLines(const QueryAnswer& answer) {
  const std::vector<Column> columns = {{"DEVICE", true, 0},     {"NAME", false, 0},
                                       {"CAPABILITY", true, 0}, {"MEMORY", true, 0},
                                       {"FREE", true, 0},       {"PCI", false, 0}};
  std::vector<Cells> rows;
  const std::vector<DeviceSnapshot>& devices = answer.welcome.devices;
  for (size_t i = 0; i < devices.size(); ++i) {
    rows.push_back({std::to_string(i), devices[i].name, CapabilityText(devices[i]),
                    BytesText(devices[i].total_bytes),
                    i < answer.free_bytes.size() ? BytesText(answer.free_bytes[i]) : "-",
                    devices[i].pci_bus_id});
  }
  return TableLines(columns, rows);
}

nlohmann::ordered_json DeviceList(const FoundServer& server, const QueryAnswer& answer) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const Welcome& welcome = answer.welcome;
  for (size_t i = 0; i < welcome.devices.size(); ++i) {
    const DeviceSnapshot& device = welcome.devices[i];
    list.push_back({{"index", i},
                    {"name", device.name},
                    {"kind", welcome.device_kind},
                    {"compute_capability", CapabilityText(device)},
                    {"total_bytes", device.total_bytes},
                    {"pci_bus_id", device.pci_bus_id},
                    {"endpoint", server.url},
                    {"server_host", welcome.server_host},
                    {"server_version", welcome.server_version}});
    if (i < answer.free_bytes.size()) list.back()["free_bytes"] = answer.free_bytes[i];
  }
  return list;
}

namespace {

struct DevicesFlags {
  std::string endpoint;
  bool json = false, libraries = false;
};

int Fail(const std::string& why, int code = 1) {
  std::fprintf(stderr, "farcall devices: %s\n", why.c_str());
  return code;
}

int Devices(const DevicesFlags& flags) {
  Result<FoundServer> server = FindServer(flags.endpoint);
  if (!server.ok()) return Fail(server.status().message());
  if (server->url.empty())
    return Fail(
        "no endpoint; set FARCALL_ENDPOINT=tcp://host:port, give --endpoint, or start "
        "`farcall serve` here");
  if (server->is_pool()) {
    std::vector<std::string> more = {"--endpoint", server->url};
    if (flags.json) more.push_back("--json");
    return BecomeControl("devices", more);
  }
  Result<QueryAnswer> answer = AskServer(*server);
  if (!answer.ok()) return Fail(server->url + ": " + answer.status().message());
  std::vector<ServerLibrary> libraries;
  if (flags.libraries) {
    ClientSettings client;
    client.endpoint = server->url;
    libraries = AskServerLibraries(ClientEnvironment(client));
    if (libraries.empty()) return Fail(server->url + ": its libraries cannot be asked");
  }
  if (flags.json) {
    nlohmann::ordered_json list = DeviceList(*server, *answer);
    if (flags.libraries) list = {{"devices", list}, {"libraries", LibraryList(libraries)}};
    std::printf("%s\n", list.dump(2, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
    return 0;
  }
  const Welcome& welcome = answer->welcome;
  std::printf("%s (%s): farcall %s on %s, %s\n", server->url.c_str(), server->source.c_str(),
              Printable(welcome.server_version).c_str(), Printable(welcome.server_host).c_str(),
              Printable(welcome.device_kind).c_str());
  for (const std::string& line : DeviceLines(*answer)) std::printf("%s\n", line.c_str());
  for (const ServerLibrary& library : libraries)
    std::printf("  %s\n", Printable(LibraryLine(library), kMaxMessageBytes).c_str());
  return 0;
}

}  // namespace

void AddDevicesCommand(CLI::App& app, int& exit_code) {
  auto list = std::make_shared<DevicesFlags>();
  CLI::App* devices = app.add_subcommand("devices", "Lists the devices behind an endpoint");
  devices->add_option("--endpoint", list->endpoint, kServerHelp);
  devices->add_flag("--libraries", list->libraries,
                    "also list the CUDA libraries that the server has for thin mode");
  devices->add_flag("--json", list->json, "print the devices as JSON");
  devices->footer("Example: farcall devices --endpoint gpu-host");
  devices->callback([list, &exit_code] { exit_code = Devices(*list); });
}

}  // namespace farcall::cli
