// SPDX-License-Identifier: Apache-2.0
// What the control plane and the pool ask of the supervisor, and what it changes for them.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "proto/priority.h"
#include "server/control/memory_file.h"
#include "server/supervisor/options/control_path.h"
#include "server/supervisor/supervisor.h"

namespace farcall::server {

Status Supervisor::OpenControl(const std::string& url) {
  std::string path = options_.control;
  if (path == "off") return {};
  // Of a port that nobody chose nobody knows: such servers (tests', `farcall run`'s) have a control
  // socket if they are told its path.
  bool is_chosen = options_.listen.empty() || !options_.listen[0].ends_with(":0");
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

nlohmann::json Supervisor::StatusJson() const {
  return report_.OfServer({since_, draining_, sessions_started_});
}

void Supervisor::OnMessage(const control::SetQuota& question) {
  Begin(TaskOf(question));
}

void Supervisor::OnMessage(const control::Park& question) {
  swap_.Park(question, report_.VgpuById(question.vgpu.str()), SteadyNow());
}

void Supervisor::OnMessage(const control::AskStatus& question) {
  std::string text = JsonText(StatusJson());
  auto bytes = std::as_bytes(std::span(text));
  int file = MakeMemoryFile("farcall-status", {bytes.begin(), bytes.end()});
  if (file < 0) return;  // it asks again, or gives up
  control_service_.Send({.id = question.id}, file);
  close(file);
}

QuotaChanges::Task Supervisor::TaskOf(const control::SetQuota& question) {
  QuotaChanges::Task task;
  task.name = question.vgpu;
  task.vgpu = report_.VgpuById(task.name);
  task.devices = placement_.AllDevices();
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
  nlohmann::json fields = {{"vgpu", id}};
  if (change.memory_bytes) fields["memory_bytes"] = *change.memory_bytes;
  if (change.share_milli) fields["share_milli"] = *change.share_milli;
  if (change.limit_milli) fields["limit_milli"] = *change.limit_milli;
  if (change.net_bytes_per_s) fields["net_bytes_per_s"] = *change.net_bytes_per_s;
  if (change.priority) fields["priority"] = PriorityName(static_cast<uint8_t>(*change.priority));
  spdlog::info("quota set: {}", JsonText(fields));
  audit_.Note("quota_set", std::move(fields));
}

}  // namespace farcall::server
