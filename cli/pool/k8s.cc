// SPDX-License-Identifier: Apache-2.0
// `farcall pool k8s`: what joins a Kubernetes cluster to a pool.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cli/pool/commands.h"
#include "cli/pool/pool_options.h"
#include "pool/k8s/plugin.h"
#include "server/worker/program_path.h"
#include "settings/exit_code.h"

namespace farcall::cli {

namespace {

constexpr char kAccount[] = "/var/run/secrets/kubernetes.io/serviceaccount";

// Where a pod finds the API server; "": this is no pod.
std::string ApiServerOfPod() {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr) return "";
  const std::string text = host;
  return "https://" + (text.find(':') == std::string::npos ? text : "[" + text + "]") + ":" + port;
}

int Plugin(const PoolOptions& pool, k8s::PluginOptions options) {
  if (options.api.url.empty()) options.api.url = ApiServerOfPod();
  if (options.api.url.empty()) {
    std::fprintf(stderr,
                 "farcall pool k8s plugin: this is no pod: name the API server by --kube-api\n");
    return kExitUsage;
  }
  if (Status found = FindPool(pool, &options.pool); !found.ok()) {
    std::fprintf(stderr, "farcall pool k8s plugin: %s\n", found.message().c_str());
    return kExitUsage;
  }
  if (options.libraries.empty()) options.libraries = server::ProgramBeside("/lib/farcall");
  return k8s::RunPlugin(options);
}

void AddPlugin(CLI::App* k8s, int& exit_code) {
  CLI::App* command = k8s->add_subcommand(
      "plugin", "Runs a node's device plugin: pods that ask for farcall.io/vgpu get a claim");
  auto pool = AddPoolAddress(command);
  auto options = std::make_shared<k8s::PluginOptions>();
  options->api.ca = std::string(kAccount) + "/ca.crt";
  options->api.token_file = std::string(kAccount) + "/token";
  command->add_option("--node", options->node, "name of this node in Kubernetes")->required();
  command->add_option("--endpoint", options->endpoint,
                      "pool:// or pools:// URL by which containers reach the pool (default: the "
                      "host of --pool, port 7718; pools:// if that is https://)");
  command
      ->add_option("--slots", options->slots,
                   "containers of this node that can have a claim at a time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--libraries", options->libraries,
                      "folder of this node with the client's libraries, which containers see "
                      "(default: this installation's)");
  command->add_option("--state", options->state, "folder of this node for the slots' files")
      ->capture_default_str();
  command->add_option("--kubelet", options->kubelet, "the kubelet's folder")->capture_default_str();
  command->add_option("--kube-api", options->api.url,
                      "https:// URL of the API server (default: as a pod finds it)");
  command->add_option("--kube-ca", options->api.ca, "PEM file of the API server's authority")
      ->capture_default_str();
  command
      ->add_option("--kube-token-file", options->api.token_file,
                   "file whose first line is a token for the API server")
      ->capture_default_str();
  command->footer(
      "Containers see the pool's token: give the plugin a tenant's, not the operator's.\n"
      "Example: farcall pool k8s plugin --node $NODE_NAME --pool https://pool.example:7719 "
      "--ca ca.pem --token-file cluster.token");
  command->callback([pool, options, &exit_code] { exit_code = Plugin(*pool, *options); });
}

}  // namespace

void AddK8sCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("k8s", "Joins a Kubernetes cluster to a pool");
  command->require_subcommand(1);
  AddPlugin(command, exit_code);
}

}  // namespace farcall::cli
