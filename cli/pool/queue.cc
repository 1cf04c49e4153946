// SPDX-License-Identifier: Apache-2.0
// `farcall pool queue`: claims that wait, by place.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/flag_values.h"
#include "cli/pool/base/pool_options.h"
#include "generated/proto/pool.pb.h"
#include "proto/printable.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

std::string AskText(const pb::Claim& claim) {
  const pb::ClaimRequest& ask = claim.request();
  std::string text = claim.gang_size() == 0 ? "" : std::to_string(claim.gang_size()) + " of ";
  if (ask.count() != 1) text += std::to_string(ask.count()) + " x ";
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

// The queue over time: one column for each part of the time until the last that is foreseen ends,
// at most a day. '.': it waits, '#': it is expected to run.
void Draw(const pb::Queue& queue) {
  constexpr int kColumns = 48;
  constexpr int64_t kMaxMs = 24 * 3'600'000;
  int64_t end = 0;
  for (const pb::QueuedClaim& one : queue.claims()) end = std::max(end, one.ends_in_ms());
  end = std::min(end, kMaxMs);
  if (end <= 0) return;
  const int64_t column = std::max<int64_t>(end / kColumns, 1);
  std::printf("\n%-18s now %*s\n", "", kColumns - 4, ("+" + WaitedText(end)).c_str());
  for (const pb::QueuedClaim& one : queue.claims()) {
    std::string bar(kColumns, one.has_starts_in_ms() ? '.' : '?');
    for (int i = 0; i < kColumns && one.has_starts_in_ms(); ++i) {
      const int64_t from = i * column, to = from + column;
      if (one.starts_in_ms() < to && one.ends_in_ms() > from) bar[static_cast<size_t>(i)] = '#';
      if (one.ends_in_ms() <= from) bar[static_cast<size_t>(i)] = ' ';
    }
    std::printf("%-18s %s\n", Printable(one.claim().id()).c_str(), bar.c_str());
  }
  std::printf("# runs, . waits, ? not known%s; if %s\n",
              queue.cut_short() ? " (cut short after 100 ms)" : "",
              Printable(queue.start_basis(), kMaxMessageBytes).c_str());
}

int Show(const PoolOptions& pool, uint32_t limit, const std::string& group) {
  pb::Queue queue;
  const std::string path = "/v1/queue?limit=" + std::to_string(limit) + "&group=" + group;
  const int code = Call(pool, "GET", path, nullptr, &queue);
  if (code != 0 || pool.json) return code;
  std::printf("%u claim(s) wait, by %s\n", queue.waiting(), Printable(queue.sequencer()).c_str());
  if (queue.claims_size() == 0) return 0;
  const bool has_groups =
      std::any_of(queue.claims().begin(), queue.claims().end(),
                  [](const pb::QueuedClaim& one) { return one.claim().group() != "default"; });
  if (has_groups) std::printf("%-16s ", "GROUP");
  std::printf("%5s %-18s %-20s %-12s %8s %-18s %9s %9s  %s\n", "PLACE", "CLAIM", "PROJECT",
              "TENANT", "PRIORITY", "ASKS", "WAITED", "STARTS IN", "WHY");
  for (const pb::QueuedClaim& one : queue.claims()) {
    const pb::Claim& claim = one.claim();
    if (has_groups) std::printf("%-16s ", Printable(claim.group()).c_str());
    std::printf("%5u %-18s %-20s %-12s %8d %-18s %9s %9s  %s\n", one.place(),
                Printable(claim.id()).c_str(), Printable(claim.project()).c_str(),
                claim.tenant().empty() ? "-" : Printable(claim.tenant(), 12).c_str(),
                claim.request().queue_priority(), AskText(claim).c_str(),
                WaitedText(one.waited_ms()).c_str(),
                one.has_starts_in_ms() ? WaitedText(one.starts_in_ms()).c_str() : "-",
                Printable(one.why()).c_str());
  }
  Draw(queue);
  return 0;
}

}  // namespace

void AddPoolQueueCommand(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "queue", "Shows the claims that wait, by place, and when each is expected to start");
  auto pool = AddPoolOptions(command);
  auto limit = std::make_shared<uint32_t>(100);
  command->add_option("--limit", *limit, "number of claims at most")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  auto group = std::make_shared<std::string>();
  command->add_option("--group", *group, "only the claims of this group (default: of all)")
      ->check(CheckName);
  command->footer("Example: farcall pool queue");
  command->callback([pool, limit, group, &exit_code] { exit_code = Show(*pool, *limit, *group); });
}

}  // namespace farcall::cli
