// SPDX-License-Identifier: Apache-2.0
// What the supervisor tells the control plane, and what it changes for it. JSON with the names of
// proto/control.proto: farcall-control reads it by protobuf's own mapping.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "server/control_path.h"
#include "server/host_name.h"
#include "server/supervisor.h"
#include "server/uuid_text.h"
#include "server/version.h"

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

void Supervisor::OpenControl(const std::string& url) {
  std::string path = options_.control;
  if (path == "off") return;
  // Of a port that nobody chose nobody knows: such servers (tests', `farcall run`'s) have a control
  // socket if they are told its path.
  bool is_chosen = options_.listen.empty() || !EndsWith(options_.listen[0], ":0");
  if (path.empty() && !is_chosen && options_.metrics.empty()) return;
  Status opened;
  if (path.empty()) {
    Result<std::string> folder = MakeControlFolder();
    opened = folder.status();
    path = ControlPathOf(url);
  }
  if (opened.ok()) opened = desk_.Open(path, options_.metrics);
  if (!opened.ok())
    spdlog::warn("no control socket, so no farcall ps, top or quota: {}", opened.message());
  else
    spdlog::info("control socket {}", path);
}

std::string Supervisor::StatusJson() const {
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
         {"memory_charged_bytes", ledger_.charged_on_device(static_cast<int>(i))}});
  }
  std::map<std::string, std::vector<const Worker*>> vgpus;
  for (const auto& [control, worker] : workers_) vgpus[worker->vgpu].push_back(worker.get());
  const std::vector<quota::VgpuStatus> compute = leases_.Statuses(SteadyNow());
  for (auto& [vgpu, members] : vgpus) {
    std::sort(members.begin(), members.end(),
              [](const Worker* a, const Worker* b) { return a->number < b->number; });
    status["vgpus"].push_back(VgpuJson(vgpu, members, compute));
  }
  PutSwapTotals(&status);
  return Dump(status);
}

nlohmann::json Supervisor::VgpuJson(const std::string& vgpu,
                                    const std::vector<const Worker*>& members,
                                    const std::vector<quota::VgpuStatus>& compute) const {
  Json told = {{"id", PublicId(vgpu)},
               {"owner", members[0]->client_user + "@" + members[0]->client_host},
               {"devices", Json::array()},
               {"sessions", Json::array()}};
  for (size_t i = 0; i < devices_.report.devices.size(); ++i) {
    int device = static_cast<int>(i);
    quota::Usage usage = ledger_.usage(vgpu, device);
    uint64_t unspent = 0;
    for (const Worker* member : members) unspent += UnspentOf(*member, device);
    told["devices"].push_back(
        {{"device", i},
         {"used_bytes", usage.charged_bytes - std::min(unspent, usage.charged_bytes)},
         {"charged_bytes", usage.charged_bytes},
         {"quota_bytes", usage.quota_bytes}});
  }
  quota::Usage host = ledger_.usage(vgpu, quota::kHostMemory);
  told["host_memory_used_bytes"] = host.charged_bytes;
  told["host_memory_quota_bytes"] = host.quota_bytes;
  PutCompute(vgpu, compute, &told);
  NetDesk::Use net = net_.UseOf(vgpu);
  told["net_bytes_per_s"] = net.bytes_per_s;
  told["net_bytes_in"] = net.bytes_in;
  told["net_bytes_out"] = net.bytes_out;
  told["net_waited_ns"] = net.waited_ns;
  for (const Worker* member : members) {
    told["sessions"].push_back({{"number", member->number},
                                {"user", member->client_user},
                                {"host", member->client_host},
                                {"pid", member->client_pid},
                                {"program", member->program},
                                {"age_ms", MillisecondsSince(member->since)},
                                {"worker_pid", member->process.pid}});
  }
  PutSwap(members, &told);
  return told;
}

Json Supervisor::AuditFields(const Worker& worker) const {
  Json fields = {{"session", worker.number},      {"vgpu", PublicId(worker.vgpu)},
                 {"user", worker.client_user},    {"host", worker.client_host},
                 {"pid", worker.client_pid},      {"program", worker.program},
                 {"memory_bytes", Json::array()}, {"worker_pid", worker.process.pid}};
  if (worker.user) fields["worker_user"] = *worker.user;
  for (size_t i = 0; i < devices_.report.devices.size(); ++i)
    fields["memory_bytes"].push_back(ledger_.usage(worker.vgpu, static_cast<int>(i)).quota_bytes);
  return fields;
}

void Supervisor::AnswerControl(const ControlMessage& question) {
  if (question.type == ControlType::kSetQuota) {
    if (!ChangeQuota(question, Attempt::kFirst))
      waiting_changes_.push_back({question, Clock::now() + kRecallPatience});
    return;
  }
  if (question.type == ControlType::kPark) return ParkVgpu(question);
  if (question.type != ControlType::kAskStatus) return;
  std::string text = StatusJson();
  auto bytes = std::as_bytes(std::span(text));
  int file = MakeMemoryFile("farcall-status", {bytes.begin(), bytes.end()});
  if (file < 0) return;  // it asks again, or gives up
  ControlMessage answer;
  answer.type = ControlType::kStatus;
  answer.id = question.id;
  desk_.Send(answer, file);
  close(file);
}

std::string Supervisor::VgpuById(std::string_view id) const {
  for (const auto& [control, worker] : workers_)
    if (PublicId(worker->vgpu) == id) return worker->vgpu;
  return "";
}

void Supervisor::RetryChanges() {
  std::vector<WaitingChange> waiting = std::exchange(waiting_changes_, {});
  for (WaitingChange& change : waiting)
    if (!ChangeQuota(change.question,
                     Clock::now() >= change.until ? Attempt::kLast : Attempt::kAgain))
      waiting_changes_.push_back(change);
}

bool Supervisor::ChangeQuota(const ControlMessage& question, Attempt attempt) {
  const QuotaChange change = QuotaChange::Of(question);
  ControlMessage answer;
  answer.type = ControlType::kSetQuotaReply;
  answer.id = question.id;
  auto refuse = [&](ChangeOutcome outcome, const std::string& why) {
    answer.a = static_cast<uint64_t>(outcome);
    answer.SetText(why);
    desk_.Send(answer);
    return true;
  };
  std::string vgpu = VgpuById(question.Text());
  if (vgpu.empty())
    return refuse(ChangeOutcome::kNoSuchVgpu,
                  "no vGPU is named '" + std::string(question.Text()) + "'; farcall ps lists them");
  if (pool_.is_in_pool())
    return refuse(ChangeOutcome::kRefused, "its quota is its claim's: ask the pool for another");
  if (change.memory_bytes != QuotaChange::kUnchanged) {
    for (size_t i = 0; i < devices_.report.devices.size(); ++i) {
      int device = static_cast<int>(i);
      uint64_t ceiling = CeilingOf(device);
      if (change.memory_bytes == 0 || change.memory_bytes > ceiling)
        return refuse(ChangeOutcome::kInvalid,
                      "memory " + std::to_string(change.memory_bytes) + ": device " +
                          std::to_string(i) + " takes 1 to " + std::to_string(ceiling) + " bytes");
      uint64_t charged = ledger_.usage(vgpu, device).charged_bytes;
      if (charged <= change.memory_bytes) continue;
      if (attempt == Attempt::kLast)
        return refuse(ChangeOutcome::kRefused, "memory " + std::to_string(change.memory_bytes) +
                                                   ": it holds " + std::to_string(charged) +
                                                   " bytes of device " + std::to_string(i));
      if (attempt == Attempt::kFirst) RecallFrom(vgpu, device, nullptr);
      return false;
    }
  }
  auto refuse_for = [&](const Status& why) {
    return refuse(why.code() == Code::kInvalid ? ChangeOutcome::kInvalid : ChangeOutcome::kRefused,
                  why.message());
  };
  bool changes_net = change.net_bytes_per_s != QuotaChange::kNetUnchanged;
  if (changes_net) {  // all or nothing: what the other changes meet is not known yet
    Status allowed = net_.Check(change.net_bytes_per_s);
    if (!allowed.ok()) return refuse_for(allowed);
  }
  if (change.ChangesCompute()) {
    Status changed = ChangeCompute(vgpu, change);
    if (!changed.ok()) return refuse_for(changed);
  }
  if (changes_net) (void)net_.Change(vgpu, change.net_bytes_per_s, SteadyNow());
  if (change.memory_bytes != QuotaChange::kUnchanged) {
    for (size_t i = 0; i < devices_.report.devices.size(); ++i)
      (void)ledger_.SetQuota(vgpu, static_cast<int>(i), change.memory_bytes);
  }
  NoteChange(question.Text(), change);
  desk_.Send(answer);
  return true;
}

void Supervisor::NoteChange(std::string_view id, const QuotaChange& change) {
  constexpr std::array<const char*, 3> kClasses = {"normal", "high", "low"};  // as on the wire
  Json fields = {{"vgpu", id}};
  if (change.memory_bytes != QuotaChange::kUnchanged) fields["memory_bytes"] = change.memory_bytes;
  if (change.share_milli != ~0u) fields["share_milli"] = change.share_milli;
  if (change.limit_milli != ~0u) fields["limit_milli"] = change.limit_milli;
  if (change.net_bytes_per_s != QuotaChange::kNetUnchanged)
    fields["net_bytes_per_s"] = change.net_bytes_per_s;
  if (change.priority < kClasses.size()) fields["priority"] = kClasses[change.priority];
  spdlog::info("quota set: {}", Dump(fields));
  audit_.Note("quota_set", std::move(fields));
}

}  // namespace farcall::server
