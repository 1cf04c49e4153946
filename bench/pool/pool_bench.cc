// SPDX-License-Identifier: Apache-2.0
// pool [REQUESTS]: a real controller and a real host (dry device) on this machine, over loopback
// and SQLite with synchronous=FULL. Prints a table; what it compares with is
// docs/internals/pool.md's goals.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "pool/client/rest_client.h"
#include "pool/convert/convert.h"
#include "pool/store/store.h"
#include "proto/exec_arguments.h"
#include "proto/handshake/session_features.h"
#include "transport/handshake.h"

namespace farcall::pool {
namespace {

using Seconds = std::chrono::duration<double>;

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "pool: %s\n", why.c_str());
  std::exit(1);
}

// A farcall of this tree and its ready line.
struct Process {
  pid_t pid = -1;
  std::string line;
};

Process Start(std::vector<std::string> arguments) {
  std::string self = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string program = self + "/../../bin/farcall";
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) Die("no pipe");
  Process process;
  process.pid = fork();
  if (process.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // none outlives a run that is broken off
    dup2(ends[1], STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    arguments.insert(arguments.begin(), program);
    execv(program.c_str(), ExecArguments(arguments).data());
    _exit(127);
  }
  close(ends[1]);
  char byte;
  while (read(ends[0], &byte, 1) == 1 && byte != '\n') process.line += byte;
  close(ends[0]);
  if (process.line.empty()) Die(arguments[0] + " did not start");
  return process;
}

void Stop(const Process& process) {
  kill(process.pid, SIGTERM);
  kill(process.pid, SIGTERM);
  waitpid(process.pid, nullptr, 0);
}

std::string After(const std::string& line, const std::string& scheme) {
  size_t at = line.find(scheme);
  return at == std::string::npos ? "" : line.substr(at, line.find_first_of(", \n", at) - at);
}

double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(part * static_cast<double>(values.size())))];
}

void Row(const char* what, const std::vector<double>& seconds, const char* goal) {
  std::printf("%-46s %8.2f ms %8.2f ms   %s\n", what, Quantile(seconds, 0.5) * 1e3,
              Quantile(seconds, 0.99) * 1e3, goal);
}

double Timed(const std::function<void()>& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

void Must(const Status& status) {
  if (!status.ok()) Die(status.message());
}

void Redirected(const std::string& endpoint, const std::string& claim, const std::string& run) {
  auto deadline = Clock::now() + std::chrono::seconds(60);
  Result<std::unique_ptr<Channel>> channel = Dial("tcp://" + endpoint.substr(7), deadline);
  Must(channel.status());
  Hello hello;
  hello.features = FeatureBit(SessionFeature::kRedirect);
  hello.claim = claim;
  hello.vgpu = run;
  hello.quota.memory_bytes = 1 << 20;
  Must(PoolHandshake(**channel, hello, {}, deadline).status());
}

void MeasureClaims(const std::string& folder, int requests) {
  Process controller = Start({"pool", "serve", "--store", folder + "/pool.db", "--listen",
                              "127.0.0.1:0", "--rest", "127.0.0.1:0", "--grpc", "127.0.0.1:0"});
  std::string url = After(controller.line, "http://"), endpoint = After(controller.line, "pool://");
  Process host = Start({"serve", "--listen", "tcp://127.0.0.1:0", "--device", "dry", "--pool", url,
                        "--pool-name", "bench"});
  pb::HostList hosts;
  while (hosts.hosts_size() == 0 || hosts.hosts(0).state() != "ready") {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    hosts.Clear();
    Must(RestGet({url, "", {}}, "/v1/hosts", &hosts));
  }
  std::vector<double> bound, bound_by_hello, redirect;
  pb::ClaimRequest request;
  request.set_memory_bytes(1 << 20);
  request.set_wait_ms(30'000);
  pb::Claim claim;
  for (int i = 0; i < requests; ++i) {
    bound.push_back(Timed([&] {
      Must(RestCall({url, "", {}}, "POST", "/v1/claims", &request, &claim));
    }));
    if (claim.state() != "bound") Die("a claim is " + claim.state());
    pb::Claim released;
    if (i + 1 < requests)
      Must(RestCall({url, "", {}}, "DELETE", "/v1/claims/" + claim.id(), nullptr, &released));
  }
  for (int i = 0; i < requests; ++i)
    redirect.push_back(Timed([&] { Redirected(endpoint, claim.id(), ""); }));
  for (int i = 0; i < requests; ++i)
    bound_by_hello.push_back(Timed([&] { Redirected(endpoint, "", "run " + std::to_string(i)); }));
  Row("HELLO -> REDIRECT, bound claim", redirect, "p99 <= 2 ms");
  Row("request -> bound, by REST", bound, "p99 <= 30 ms");
  Row("HELLO -> new claim -> REDIRECT, none ends", bound_by_hello, "");
  Stop(host);
  Stop(controller);
}

void MeasureRestart(const std::string& folder, int claims) {
  std::string path = folder + "/restart.db";
  {
    Loaded loaded;
    Result<std::unique_ptr<Store>> store = Store::Open(path, &loaded);
    Must(store.status());
    Batch batch;
    for (int i = 0; i < claims; ++i) {
      Claim claim;
      claim.id = "c-" + std::to_string(i);
      claim.state = ClaimState::kActive;
      claim.host = "host-" + std::to_string(i / 100);
      claim.devices = {static_cast<uint32_t>(i % 8)};
      claim.ask.memory_bytes = claim.memory_bytes = 1 << 20;
      claim.epoch = 1;
      claim.order = static_cast<uint64_t>(i) + 1;
      batch.writes.push_back({"claim", claim.id, ToProto(claim, nullptr).SerializeAsString()});
    }
    Must((*store)->Commit(batch));
  }
  Process controller;
  double seconds = Timed([&] {
    controller = Start({"pool", "serve", "--store", path, "--listen", "127.0.0.1:0", "--rest",
                        "127.0.0.1:0", "--grpc", "127.0.0.1:0"});
    pb::ClaimList list;
    Must(RestGet({After(controller.line, "http://"), "", {}}, "/v1/claims?limit=1000", &list));
    if (list.total() != static_cast<uint32_t>(claims)) Die("claims were lost");
  });
  std::printf("%-46s %8.3f s %13s   %s\n", "restart with 10,000 claims, to its first answer",
              seconds, "", "<= 3 s");
  Stop(controller);
}

}  // namespace
}  // namespace farcall::pool

int main(int argc, char** argv) {
  int requests = argc > 1 ? std::atoi(argv[1]) : 500;
  if (requests < 1) {
    std::fprintf(stderr, "usage: pool [REQUESTS]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  char folder[] = "/tmp/farcall-pool-bench-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  std::printf("%-46s %11s %11s   %s\n", "one after the other, loopback", "p50", "p99", "goal");
  farcall::pool::MeasureClaims(folder, requests);
  farcall::pool::MeasureRestart(folder, 10'000);
  std::filesystem::remove_all(folder);
  return 0;
}
