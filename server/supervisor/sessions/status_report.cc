// SPDX-License-Identifier: Apache-2.0
// What the supervisor tells the control plane, and what it changes for it. JSON with the names of
// proto/control.proto: farcall-control reads it by protobuf's own mapping.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "proto/printable.h"
#include "server/control/memory_file.h"
#include "server/device/uuid_text.h"
#include "server/supervisor/options/control_path.h"
#include "server/supervisor/services/host_name.h"
#include "server/supervisor/supervisor.h"
#include "settings/version.h"

namespace farcall::server {

namespace {

using Json = nlohmann::json;

// A name for people. A token's own text lets its holder join, so it is not shown.
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

uint64_t MillisecondsSince(Clock::time_point then) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - then).count());
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string Dump(const Json& json) {
  // A client's text may be anything but UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Status Supervisor::OpenControl(const std::string& url) {
  std::string path = options_.control;
  if (path == "off") return {};
  // Of a port that nobody chose nobody knows: such servers (tests', `farcall run`'s) have a control
  // socket if they are told its path.
  bool is_chosen = options_.listen.empty() || !EndsWith(options_.listen[0], ":0");
  if (path.empty() && !is_chosen && options_.metrics.empty()) return {};
  Status opened;
  if (path.empty()) {
    Result<std::string> folder = MakeControlFolder();
    opened = folder.status();
    path = ControlPathOf(url);
  }
  if (opened.ok()) opened = control_service_.Open(path, options_.metrics);
  if (!opened.ok() && !options_.metrics.empty()) return opened;
  if (!opened.ok())
    spdlog::warn("no control socket, so no farcall ps, top or quota: {}", opened.message());
  else
    spdlog::info("control socket {}", path);
  return {};
}

Json Supervisor::StatusJson() const {
  Json status = {{"version", kServerVersion},
                 {"host", HostName()},
                 {"device_kind", devices_.choice.kind},
                 {"uptime_ms", MillisecondsSince(since_)},
                 {"draining", draining_},
                 {"max_sessions", options_.max_sessions},
                 {"sessions_started", sessions_started_},
                 {"devices", Json::array()},
                 {"vgpus", Json::array()}};
  for (size_t i = 0; i < devices_.report.devices.size(); ++i) {
    const DeviceSnapshot& device = devices_.report.devices[i];
    status["devices"].push_back(
        {{"index", i},
         {"name", device.name},
         {"uuid", UuidText(device.uuid)},
         {"memory_bytes", device.total_bytes},
         {"mode", ToText(ModeOf(static_cast<int>(i)))},
         {"memory_charged_bytes", charges_.ledger().charged_on_device(static_cast<int>(i))}});
    time_.PutDevice(static_cast<int>(i), SteadyNow(), &status["devices"].back());
  }
  std::map<std::string, std::vector<const Worker*>> vgpus;
  for (const auto& [control, worker] : workers_) vgpus[worker->vgpu].push_back(worker.get());
  const std::vector<quota::VgpuStatus> compute = time_.Statuses(SteadyNow());
  for (auto& [vgpu, members] : vgpus) {
    std::sort(members.begin(), members.end(),
              [](const Worker* a, const Worker* b) { return a->number < b->number; });
    status["vgpus"].push_back(VgpuJson(vgpu, members, compute));
  }
  swap_.PutTotals(&status);
  return status;
}

// By its certificate, which it has proved; else as it calls itself.
std::string Supervisor::OwnerOf(const Worker& worker) {
  return worker.arrival.identity.empty() ? worker.client_user + "@" + worker.client_host
                                         : Printable(worker.arrival.identity);
}

nlohmann::json Supervisor::VgpuJson(const std::string& vgpu,
                                    const std::vector<const Worker*>& members,
                                    const std::vector<quota::VgpuStatus>& compute) const {
  Json told = {{"id", PublicId(vgpu)},
               {"owner", OwnerOf(*members[0])},
               {"devices", Json::array()},
               {"sessions", Json::array()}};
  for (size_t i = 0; i < devices_.report.devices.size(); ++i) {
    int device = static_cast<int>(i);
    quota::Usage usage = charges_.ledger().usage(vgpu, device);
    uint64_t unspent = 0;
    for (const Worker* member : members)
      unspent += charges_.UnspentOf(member->process.control, device);
    told["devices"].push_back(
        {{"device", i},
         {"used_bytes", usage.charged_bytes - std::min(unspent, usage.charged_bytes)},
         {"charged_bytes", usage.charged_bytes},
         {"overhead_bytes", OverheadOf(vgpu, device, false)},
         {"overhead_charged_bytes", OverheadOf(vgpu, device, true)},
         {"quota_bytes", usage.quota_bytes}});
  }
  quota::Usage host = charges_.ledger().usage(vgpu, quota::kHostMemory);
  told["host_memory_used_bytes"] = host.charged_bytes;
  told["host_memory_quota_bytes"] = host.quota_bytes;
  time_.PutVgpu(vgpu, compute, &told);
  NetScheduler::Use net = net_.UseOf(vgpu);
  told["net_bytes_per_s"] = net.bytes_per_s;
  told["net_bytes_in"] = net.bytes_in;
  told["net_bytes_out"] = net.bytes_out;
  told["net_waited_ns"] = net.waited_ns;
  std::vector<int> controls;
  for (const Worker* member : members) {
    controls.push_back(member->process.control);
    told["sessions"].push_back({{"number", member->number},
                                {"user", member->client_user},
                                {"host", member->client_host},
                                {"pid", member->client_pid},
                                {"program", member->program},
                                {"age_ms", MillisecondsSince(member->since)},
                                {"worker_pid", member->process.pid}});
  }
  swap_.PutVgpu(controls, SteadyNow(), &told);
  return told;
}

Json Supervisor::AuditFields(const Worker& worker) const {
  Json fields = {{"session", worker.number},      {"vgpu", PublicId(worker.vgpu)},
                 {"user", worker.client_user},    {"host", worker.client_host},
                 {"pid", worker.client_pid},      {"program", worker.program},
                 {"memory_bytes", Json::array()}, {"worker_pid", worker.process.pid}};
  if (worker.user) fields["worker_user"] = *worker.user;
  if (!worker.arrival.identity.empty())
    fields["certificate"] = Printable(worker.arrival.identity, farcall::kMaxMessageBytes);
  for (size_t i = 0; i < devices_.report.devices.size(); ++i)
    fields["memory_bytes"].push_back(
        charges_.ledger().usage(worker.vgpu, static_cast<int>(i)).quota_bytes);
  return fields;
}

void Supervisor::OnMessage(const control::SetQuota& question) {
  Begin(TaskOf(question));
}

void Supervisor::OnMessage(const control::Park& question) {
  swap_.Park(question, VgpuById(question.vgpu.str()), SteadyNow());
}

void Supervisor::OnMessage(const control::AskStatus& question) {
  std::string text = Dump(StatusJson());
  auto bytes = std::as_bytes(std::span(text));
  int file = MakeMemoryFile("farcall-status", {bytes.begin(), bytes.end()});
  if (file < 0) return;  // it asks again, or gives up
  control_service_.Send({.id = question.id}, file);
  close(file);
}

std::string Supervisor::VgpuById(std::string_view id) const {
  for (const auto& [control, worker] : workers_)
    if (PublicId(worker->vgpu) == id) return worker->vgpu;
  return "";
}

QuotaChanges::Task Supervisor::TaskOf(const control::SetQuota& question) {
  QuotaChanges::Task task;
  task.name = question.vgpu;
  task.vgpu = VgpuById(task.name);
  for (size_t i = 0; i < devices_.report.devices.size(); ++i)
    task.devices.push_back(static_cast<int>(i));
  task.change = question.change;
  task.done = [this, id = question.id](ChangeOutcome outcome, const std::string& why) {
    control_service_.Send({.id = id, .outcome = outcome, .why = why});
  };
  return task;
}

void Supervisor::ChangeClaim(const quota::ClaimGrant& from, const quota::ClaimGrant& to) {
  QuotaChanges::Task task;
  task.name = to.claim;
  task.vgpu = std::string(kClaimPrefix) + to.claim;
  task.devices.assign(to.devices.begin(), to.devices.end());
  task.is_claims = true;
  if (to.memory_bytes != from.memory_bytes) task.change.memory_bytes = to.memory_bytes;
  if (to.share_milli != from.share_milli) task.change.share_milli = to.share_milli;
  if (to.limit_milli != from.limit_milli) task.change.limit_milli = to.limit_milli;
  if (to.priority != from.priority) task.change.priority = static_cast<WirePriority>(to.priority);
  if (to.net_bytes_per_s != from.net_bytes_per_s) task.change.net_bytes_per_s = to.net_bytes_per_s;
  task.done = [this, claim = to.claim, revision = to.quota_revision](ChangeOutcome outcome,
                                                                     const std::string& why) {
    pool_.FinishChange(claim, revision, outcome == ChangeOutcome::kDone ? "" : why);
  };
  Begin(std::move(task));
}

void Supervisor::ParkClaim(const quota::ClaimLedger::Parking& parking) {
  const std::string vgpu = std::string(kClaimPrefix) + parking.claim;
  if (!parking.leaves) return swap_.LetIn(vgpu);
  swap_.HoldOut(vgpu, SteadyNow(), [this, claim = parking.claim](const std::string& refused) {
    pool_.FinishParking(claim, refused);
  });
}

void Supervisor::NoteChange(std::string_view id, const QuotaChange& change) {
  Json fields = {{"vgpu", id}};
  if (change.memory_bytes) fields["memory_bytes"] = *change.memory_bytes;
  if (change.share_milli) fields["share_milli"] = *change.share_milli;
  if (change.limit_milli) fields["limit_milli"] = *change.limit_milli;
  if (change.net_bytes_per_s) fields["net_bytes_per_s"] = *change.net_bytes_per_s;
  if (change.priority) fields["priority"] = PriorityName(static_cast<uint8_t>(*change.priority));
  spdlog::info("quota set: {}", Dump(fields));
  audit_.Note("quota_set", std::move(fields));
}

}  // namespace farcall::server
