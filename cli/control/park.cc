// SPDX-License-Identifier: Apache-2.0
// `farcall park`: a vGPU's memory leaves its devices until it works again.
#include <cstdio>
#include <memory>

#include "cli/control/client.h"
#include "cli/control/commands.h"
#include "cli/control/target_flags.h"
#include "cli/control/view.h"

namespace farcall::cli {

namespace {

struct ParkFlags {
  ControlTarget target;
  std::string vgpu;
  bool json = false;
};

int Park(ParkFlags flags) {
  auto fail = [](const std::string& why, int code) {
    std::fprintf(stderr, "farcall park: %s\n", why.c_str());
    return code;
  };
  if (Status known = Resolve(&flags.target); !known.ok()) return fail(known.message(), 2);
  Result<std::string> path = FindControl(flags.target);
  if (!path.ok())
    return fail(path.status().message(), path.status().code() == Code::kInvalid ? 2 : 1);
  grpc::ClientContext context;
  pb::ParkRequest request;
  request.set_vgpu(flags.vgpu);
  pb::ServerStatus shown;
  grpc::Status parked = Dial(*path)->Park(&context, request, shown.add_vgpus());
  if (!parked.ok()) return fail(Explain(parked, *path), 1);
  std::fputs(flags.json ? Json(shown.vgpus(0)).c_str()
                        : SessionTable(ShownOf(shown), OptionsOfStdout()).c_str(),
             stdout);
  return 0;
}

}  // namespace

void AddParkCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ParkFlags>();
  CLI::App* command =
      app.add_subcommand("park", "Moves a vGPU's memory off its devices until it works again");
  command->add_option("vgpu", flags->vgpu, "name of the vGPU, as farcall ps shows it")->required();
  AddTargetFlags(command, &flags->target);
  command->add_flag("--json", flags->json, "print the changed vGPU as JSON");
  command->footer("Example: farcall park vgpu-1a2b3c4d");
  command->callback([flags, &exit_code] { exit_code = Park(*flags); });
}

}  // namespace farcall::cli
