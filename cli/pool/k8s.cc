// SPDX-License-Identifier: Apache-2.0
// `farcall pool k8s`: what joins a Kubernetes cluster to a pool.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>

#include "cli/pool/base/commands.h"
#include "cli/pool/base/pool_options.h"
#include "cli/programs/scratch_folder.h"
#include "pool/k8s/controller/controller.h"
#include "pool/k8s/dra/dra.h"
#include "pool/k8s/extender/extender_server.h"
#include "pool/k8s/metrics/metrics_server.h"
#include "pool/k8s/plugin/plugin.h"
#include "pool/k8s/webhook/webhook.h"
#include "server/worker/sandbox/program_path.h"
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

// Where the API server is; false: nobody says.
bool FindApi(const char* command, k8s::ApiAddress* api) {
  if (api->url.empty()) api->url = ApiServerOfPod();
  if (!api->url.empty()) return true;
  std::fprintf(stderr, "farcall pool k8s %s: this is no pod: name the API server by --kube-api\n",
               command);
  return false;
}

// The API server and the pool. False: it has said why not.
template <typename Options>
bool FindBoth(const char* name, const PoolOptions& pool, Options* options) {
  if (!FindApi(name, &options->api)) return false;
  const Status found = FindPool(pool, &options->pool);
  if (!found.ok()) std::fprintf(stderr, "farcall pool k8s %s: %s\n", name, found.message().c_str());
  return found.ok();
}

void AddApi(CLI::App* command, k8s::ApiAddress* api) {
  api->ca = std::string(kAccount) + "/ca.crt";
  api->token_file = std::string(kAccount) + "/token";
  command->add_option("--kube-api", api->url,
                      "https:// URL of the API server (default: as a pod finds it)");
  command->add_option("--kube-ca", api->ca, "PEM file of the API server's authority")
      ->capture_default_str();
  command
      ->add_option("--kube-token-file", api->token_file,
                   "file whose first line is a token for the API server")
      ->capture_default_str();
}

void AddProjectRoot(CLI::App* command, std::string* root) {
  command->add_option(
      "--project-root", *root,
      "project of the pool: claims of a namespace are in its child of the "
      "namespace's name if there is one, else in it (default: as the pool decides)");
}

void AddHealth(CLI::App* command, std::string* address) {
  command->add_option("--health-listen", *address,
                      "host:port of /healthz and /readyz, without TLS (default: none)");
}

int Plugin(const PoolOptions& pool, k8s::PluginOptions options) {
  if (!FindBoth("plugin", pool, &options)) return kExitUsage;
  if (options.libraries.empty()) options.libraries = server::ProgramBeside("/lib/farcall");
  return k8s::RunPlugin(options);
}

void AddPlugin(CLI::App* k8s, int& exit_code) {
  CLI::App* command = k8s->add_subcommand(
      "plugin", "Runs a node's device plugin: pods that ask for farcall.io/vgpu get a claim");
  auto pool = AddPoolAddress(command);
  auto options = std::make_shared<k8s::PluginOptions>();
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
  AddProjectRoot(command, &options->project_root);
  AddApi(command, &options->api);
  command->footer(
      "Give the plugin a token of a user of its own. Containers get tokens for their claims.\n"
      "Example: farcall pool k8s plugin --node $NODE_NAME --pool https://pool.example:7719 "
      "--ca ca.pem --token-file cluster.token");
  command->callback([pool, options, &exit_code] { exit_code = Plugin(*pool, *options); });
}

// What a server that the API server calls has in common with others.
template <typename Options>
void AddServing(CLI::App* command, Options* options) {
  command->add_option("--listen", options->listen, "host:port for the API server")
      ->capture_default_str();
  command
      ->add_option("--host", options->hosts,
                   "DNS name or address at which the API server reaches it; may be repeated")
      ->required();
  command->add_option("--namespace", options->space, "namespace of the secret")
      ->capture_default_str();
  command->add_option("--secret", options->secret, "secret that holds the certificate")
      ->capture_default_str();
}

template <typename Options>
void AddCertificateDays(CLI::App* command, Options* options) {
  command
      ->add_option("--certificate-days", options->certificate_days,
                   "life of a certificate; it is replaced when a third is left")
      ->check(CLI::Range(3, 3650))
      ->capture_default_str();
}

// Runs it with a folder of its own, which goes with it.
int InScratchFolder(const std::string& name, const std::function<int(const std::string&)>& run) {
  const ScratchFolder folder("farcall-" + name);
  if (folder.path().empty()) {
    std::fprintf(stderr, "farcall pool k8s %s: no folder for temporary files (TMPDIR)\n",
                 name.c_str());
    return kExitFailure;
  }
  return run(folder.path());
}

int Webhook(k8s::WebhookOptions options) {
  if (!FindApi("webhook", &options.api)) return kExitUsage;
  return InScratchFolder(
      "webhook", [&](const std::string& folder) { return k8s::RunWebhook(options, folder); });
}

void AddWebhook(CLI::App* k8s, int& exit_code) {
  CLI::App* command = k8s->add_subcommand(
      "webhook",
      "Runs the mutating webhook: pods that ask by names of other GPU-sharing schemes get "
      "farcall.io/vgpu");
  auto options = std::make_shared<k8s::WebhookOptions>();
  AddServing(command, options.get());
  command
      ->add_option("--configuration", options->configuration,
                   "MutatingWebhookConfiguration whose caBundle is kept")
      ->capture_default_str();
  AddCertificateDays(command, options.get());
  command
      ->add_option_function<std::string>(
          "--gpushare-unit",
          [options](const std::string& unit) {
            options->gpushare_unit = unit == "MiB" ? k8s::kMib : k8s::kGib;
          },
          "what aliyun.com/gpu-mem counts: GiB or MiB (default: GiB)")
      ->check(CLI::IsMember({"GiB", "MiB"}));
  command->add_flag("--gates", options->gates,
                    "keeps pods from being scheduled until the controller has bound their claims; "
                    "an API server older than 1.27 does not know that");
  AddApi(command, &options->api);
  command->footer(
      "Example: farcall pool k8s webhook --host farcall-webhook.farcall.svc\n"
      "         kubectl label namespace team-a farcall.io/aliases=enabled");
  command->callback([options, &exit_code] { exit_code = Webhook(*options); });
}

int Controller(const PoolOptions& pool, k8s::ControllerOptions options) {
  if (!FindBoth("controller", pool, &options)) return kExitUsage;
  return k8s::RunController(options);
}

void AddController(CLI::App* k8s, int& exit_code) {
  CLI::App* command = k8s->add_subcommand(
      "controller", "Binds a cluster's VGPUClaims in the pool, and releases them");
  auto pool = AddPoolAddress(command);
  auto options = std::make_shared<k8s::ControllerOptions>();
  command->add_option("--namespace", options->space, "namespace of the lease")
      ->capture_default_str();
  command
      ->add_option("--lease", options->lease,
                   "Lease by which one of several controllers leads; it has to be there")
      ->capture_default_str();
  command
      ->add_option("--lease-seconds", options->lease_seconds,
                   "how long another controller waits for one that has died")
      ->check(CLI::Range(3, 300))
      ->capture_default_str();
  command->add_flag(
      "--elastic-gpu", options->has_elastic,
      "binds ElasticGPUClaims of elasticgpu.io too, whose resources have to be there");
  command->add_option("--identity", options->identity,
                      "name of this process in the lease (default: its host and a random number)");
  AddHealth(command, &options->health_listen);
  AddProjectRoot(command, &options->project_root);
  AddApi(command, &options->api);
  command->footer(
      "Give it the same pool user as the plugins: they connect to what it binds.\n"
      "Example: farcall pool k8s controller --pool https://pool.example:7719 --ca ca.pem "
      "--token-file cluster.token");
  command->callback([pool, options, &exit_code] { exit_code = Controller(*pool, *options); });
}

int Metrics(const PoolOptions& pool, k8s::MetricsOptions options) {
  if (!FindBoth("metrics", pool, &options)) return kExitUsage;
  return InScratchFolder(
      "metrics", [&](const std::string& folder) { return k8s::RunMetrics(options, folder); });
}

void AddMetrics(CLI::App* k8s, int& exit_code) {
  CLI::App* command = k8s->add_subcommand(
      "metrics", "Serves external.metrics.k8s.io: a HorizontalPodAutoscaler scales on vGPUs");
  auto pool = AddPoolAddress(command);
  auto options = std::make_shared<k8s::MetricsOptions>();
  AddServing(command, options.get());
  command->add_option("--api-service", options->service, "APIService whose caBundle is kept")
      ->capture_default_str();
  AddCertificateDays(command, options.get());
  AddHealth(command, &options->health_listen);
  AddApi(command, &options->api);
  command->footer(
      "A token of the plugins' pool user with the role viewer is enough.\n"
      "Example: farcall pool k8s metrics --host farcall-metrics.farcall.svc "
      "--pool https://pool.example:7719 --ca ca.pem --token-file viewer.token");
  command->callback([pool, options, &exit_code] { exit_code = Metrics(*pool, *options); });
}

int Extender(const PoolOptions& pool, k8s::ExtenderOptions options) {
  if (!FindBoth("extender", pool, &options)) return kExitUsage;
  return k8s::RunExtender(options);
}

void AddExtender(CLI::App* k8s, int& exit_code) {
  CLI::App* command = k8s->add_subcommand(
      "extender", "Runs a scheduler extender: pods are bound once the pool has given them a vGPU");
  auto pool = AddPoolAddress(command);
  auto options = std::make_shared<k8s::ExtenderOptions>();
  command->add_option("--listen", options->listen, "host:port for the scheduler")
      ->capture_default_str();
  command->add_option("--tls-cert", options->tls.certificate,
                      "PEM file of its certificate (default: no TLS)");
  command->add_option("--tls-key", options->tls.key, "PEM file of its key");
  command->add_option("--client-ca", options->tls.authorities,
                      "PEM file of who signed the scheduler's certificate; needed where --listen "
                      "is no address of the loopback");
  AddHealth(command, &options->health_listen);
  AddProjectRoot(command, &options->project_root);
  AddApi(command, &options->api);
  command->footer(
      "Give it the same pool user as the plugins: they attach what it claims.\n"
      "Example: farcall pool k8s extender --pool https://pool.example:7719 --ca ca.pem "
      "--token-file cluster.token");
  command->callback([pool, options, &exit_code] { exit_code = Extender(*pool, *options); });
}

int DraSlices(const PoolOptions& pool, k8s::DraSlicesOptions options) {
  if (!FindBoth("dra slices", pool, &options)) return kExitUsage;
  return k8s::RunDraSlices(options);
}

void AddDraSlices(CLI::App* dra, int& exit_code) {
  CLI::App* command = dra->add_subcommand(
      "slices", "Publishes the pool's GPUs as ResourceSlices, which any node may use");
  auto pool = AddPoolAddress(command);
  auto options = std::make_shared<k8s::DraSlicesOptions>();
  command->add_option("--namespace", options->space, "namespace of the lease")
      ->capture_default_str();
  command
      ->add_option("--lease", options->lease,
                   "Lease by which one of several publishes; it has to be there")
      ->capture_default_str();
  command
      ->add_option("--lease-seconds", options->lease_seconds,
                   "how long another one waits for one that has died")
      ->check(CLI::Range(3, 300))
      ->capture_default_str();
  command->add_option("--identity", options->identity,
                      "name of this process in the lease (default: its host and a random number)");
  AddHealth(command, &options->health_listen);
  AddApi(command, &options->api);
  command->footer(
      "A token of a pool user with the role viewer is enough.\n"
      "Example: farcall pool k8s dra slices --pool https://pool.example:7719 --ca ca.pem "
      "--token-file viewer.token");
  command->callback([pool, options, &exit_code] { exit_code = DraSlices(*pool, *options); });
}

int DraNode(const PoolOptions& pool, k8s::DraNodeOptions options) {
  if (!FindBoth("dra node", pool, &options)) return kExitUsage;
  if (options.libraries.empty()) options.libraries = server::ProgramBeside("/lib/farcall");
  return k8s::RunDraNode(options);
}

void AddDraNode(CLI::App* dra, int& exit_code) {
  CLI::App* command = dra->add_subcommand(
      "node", "Runs a node's driver: prepares ResourceClaims, each with a claim of the pool");
  auto pool = AddPoolAddress(command);
  auto options = std::make_shared<k8s::DraNodeOptions>();
  command->add_option("--node", options->node, "name of this node in Kubernetes")->required();
  command->add_option("--endpoint", options->endpoint,
                      "pool:// or pools:// URL by which containers reach the pool (default: the "
                      "host of --pool, port 7718; pools:// if that is https://)");
  command->add_option("--libraries", options->libraries,
                      "folder of this node with the client's libraries, which containers see "
                      "(default: this installation's)");
  command->add_option("--state", options->state, "folder of this node for the claims' files")
      ->capture_default_str();
  command->add_option("--kubelet", options->kubelet, "the kubelet's folder")->capture_default_str();
  command->add_option("--cdi", options->cdi, "folder of CDI files, which the runtime reads")
      ->capture_default_str();
  AddProjectRoot(command, &options->project_root);
  AddApi(command, &options->api);
  command->footer(
      "Give it a token as the device plugin has it. Containers get tokens for their claims.\n"
      "Example: farcall pool k8s dra node --node $NODE_NAME --pool https://pool.example:7719 "
      "--ca ca.pem --token-file cluster.token");
  command->callback([pool, options, &exit_code] { exit_code = DraNode(*pool, *options); });
}

void AddDra(CLI::App* k8s, int& exit_code) {
  CLI::App* command = k8s->add_subcommand(
      "dra", "Runs a driver for dynamic resource allocation (resource.k8s.io/v1)");
  command->require_subcommand(1);
  AddDraSlices(command, exit_code);
  AddDraNode(command, exit_code);
}

}  // namespace

void AddK8sCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("k8s", "Joins a Kubernetes cluster to a pool");
  command->require_subcommand(1);
  AddPlugin(command, exit_code);
  AddWebhook(command, exit_code);
  AddController(command, exit_code);
  AddMetrics(command, exit_code);
  AddExtender(command, exit_code);
  AddDra(command, exit_code);
}

}  // namespace farcall::cli
