// SPDX-License-Identifier: Apache-2.0
// `farcall quota set`: changes what a running vGPU may use.
#include <cstdio>
#include <memory>

#include "cli/control/client.h"
#include "cli/control/commands.h"
#include "cli/control/target_flags.h"
#include "cli/control/view.h"
#include "cli/flags/quota_flags.h"

namespace farcall::cli {

namespace {

struct SetFlags {
  ControlTarget target;
  std::string vgpu;
  QuotaFlags quota;
  bool json = false;
};

pb::SetQuotaRequest Read(const SetFlags& flags) {
  const QuotaFlags& quota = flags.quota;
  pb::SetQuotaRequest request;
  request.set_vgpu(flags.vgpu);
  if (!quota.mem.empty()) request.set_memory_bytes(quota.Bytes());
  if (!quota.share.empty()) request.set_share_milli(QuotaFlags::Milli(quota.share));
  if (!quota.limit.empty()) request.set_limit_milli(QuotaFlags::Milli(quota.limit));
  if (!quota.priority.empty()) request.set_priority(quota.priority);
  if (!quota.net.empty()) request.set_net_bytes_per_s(quota.BytesPerSecond());
  return request;
}

int SetQuota(SetFlags flags) {
  auto fail = [](const std::string& why, int code) {
    std::fprintf(stderr, "farcall quota: %s\n", why.c_str());
    return code;
  };
  if (Status known = Resolve(&flags.target); !known.ok()) return fail(known.message(), 2);
  Result<std::string> path = FindControl(flags.target);
  if (!path.ok())
    return fail(path.status().message(), path.status().code() == Code::kInvalid ? 2 : 1);
  grpc::ClientContext context;
  pb::Vgpu vgpu;
  grpc::Status set = Dial(*path)->SetQuota(&context, Read(flags), &vgpu);
  if (!set.ok())
    return fail(Explain(set, *path),
                set.error_code() == grpc::StatusCode::INVALID_ARGUMENT ? 2 : 1);
  if (flags.json) {
    std::fputs(Json(vgpu).c_str(), stdout);
    return 0;
  }
  pb::ServerStatus shown;
  *shown.add_vgpus() = vgpu;
  std::fputs(VgpuTable(ShownOf(shown), OptionsOfStdout()).c_str(), stdout);
  return 0;
}

}  // namespace

void AddQuotaCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SetFlags>();
  CLI::App* quota = app.add_subcommand("quota", "Changes running quotas");
  quota->require_subcommand(1);
  CLI::App* command = quota->add_subcommand("set", "Changes a running vGPU's quota");
  command->add_option("vgpu", flags->vgpu, "name of the vGPU, as farcall ps shows it")->required();
  AddQuotaFlags(command, &flags->quota);
  AddTargetFlags(command, &flags->target);
  command->add_flag("--json", flags->json, "print the changed vGPU as JSON");
  command->footer("Example: farcall quota set vgpu-1a2b3c4d --mem 4GiB");
  command->callback([flags, &exit_code] { exit_code = SetQuota(*flags); });
}

}  // namespace farcall::cli
