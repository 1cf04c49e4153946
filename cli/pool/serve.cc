// SPDX-License-Identifier: Apache-2.0
// `farcall pool serve` and `farcall pool dev`.
#include "pool/serve.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/flags/seconds.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/oidc_flags.h"
#include "cli/pool/base/queue_priority.h"
#include "cli/pool/base/review_flags.h"
#include "cli/pool/base/sequencer_flags.h"
#include "generated/proto/pool.pb.h"
#include "pool/client/rest_client.h"
#include "server/supervisor/options/control_path.h"
#include "server/supervisor/options/serve_options.h"
#include "server/worker/sandbox/program_path.h"
#include "settings/exit_code.h"

namespace farcall::cli {

namespace {

struct Flags {
  pool::PoolServeOptions options;
  std::string token_file, token_verifier, join_token_file, placer = "pack", device = "cpu";
  OidcFlags oidc;
  ReviewFlags review;
  int hosts = 1;  // of `dev`
  double settle_seconds = 10;
  double min_run_seconds = static_cast<double>(options.timing.min_run) / 1000;
  double preempt_grace_seconds = static_cast<double>(options.timing.preempt_grace) / 1000;
};

void AddAddresses(CLI::App* command, Flags* flags) {
  command
      ->add_option("--listen", flags->options.listen,
                   "host:port for programs (pool://, with TLS pools://)")
      ->capture_default_str();
  command->add_option("--rest", flags->options.rest, "host:port of REST")->capture_default_str();
  command->add_option("--grpc", flags->options.grpc, "host:port of gRPC")->capture_default_str();
  command->add_option(
      "--health-listen", flags->options.health,
      "host:port of /healthz and /readyz, without TLS (default: 2 ports above --rest)");
  command
      ->add_option(
          "--placer", flags->placer,
          "placement of claims: pack (fill used GPUs first), spread, fgd (leave the least that "
          "other claims could not use), near (the zone with the shortest round trip), or topology "
          "(GPUs that are close to each other)")
      ->check(CLI::IsMember(pool::PlacerNames()))
      ->capture_default_str();
}

void AddPreemption(CLI::App* command, Flags* flags) {
  command
      ->add_option("--min-run", flags->min_run_seconds,
                   "seconds that a preemptible claim has its place before it may be preempted")
      ->check(CheckSeconds)
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--preempt-grace", flags->preempt_grace_seconds,
                   "seconds from the warning until a preempted claim loses its place")
      ->check(CheckSeconds)
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
}

int Fail(const std::string& why) {
  std::fprintf(stderr, "farcall pool: %s\n", why.c_str());
  return kExitUsage;
}

int Serve(Flags& flags) {
  pool::PoolServeOptions& options = flags.options;
  if (Status read = ReadPoolToken(flags.token_file, &options.token); !read.ok())
    return Fail(read.message());
  if (!flags.token_verifier.empty())
    if (Status read = server::ReadTokenVerifiers(flags.token_verifier, &options.clients);
        !read.ok())
      return Fail(read.message());
  if (!flags.join_token_file.empty()) {
    Result<std::string> token = server::ReadTokenFile(flags.join_token_file);
    if (!token.ok()) return Fail(token.status().message());
    options.join_token = *token;
  }
  if (Status read = ReadOidcFlags(flags.oidc, &options.oidc); !read.ok())
    return Fail(read.message());
  if (Status read = ReadReviewFlags(flags.review, &options.review); !read.ok())
    return Fail(read.message());
  if (options.store.empty()) {
    Result<std::string> folder = server::MakeControlFolder();
    if (!folder.ok()) return Fail(folder.status().message());
    options.store = *folder + "/pool.db";
  }
  options.sequencer.placer = *pool::PlacerOf(flags.placer);
  options.timing.settle = static_cast<pool::Ms>(flags.settle_seconds * 1000);
  options.timing.min_run = static_cast<pool::Ms>(flags.min_run_seconds * 1000);
  options.timing.preempt_grace = static_cast<pool::Ms>(flags.preempt_grace_seconds * 1000);
  options.first_operator = [](const std::string& token) {
    std::fprintf(stderr,
                 "farcall pool: the token of user 'operator', shown this once: %s\n"
                 "farcall pool: keep it with `farcall login URL`, and make more with `farcall pool "
                 "token new`\n",
                 token.c_str());
  };
  return pool::ServePool(options, [](const std::string&, const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    return true;
  });
}

// A host on this machine, which ends with this process.
pid_t StartHost(const std::string& url, const std::string& name, const std::string& device) {
  std::string program = server::ProgramBeside("/bin/farcall");
  pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // our ready line is the only one
  execl(program.c_str(), "farcall", "serve", "--listen", "tcp://127.0.0.1:0", "--device",
        device.c_str(), "--pool", url.c_str(), "--pool-name", name.c_str(), "--park-claims",
        "--log-level", "warn", nullptr);
  std::perror(program.c_str());
  _exit(127);
}

bool WaitReady(const std::string& url, const std::vector<pid_t>& hosts) {
  while (true) {
    pool::v1::HostList list;
    const bool is_told = pool::RestGet({url, "", {}}, "/v1/hosts", &list).ok();
    const auto ready = std::count_if(list.hosts().begin(), list.hosts().end(),
                                     [](const auto& host) { return host.state() == "ready"; });
    if (is_told && ready == static_cast<ptrdiff_t>(hosts.size())) return true;
    for (pid_t host : hosts)
      if (waitpid(host, nullptr, WNOHANG) == host) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Of `dev`: "dev", "dev2", "dev3", ...
std::string HostName(int number) {
  return number == 1 ? "dev" : "dev" + std::to_string(number);
}

int Dev(Flags& flags) {
  pool::PoolServeOptions& options = flags.options;
  char folder[] = "/tmp/farcall-pool-XXXXXX";
  if (mkdtemp(folder) == nullptr) return Fail("no folder in /tmp");
  options.store = std::string(folder) + "/pool.db";
  options.sequencer.placer = *pool::PlacerOf(flags.placer);
  options.timing.settle = 0;  // there is nothing to settle
  options.timing.min_run = static_cast<pool::Ms>(flags.min_run_seconds * 1000);
  options.timing.preempt_grace = static_cast<pool::Ms>(flags.preempt_grace_seconds * 1000);
  std::vector<pid_t> hosts;
  bool has_hosts = false;
  int code = pool::ServePool(options, [&](const std::string& url, const std::string& line) {
    for (int i = 1; i <= flags.hosts; ++i)
      hosts.push_back(StartHost(url, HostName(i), flags.device));
    has_hosts = WaitReady(url, hosts);
    if (!has_hosts) {
      std::fprintf(stderr, "farcall pool dev: a host did not start\n");
      return false;
    }
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    return true;
  });
  for (pid_t host : hosts) {
    kill(host, SIGTERM);
    kill(host, SIGTERM);
  }
  for (pid_t host : hosts) waitpid(host, nullptr, 0);
  if (!has_hosts && code == 0) code = kExitFailure;
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return code;
}

}  // namespace

Status ReadPoolToken(const std::string& file, std::string* token) {
  const char* given = std::getenv("FARCALL_TOKEN");
  const char* given_file = std::getenv("FARCALL_TOKEN_FILE");
  std::string path = !file.empty() ? file : given_file != nullptr ? given_file : "";
  if (file.empty() && given != nullptr && *given != '\0') {
    *token = given;
    return {};
  }
  if (path.empty()) return {};
  Result<std::string> read = server::ReadTokenFile(path);
  if (read.ok()) *token = *read;
  return read.status();
}

void AddPoolServeCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("serve", "Runs a pool's controller");
  AddAddresses(command, flags.get());
  command->add_option("--store", flags->options.store,
                      "SQLite file of the pool's state (default: pool.db in /run/farcall, "
                      "$XDG_RUNTIME_DIR/farcall or /tmp/farcall-UID, which a reboot deletes)");
  command->add_option(
      "--record", flags->options.record,
      "new file in which all that the controller decides is kept, for `farcall pool "
      "replay`");
  command->add_option("--token-file", flags->token_file,
                      "file whose first line is the operator's token (default: the tokens of "
                      "users with the role operator, and on the loopback nobody needs one)");
  command->add_flag("--accounts", flags->options.accounts,
                    "ask for tokens on the loopback too; a new store's first operator is made and "
                    "its token printed once");
  command->add_option("--token-verifier", flags->token_verifier,
                      "file of the tenants' verifiers, made by `farcall token new --verifier`; a "
                      "tenant sees only its own claims");
  AddOidcFlags(command, &flags->oidc);
  AddReviewFlags(command, &flags->review);
  command
      ->add_option("--tenant-project", flags->options.tenant_projects,
                   "project in which the tenants of --token-verifier and of certificates may have "
                   "claims, and those below it; repeat it for several")
      ->check([](const std::string& name) {
        return pool::IsProjectName(name) ? "" : "'" + name + "': no project has this name";
      })
      ->capture_default_str();
  command
      ->add_option("--max-tenant-claims", flags->options.limits.tenant_claims,
                   "claims of one tenant at a time, including those that wait")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command
      ->add_option("--max-queue-priority", flags->options.max_queue_priority,
                   "highest queue priority that a tenant may ask for; the operator may ask for any")
      ->check(CheckQueuePriority())
      ->capture_default_str();
  command->add_option("--join-token-file", flags->join_token_file,
                      "file whose first line is a join token for any number of hosts (default: "
                      "none; prefer `farcall pool join-token new`)");
  command->add_option("--tls-cert", flags->options.tls.certificate,
                      "PEM file of the controller's certificate and its chain: all its addresses "
                      "use TLS, except --health-listen");
  command->add_option("--tls-key", flags->options.tls.key, "PEM file of the certificate's key");
  command->add_option(
      "--tls-client-ca", flags->options.tls.authorities,
      "PEM file of the authorities that sign the certificates of clients and hosts; whoever has "
      "none is refused, and a tenant is known by its certificate (default: none is asked for)");
  command->add_option("--tls-crl", flags->options.tls.revoked,
                      "PEM file of revoked certificates; all TLS files are read again when they "
                      "change");
  command->add_flag("--plaintext", flags->options.plaintext,
                    "allow addresses other than the loopback without TLS: whoever is on the "
                    "network between can read tokens and use leases");
  command
      ->add_option("--settle", flags->settle_seconds,
                   "seconds after a start during which no claim expires")
      ->check(CheckSeconds)
      ->check(CLI::Range(0.0, 600.0))
      ->capture_default_str();
  AddPreemption(command, flags.get());
  command->add_option("--preempt-webhook", flags->options.preempt_webhook,
                      "http:// or https:// URL that gets a POST for each claim whose place is to "
                      "be taken, and for what becomes of it");
  AddSequencerFlags(command, &flags->options.sequencer);
  command->footer(
      "Example: farcall pool serve --store /var/lib/farcall/pool.db --listen 0.0.0.0:7718 "
      "--rest 0.0.0.0:7719 --grpc 0.0.0.0:7720 --token-file /etc/farcall/token "
      "--tls-cert pool.pem --tls-key pool.key");
  command->callback([flags, &exit_code] { exit_code = Serve(*flags); });
}

void AddPoolDevCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  flags->options.listen = "127.0.0.1:0";
  flags->options.rest = "127.0.0.1:0";
  flags->options.grpc = "127.0.0.1:0";
  CLI::App* command = app.add_subcommand("dev", "Runs a controller and hosts on this machine");
  AddAddresses(command, flags.get());
  AddSequencerFlags(command, &flags->options.sequencer);
  command->add_option("--device", flags->device, "device of the host, as in farcall serve")
      ->capture_default_str();
  command->add_option("--hosts", flags->hosts, "number of hosts: dev, dev2, dev3, ...")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  AddPreemption(command, flags.get());
  command->footer("Example: farcall pool dev");
  command->callback([flags, &exit_code] { exit_code = Dev(*flags); });
}

}  // namespace farcall::cli
