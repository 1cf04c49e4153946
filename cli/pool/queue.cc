// SPDX-License-Identifier: Apache-2.0
// `farcall pool queue`: claims that wait, by place.
#include <cstdio>
#include <memory>

#include "cli/pool/call.h"
#include "cli/pool/commands.h"
#include "cli/pool/pool_options.h"
#include "generated/proto/pool.pb.h"
#include "proto/printable.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

std::string AskText(const pb::ClaimRequest& ask) {
  std::string text = ask.count() == 1 ? "" : std::to_string(ask.count()) + " x ";
  text += ask.memory_bytes() == 0 ? "GPU" : Gib(ask.memory_bytes()) + "GiB";
  char share[32];
  std::snprintf(share, sizeof(share), " %g%%", ask.share_milli() / 10.0);
  return ask.share_milli() == 0 ? text : text + share;
}

std::string WaitedText(int64_t ms) {
  const long long seconds = ms / 1000;
  char text[32];
  std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld", seconds / 3600, seconds / 60 % 60,
                seconds % 60);
  return text;
}

int Show(const PoolOptions& pool, uint32_t limit) {
  pb::Queue queue;
  const int code = Call(pool, "GET", "/v1/queue?limit=" + std::to_string(limit), nullptr, &queue);
  if (code != 0 || pool.json) return code;
  std::printf("%u claim(s) wait, by %s\n", queue.waiting(), Printable(queue.sequencer()).c_str());
  if (queue.claims_size() == 0) return 0;
  std::printf("%5s %-18s %-20s %-12s %8s %-18s %9s  %s\n", "PLACE", "CLAIM", "PROJECT", "TENANT",
              "PRIORITY", "ASKS", "WAITED", "WHY");
  for (const pb::QueuedClaim& one : queue.claims()) {
    const pb::Claim& claim = one.claim();
    std::printf("%5u %-18s %-20s %-12s %8d %-18s %9s  %s\n", one.place(),
                Printable(claim.id()).c_str(), Printable(claim.project()).c_str(),
                claim.tenant().empty() ? "-" : Printable(claim.tenant(), 12).c_str(),
                claim.request().queue_priority(), AskText(claim.request()).c_str(),
                WaitedText(one.waited_ms()).c_str(), Printable(one.why()).c_str());
  }
  return 0;
}

}  // namespace

void AddPoolQueueCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("queue", "Shows the claims that wait, by place");
  auto pool = AddPoolOptions(command);
  auto limit = std::make_shared<uint32_t>(100);
  command->add_option("--limit", *limit, "number of claims at most")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->footer("Example: farcall pool queue");
  command->callback([pool, limit, &exit_code] { exit_code = Show(*pool, *limit); });
}

}  // namespace farcall::cli
