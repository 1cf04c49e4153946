// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sessions/status_report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "proto/handshake/crypto.h"
#include "proto/printable.h"
#include "server/device/steady_now.h"
#include "server/device/uuid_text.h"
#include "server/supervisor/services/host_name.h"
#include "settings/version.h"

namespace farcall::server {

namespace {

using Json = nlohmann::json;

uint64_t MillisecondsSince(Clock::time_point then) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - then).count());
}

// By its certificate, which it has proved; else as it calls itself.
std::string OwnerOf(const WorkerSession& session) {
  return session.arrival.identity.empty() ? session.client_user + "@" + session.client_host
                                          : Printable(session.arrival.identity);
}

}  // namespace

std::string PublicId(const std::string& vgpu) {
  constexpr std::string_view kSession = "session ";
  if (vgpu.compare(0, kSession.size(), kSession) == 0)
    return "session-" + vgpu.substr(kSession.size());
  if (vgpu.compare(0, kClaimPrefix.size(), kClaimPrefix) == 0)
    return vgpu.substr(kClaimPrefix.size());  // a claim's id lets nobody in
  Hash256 hash = Sha256(std::as_bytes(std::span(vgpu)));
  char text[16];
  std::snprintf(text, sizeof(text), "vgpu-%02x%02x%02x%02x", hash[0], hash[1], hash[2], hash[3]);
  return text;
}

std::string JsonText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json StatusReport::OfServer(const ServerState& server) const {
  Json status = {{"version", kServerVersion},
                 {"host", HostName()},
                 {"device_kind", parts_.devices.choice.kind},
                 {"uptime_ms", MillisecondsSince(server.since)},
                 {"draining", server.is_draining},
                 {"max_sessions", parts_.options.max_sessions},
                 {"sessions_started", server.sessions_started},
                 {"devices", Json::array()},
                 {"vgpus", Json::array()}};
  for (size_t i = 0; i < parts_.devices.report.devices.size(); ++i) {
    const DeviceSnapshot& device = parts_.devices.report.devices[i];
    status["devices"].push_back(
        {{"index", i},
         {"name", device.name},
         {"uuid", UuidText(device.uuid)},
         {"memory_bytes", device.total_bytes},
         {"mode", ToText(parts_.placement.ModeOf(static_cast<int>(i)))},
         {"memory_charged_bytes", parts_.charges.ledger().charged_on_device(static_cast<int>(i))}});
    parts_.time.PutDevice(static_cast<int>(i), SteadyNow(), &status["devices"].back());
  }
  std::map<std::string, std::vector<const WorkerSession*>> vgpus;
  for (const auto& [control, session] : parts_.sessions)
    vgpus[session->vgpu].push_back(session.get());
  const std::vector<quota::VgpuStatus> compute = parts_.time.Statuses(SteadyNow());
  for (auto& [vgpu, members] : vgpus) {
    std::sort(members.begin(), members.end(),
              [](const WorkerSession* a, const WorkerSession* b) { return a->number < b->number; });
    status["vgpus"].push_back(OfVgpu(vgpu, members, compute));
  }
  parts_.swap.PutTotals(&status);
  return status;
}

Json StatusReport::OfVgpu(const std::string& vgpu, const std::vector<const WorkerSession*>& members,
                          const std::vector<quota::VgpuStatus>& compute) const {
  Json told = {{"id", PublicId(vgpu)},
               {"owner", OwnerOf(*members[0])},
               {"devices", Json::array()},
               {"sessions", Json::array()}};
  for (size_t i = 0; i < parts_.devices.report.devices.size(); ++i) {
    int device = static_cast<int>(i);
    quota::Usage usage = parts_.charges.ledger().usage(vgpu, device);
    uint64_t unspent = 0;
    for (const WorkerSession* member : members)
      unspent += parts_.charges.UnspentOf(member->process.control, device);
    told["devices"].push_back(
        {{"device", i},
         {"used_bytes", usage.charged_bytes - std::min(unspent, usage.charged_bytes)},
         {"charged_bytes", usage.charged_bytes},
         {"overhead_bytes", parts_.driver_memory.BytesOf(vgpu, device)},
         {"overhead_charged_bytes", parts_.driver_memory.ChargedOf(vgpu, device)},
         {"quota_bytes", usage.quota_bytes}});
  }
  quota::Usage host = parts_.charges.ledger().usage(vgpu, quota::kHostMemory);
  told["host_memory_used_bytes"] = host.charged_bytes;
  told["host_memory_quota_bytes"] = host.quota_bytes;
  parts_.time.PutVgpu(vgpu, compute, &told);
  NetScheduler::Use net = parts_.net.UseOf(vgpu);
  told["net_bytes_per_s"] = net.bytes_per_s;
  told["net_bytes_in"] = net.bytes_in;
  told["net_bytes_out"] = net.bytes_out;
  told["net_waited_ns"] = net.waited_ns;
  std::vector<int> controls;
  for (const WorkerSession* member : members) {
    controls.push_back(member->process.control);
    told["sessions"].push_back({{"number", member->number},
                                {"user", member->client_user},
                                {"host", member->client_host},
                                {"pid", member->client_pid},
                                {"program", member->program},
                                {"age_ms", MillisecondsSince(member->since)},
                                {"worker_pid", member->process.pid}});
  }
  parts_.swap.PutVgpu(controls, SteadyNow(), &told);
  return told;
}

Json StatusReport::AuditFields(const WorkerSession& session) const {
  Json fields = {{"session", session.number},     {"vgpu", PublicId(session.vgpu)},
                 {"user", session.client_user},   {"host", session.client_host},
                 {"pid", session.client_pid},     {"program", session.program},
                 {"memory_bytes", Json::array()}, {"worker_pid", session.process.pid}};
  if (session.user) fields["worker_user"] = *session.user;
  if (!session.arrival.identity.empty())
    fields["certificate"] = Printable(session.arrival.identity, farcall::kMaxMessageBytes);
  for (size_t i = 0; i < parts_.devices.report.devices.size(); ++i)
    fields["memory_bytes"].push_back(
        parts_.charges.ledger().usage(session.vgpu, static_cast<int>(i)).quota_bytes);
  return fields;
}

std::string StatusReport::VgpuById(std::string_view id) const {
  for (const auto& [control, session] : parts_.sessions)
    if (PublicId(session->vgpu) == id) return session->vgpu;
  return "";
}

}  // namespace farcall::server
