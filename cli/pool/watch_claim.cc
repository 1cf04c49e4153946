// SPDX-License-Identifier: Apache-2.0
// Started by `farcall run`: warns a program when the pool is about to take its claim's place.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "cli/pool/base/commands.h"
#include "cli/pool/base/flag_values.h"
#include "cli/pool/base/pool_options.h"
#include "generated/proto/pool.pb.h"
#include "pool/client/rest_client.h"
#include "proto/printable.h"

namespace farcall::cli {

namespace {

constexpr int kLookMs = 2000;

struct WatchFlags {
  std::string claim;
  int process = 0, signal = 0;
};

// As long as the process is there.
int Watch(const PoolOptions& pool, const WatchFlags& flags) {
  pool::PoolAddress address;
  if (!FindPool(pool, &address).ok()) return 1;
  const int process = static_cast<int>(syscall(SYS_pidfd_open, flags.process, 0));
  if (process < 0) return 1;
  uint64_t warned_epoch = 0;
  bool was_warned = false;
  pollfd end{process, POLLIN, 0};
  do {
    pool::v1::Claim claim;
    // A pool that does not answer takes no place meanwhile.
    if (!pool::RestGet(address, "/v1/claims/" + flags.claim, &claim).ok()) continue;
    if (!claim.request().preemptible()) return 0;
    const bool is_warned = claim.state() == "preempting";
    if (is_warned && (!was_warned || claim.epoch() != warned_epoch)) {
      std::fprintf(stderr, "farcall run: the pool takes the place of claim %s in %lld s (%s)\n",
                   Printable(claim.id()).c_str(),
                   static_cast<long long>((claim.leaves_in_ms() + 999) / 1000),
                   Printable(claim.reason(), kMaxMessageBytes).c_str());
      if (flags.signal != 0) syscall(SYS_pidfd_send_signal, process, flags.signal, nullptr, 0);
    }
    was_warned = is_warned;
    warned_epoch = claim.epoch();
  } while (poll(&end, 1, kLookMs) == 0);
  return 0;
}

}  // namespace

void AddPoolWatchClaim(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("watch-claim", "Started by farcall run");
  command->group("");  // not a command of people's
  auto pool = AddPoolAddress(command);
  auto flags = std::make_shared<WatchFlags>();
  command->add_option("claim", flags->claim)->required()->check(CheckName);
  command->add_option("--process", flags->process)->required()->check(CLI::Range(2, 1 << 30));
  command->add_option("--signal", flags->signal)->check(CLI::Range(0, 64));
  command->callback([pool, flags, &exit_code] { exit_code = Watch(*pool, *flags); });
}

}  // namespace farcall::cli
