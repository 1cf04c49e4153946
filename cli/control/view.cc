// SPDX-License-Identifier: Apache-2.0
#include "cli/control/view.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include "proto/byte_rate.h"
#include "proto/printable.h"

namespace farcall::cli {

namespace {

using Row = std::vector<std::string>;

std::string Format(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// The program's name, without its folder.
std::string NameOf(const std::string& program) {
  return program.substr(program.rfind('/') + 1);
}

std::string UsedOfQuota(const pb::VgpuDevice& device) {
  return BytesText(device.used_bytes()) + "/" + BytesText(device.quota_bytes());
}

// What has crossed, and its budget a second.
std::string NetText(const pb::Vgpu& vgpu) {
  std::string used = BytesText(vgpu.net_bytes_in() + vgpu.net_bytes_out());
  return vgpu.net_bytes_per_s() == 0 ? used : used + " of " + ByteRateText(vgpu.net_bytes_per_s());
}

std::string StateOf(const pb::VgpuDevice& device) {
  if (device.runs()) return "runs";
  return device.waits_for().empty() ? "idle" : "waits: " + device.waits_for();
}

// Of a session's memory.
std::string StateOf(const pb::Session& session, const pb::VgpuDevice& device) {
  if (session.waits_for_memory()) return "waits: swap";
  bool is_there = session.memory_state().empty() || session.memory_state() == "resident";
  return is_there ? StateOf(device) : session.memory_state();
}

// Of what is charged: where it is.
std::string OnDeviceAndOff(const pb::VgpuDevice& device) {
  return BytesText(device.charged_bytes() -
                   std::min(device.charged_bytes(), device.swapped_bytes())) +
         "+" + BytesText(device.swapped_bytes());
}

const Row kSessionHeads = {"SESSION", "VGPU", "DEVICE", "CLIENT", "PID",
                           "PROGRAM", "AGE",  "MEMORY", "STATE"};

void AddSessions(const pb::ServerStatus& status, std::vector<Row>* rows) {
  for (const pb::Vgpu& vgpu : status.vgpus()) {
    for (const pb::Session& session : vgpu.sessions()) {
      for (const pb::VgpuDevice& device : vgpu.devices()) {
        bool used = device.charged_bytes() != 0 || vgpu.devices_size() == 1;
        if (!used) continue;
        rows->push_back({std::to_string(session.number()), vgpu.id(),
                         std::to_string(device.device()), session.user() + "@" + session.host(),
                         std::to_string(session.pid()), NameOf(session.program()),
                         AgeText(session.age_ms()), UsedOfQuota(device), StateOf(session, device)});
      }
    }
  }
}

Row DeviceHeads(bool swaps) {
  Row heads = {"DEVICE", "NAME", "MODE", "MEMORY CHARGED"};
  if (swaps) heads.insert(heads.end(), {"RESIDENT", "SWAP SPACE"});
  return heads;
}

void AddDevices(const pb::ServerStatus& status, bool swaps, std::vector<Row>* rows) {
  for (const pb::Device& device : status.devices()) {
    rows->push_back(
        {std::to_string(device.index()), device.name(), device.mode(),
         BytesText(device.memory_charged_bytes()) + "/" + BytesText(device.memory_bytes())});
    if (swaps)
      rows->back().insert(rows->back().end(), {BytesText(device.memory_resident_bytes()),
                                               BytesText(status.swap().host_used_bytes()) + "/" +
                                                   BytesText(status.swap().host_bytes())});
  }
}

Row VgpuHeads(bool swaps) {
  Row heads = {"VGPU",   "OWNER", "DEVICE",      "SESSIONS", "PRIORITY", "SHARE",   "LIMIT",
               "WANTED", "GOT",   "DEVICE TIME", "MEMORY",   "QUEUED",   "NETWORK", "STATE"};
  if (swaps) heads.insert(heads.end() - 1, "ON+OFF");
  return heads;
}

void AddVgpus(const pb::ServerStatus& status, bool swaps, std::vector<Row>* rows) {
  for (const pb::Vgpu& vgpu : status.vgpus()) {
    for (const pb::VgpuDevice& device : vgpu.devices()) {
      rows->push_back({vgpu.id(), vgpu.owner(), std::to_string(device.device()),
                       std::to_string(vgpu.sessions_size()),
                       vgpu.priority().empty() ? "-" : vgpu.priority(),
                       vgpu.share_milli() == 0 ? "-" : MilliText(vgpu.share_milli()),
                       vgpu.limit_milli() == 0 ? "-" : MilliText(vgpu.limit_milli()),
                       MilliText(device.share_wanted_milli()), MilliText(device.share_got_milli()),
                       DeviceTimeText(device.device_ns()), UsedOfQuota(device),
                       BytesText(device.queued_bytes()), NetText(vgpu), StateOf(device)});
      if (swaps) rows->back().insert(rows->back().end() - 1, OnDeviceAndOff(device));
    }
  }
}

// Of a pool: each host's rows behind its name.
using AddRows = std::function<void(const pb::ServerStatus&, std::vector<Row>*)>;
std::vector<Row> ByHost(Row heads, const pool::v1::PoolStatus& status, const AddRows& add) {
  heads.insert(heads.begin(), "HOST");
  std::vector<Row> rows = {std::move(heads)};
  for (const pool::v1::HostStatus& host : status.hosts()) {
    std::vector<Row> own;
    add(host.status(), &own);
    for (Row& row : own) {
      row.insert(row.begin(), host.host());
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

bool Swaps(const pool::v1::PoolStatus& status) {
  return std::any_of(status.hosts().begin(), status.hosts().end(),
                     [](const auto& host) { return host.status().has_swap(); });
}

}  // namespace

// Clients' texts, and hosts', reach a terminal.
std::string Table(std::vector<Row> rows) {
  for (Row& row : rows)
    for (std::string& cell : row) cell = Printable(cell);
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    text += line + "\n";
  }
  return text;
}

std::string BytesText(uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return Format(value < 10 && unit > 0 ? "%.1f" : "%.0f", value) + units[unit];
}

std::string MilliText(uint32_t milli) {
  return Format(milli % 10 == 0 ? "%.0f%%" : "%.1f%%", milli / 10.0);
}

std::string AgeText(uint64_t ms) {
  uint64_t seconds = ms / 1000;
  if (seconds < 60) return std::to_string(seconds) + "s";
  char text[32];
  if (seconds < 3600)
    std::snprintf(text, sizeof(text), "%dm%02ds", static_cast<int>(seconds / 60),
                  static_cast<int>(seconds % 60));
  else
    std::snprintf(text, sizeof(text), "%lluh%02dm", static_cast<unsigned long long>(seconds / 3600),
                  static_cast<int>(seconds / 60 % 60));
  return text;
}

std::string DeviceTimeText(uint64_t ns) {
  double seconds = static_cast<double>(ns) / 1e9;
  return Format(seconds < 10 ? "%.2fs" : "%.0fs", seconds);
}

std::string SessionTable(const pb::ServerStatus& status) {
  std::vector<Row> rows = {kSessionHeads};
  AddSessions(status, &rows);
  return rows.size() == 1 ? "no sessions\n" : Table(rows);
}

std::string DeviceTable(const pb::ServerStatus& status) {
  std::vector<Row> rows = {DeviceHeads(status.has_swap())};
  AddDevices(status, status.has_swap(), &rows);
  return Table(rows);
}

std::string VgpuTable(const pb::ServerStatus& status) {
  std::vector<Row> rows = {VgpuHeads(status.has_swap())};
  AddVgpus(status, status.has_swap(), &rows);
  return rows.size() == 1 ? "no vGPUs\n" : Table(rows);
}

std::string HostTable(const pool::v1::PoolStatus& status) {
  std::vector<Row> rows = {{"HOST", "STATE", "DEVICES", "SESSIONS", "AS OF"}};
  for (const pool::v1::HostStatus& host : status.hosts()) {
    int sessions = 0;
    for (const pb::Vgpu& vgpu : host.status().vgpus()) sessions += vgpu.sessions_size();
    rows.push_back({host.host(), host.state(), std::to_string(host.status().devices_size()),
                    std::to_string(sessions),
                    AgeText(static_cast<uint64_t>(std::max<int64_t>(host.age_ms(), 0))) + " ago"});
  }
  return rows.size() == 1 ? "no hosts\n" : Table(rows);
}

std::string SessionTable(const pool::v1::PoolStatus& status) {
  std::vector<Row> rows = ByHost(kSessionHeads, status, AddSessions);
  return rows.size() == 1 ? "no sessions\n" : Table(rows);
}

std::string DeviceTable(const pool::v1::PoolStatus& status) {
  bool swaps = Swaps(status);
  return Table(ByHost(DeviceHeads(swaps), status,
                      [&](const auto& one, auto* rows) { AddDevices(one, swaps, rows); }));
}

std::string VgpuTable(const pool::v1::PoolStatus& status) {
  bool swaps = Swaps(status);
  std::vector<Row> rows = ByHost(VgpuHeads(swaps), status,
                                 [&](const auto& one, auto* rows) { AddVgpus(one, swaps, rows); });
  return rows.size() == 1 ? "no vGPUs\n" : Table(rows);
}

std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return AsciiJson(text);
}

}  // namespace farcall::cli
