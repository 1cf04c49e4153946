// SPDX-License-Identifier: Apache-2.0
// `farcall quota set`: changes what a running vGPU may use.
#include <cstdio>
#include <memory>

#include "cli/control/client.h"
#include "cli/control/commands.h"
#include "cli/control/view.h"
#include "proto/byte_rate.h"
#include "proto/percent.h"
#include "server/supervisor/serve_options.h"

namespace farcall::cli {

namespace {

struct QuotaFlags {
  ControlTarget target;
  std::string vgpu, memory, share, limit, priority, net;
  bool json = false;
};

Status Read(const QuotaFlags& flags, pb::SetQuotaRequest* request) {
  request->set_vgpu(flags.vgpu);
  if (!flags.memory.empty()) {
    Result<uint64_t> bytes = server::ParseBytes(flags.memory);
    if (!bytes.ok()) return {Code::kInvalid, "--mem: " + bytes.status().message()};
    request->set_memory_bytes(*bytes);
  }
  uint32_t milli = 0;
  if (!flags.share.empty()) {
    if (!ParseMilli(flags.share, &milli))
      return {Code::kInvalid, "--share '" + flags.share + "': " + kPartForm};
    request->set_share_milli(milli);
  }
  if (!flags.limit.empty()) {
    if (!ParseMilli(flags.limit, &milli))
      return {Code::kInvalid, "--limit '" + flags.limit + "': " + kPartForm};
    request->set_limit_milli(milli);
  }
  if (!flags.priority.empty()) request->set_priority(flags.priority);
  if (!flags.net.empty()) {
    uint64_t bytes_per_s = 0;
    if (flags.net != "0" && !ParseByteRate(flags.net, &bytes_per_s))
      return {Code::kInvalid,
              "--net '" + flags.net + "': " + kByteRateForm + "; 0 for what the server allows"};
    request->set_net_bytes_per_s(bytes_per_s);
  }
  return {};
}

int SetQuota(const QuotaFlags& flags) {
  auto fail = [](const std::string& why, int code) {
    std::fprintf(stderr, "farcall quota: %s\n", why.c_str());
    return code;
  };
  pb::SetQuotaRequest request;
  if (Status read = Read(flags, &request); !read.ok()) return fail(read.message(), 2);
  Result<std::string> path = FindControl(flags.target);
  if (!path.ok())
    return fail(path.status().message(), path.status().code() == Code::kInvalid ? 2 : 1);
  grpc::ClientContext context;
  pb::Vgpu vgpu;
  grpc::Status set = Dial(*path)->SetQuota(&context, request, &vgpu);
  if (!set.ok())
    return fail(Explain(set, *path),
                set.error_code() == grpc::StatusCode::INVALID_ARGUMENT ? 2 : 1);
  if (flags.json) {
    std::fputs(Json(vgpu).c_str(), stdout);
    return 0;
  }
  pb::ServerStatus shown;
  *shown.add_vgpus() = vgpu;
  std::fputs(VgpuTable(shown).c_str(), stdout);
  return 0;
}

}  // namespace

void AddQuotaCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<QuotaFlags>();
  CLI::App* quota = app.add_subcommand("quota", "Changes running quotas");
  quota->require_subcommand(1);
  CLI::App* command = quota->add_subcommand("set", "Changes a running vGPU's quota");
  command->add_option("vgpu", flags->vgpu, "its name, as farcall ps shows it")->required();
  command->add_option("--mem", flags->memory, "memory on each device, such as 4GiB");
  command->add_option("--share", flags->share, "guaranteed part of a device's time, such as 30%");
  command->add_option("--limit", flags->limit, "the most it may use of it, such as 50%");
  command->add_option("--priority", flags->priority, "high, normal or low")
      ->check(CLI::IsMember({"high", "normal", "low"}));
  command->add_option("--net", flags->net,
                      "bytes a second on the network, such as 100MB/s; 0: what the server allows");
  command->add_option("--endpoint", flags->target.endpoint,
                      "the server, by the URL that it listens on, on this machine");
  command->add_option("--control", flags->target.path, "its control socket");
  command->add_flag("--json", flags->json, "for machines: the vGPU as it is then");
  command->footer("Example: farcall quota set vgpu-1a2b3c4d --mem 4GiB");
  command->callback([flags, &exit_code] { exit_code = SetQuota(*flags); });
}

}  // namespace farcall::cli
