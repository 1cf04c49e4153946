// SPDX-License-Identifier: Apache-2.0
#include "cli/control/client.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include "client-shim/core/settings/settings.h"
#include "proto/printable.h"
#include "server/supervisor/options/control_path.h"
#include "transport/url.h"

namespace farcall::cli {

Status Resolve(ControlTarget* target) {
  if (!target->path.empty()) return {};
  if (!target->endpoint.empty()) {
    Result<std::string> whole = WholeEndpoint(target->endpoint);
    if (!whole.ok()) return {whole.status().code(), "--endpoint: " + whole.status().message()};
    target->endpoint = *whole;
    return {};
  }
  const auto settings = client::Settings::Load(client::Settings::Files());
  if (!settings.error().empty()) return {Code::kInvalid, settings.error()};
  Result<client::Setting> endpoint = settings.FindEndpoint();
  if (!endpoint.ok()) return endpoint.status();
  target->endpoint = endpoint->value;
  return {};
}

Result<std::string> FindControl(const ControlTarget& target) {
  if (!target.path.empty()) return target.path;
  const std::vector<std::string> paths = server::ControlPaths();  // without what is left behind
  if (!target.endpoint.empty()) {
    std::string path = server::ControlPathOf(target.endpoint);
    if (access(path.c_str(), F_OK) == 0) return path;
    return Status(Code::kUnavailable,
                  "no control socket of '" + target.endpoint + "' in " + server::ControlFolder() +
                      ": run this on the server's machine as the server's user");
  }
  if (paths.size() == 1) return paths[0];
  if (paths.empty())
    return Status(Code::kUnavailable, "no server's control socket in " + server::ControlFolder() +
                                          ": start farcall serve here, or give --control PATH");
  std::string all;
  for (const std::string& path : paths) all += " " + path;
  return Status(Code::kInvalid, "several servers: give --control with one of" + all);
}

std::unique_ptr<pb::Control::Stub> Dial(const std::string& path) {
  // The service may have ended this moment; the server starts the next when somebody asks. What is
  // asked here can be asked twice.
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(
      R"({"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "backoffMultiplier": 2,
          "initialBackoff": "0.2s", "maxBackoff": "0.5s", "retryableStatusCodes": ["UNAVAILABLE"]}}]})");
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // How long a connection may take, which begins with the service's start. Where nobody listens it
  // fails at once.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
  return pb::Control::NewStub(
      grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments));
}

std::string Explain(const grpc::Status& status, const std::string& path) {
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE)
    return path + ": nobody answers (the server has ended, or this user may not ask)";
  return Printable(status.error_message(), kMaxMessageBytes);
}

}  // namespace farcall::cli
