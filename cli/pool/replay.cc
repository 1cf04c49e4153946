// SPDX-License-Identifier: Apache-2.0
// `farcall pool replay` and `farcall pool snapshot`.
#include "pool/record/replay.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/pool/base/call.h"
#include "cli/pool/base/commands.h"
#include "cli/pool/base/flag_values.h"
#include "cli/pool/base/pool_options.h"
#include "pool/client/rest_client.h"
#include "pool/core/model/placers.h"
#include "proto/printable.h"
#include "settings/exit_code.h"

namespace farcall::cli {

namespace {

constexpr int kExitDiffers = 3;

int Fail(const Status& why) {
  std::fprintf(stderr, "farcall pool: %s\n", Printable(why.message(), kMaxMessageBytes).c_str());
  return why.code() == Code::kInvalid ? kExitUsage : kExitFailure;
}

double Seconds(pool::Ms ms) {
  return static_cast<double>(ms) / 1000;
}

int PlayBack(const std::string& file) {
  auto reader = pool::RecordReader::Open(file);
  if (!reader.ok()) return Fail(reader.status());
  const Result<pool::Replayed> replayed = pool::Replay(**reader);
  if (!replayed.ok()) return Fail(replayed.status());
  if (replayed->differs != 0) {
    std::printf("event %llu: something else followed\n%s\n",
                static_cast<unsigned long long>(replayed->differs), replayed->how.c_str());
    return kExitDiffers;
  }
  std::printf("%llu events in %.3f s of the pool's time: the same followed from each\n",
              static_cast<unsigned long long>(replayed->events), Seconds(replayed->took));
  if ((*reader)->is_cut_off()) std::printf("the file ends within an event\n");
  return kExitOk;
}

double Wait(const pool::Fared& fared, double part) {
  if (fared.waits.empty()) return 0;
  std::vector<pool::Ms> waits = fared.waits;
  std::sort(waits.begin(), waits.end());
  const auto at = static_cast<size_t>(part * static_cast<double>(waits.size()));
  return Seconds(waits[std::min(at, waits.size() - 1)]);
}

void Row(const char* name, const pool::Fared& fared) {
  const std::string rules = fared.sequencer + (fared.placer.empty() ? "" : ", " + fared.placer);
  std::printf("%-10s %-16s %7zu %7zu %8zu %9zu %10.1f %10.1f %10.1f %7.1f%%\n", name, rules.c_str(),
              fared.claims, fared.placed, fared.waiting, fared.preempted, Wait(fared, 0.5),
              Wait(fared, 0.95), Wait(fared, 1), fared.used_part * 100);
}

// Both are simulated, so that they differ by the rules alone.
int Compare(const std::string& file, const pool::WhatIf& what) {
  auto reader = pool::RecordReader::Open(file);
  if (!reader.ok()) return Fail(reader.status());
  const Result<pool::Recorded> record = pool::ReadAll(**reader);
  if (!record.ok()) return Fail(record.status());
  const Result<pool::Fared> with = pool::Simulate(*record, what);
  if (!with.ok()) return Fail(with.status());
  const Result<pool::Fared> as_it_was = pool::Simulate(*record, {});
  if (!as_it_was.ok()) return Fail(as_it_was.status());
  std::printf("%-10s %-16s %7s %7s %8s %9s %10s %10s %10s %8s\n", "", "RULES", "CLAIMS", "PLACED",
              "WAITING", "PREEMPTED", "MEDIAN s", "P95 s", "LONGEST s", "GPUS");
  Row("as it was", *as_it_was);
  Row("what if", *with);
  return kExitOk;
}

std::string CheckWith(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const bool is_good = equals != std::string::npos && equals + 1 < text.size() &&
                       (name == "sequencer" || name == "placer");
  return is_good ? "" : "'" + text + "': write sequencer=fair or placer=spread";
}

void AddReplay(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "replay", "Plays a record of `farcall pool serve --record` back, or asks what if");
  auto file = std::make_shared<std::string>();
  auto with = std::make_shared<std::vector<std::string>>();
  command->add_option("file", *file, "the record, or a snapshot")->required();
  command
      ->add_option("--with", *with,
                   "simulate its claims and hosts under another rule: sequencer=fifo, lifo, drf or "
                   "fair, or placer=" +
                       pool::PlacersText())
      ->check(CheckWith);
  auto run = std::make_shared<std::string>("1h");
  command
      ->add_option("--run", *run,
                   "of a snapshot: how long each claim runs from then on: 90s, 30m, 1h, 7d")
      ->check(CheckDuration)
      ->capture_default_str();
  command->footer(
      "Without --with it exits with 3 if anything else follows now than was recorded.\n"
      "Example: farcall pool replay pool.rec\n"
      "         farcall pool replay pool.rec --with sequencer=fair --with placer=spread");
  command->callback([file, with, run, &exit_code] {
    google::protobuf::SetLogHandler(nullptr);  // a file that is none is told of in our words
    pool::WhatIf what;
    what.run_ms = ReadDuration(*run) * 1000;
    for (const std::string& one : *with)
      (one[0] == 's' ? what.sequencer : what.placer) = one.substr(one.find('=') + 1);
    exit_code = with->empty() ? PlayBack(*file) : Compare(*file, what);
  });
}

int Take(const PoolOptions& pool, const std::string& file) {
  pool::v1::Snapshot snapshot;
  const int code = Call(pool, "GET", "/v1/snapshot", nullptr, &snapshot);
  if (code != 0 || pool.json) return code;
  auto writer = pool::RecordWriter::Open(file, snapshot);
  if (!writer.ok()) return Fail(writer.status());
  if (Status closed = (*writer)->Close(); !closed.ok()) return Fail(closed);
  std::printf("%d claims and %d hosts in %s\n", snapshot.claims_size(), snapshot.hosts_size(),
              Printable(file).c_str());
  return kExitOk;
}

}  // namespace

void AddPoolReplay(CLI::App& app, int& exit_code) {
  AddReplay(app, exit_code);
  CLI::App* command = app.add_subcommand(
      "snapshot", "Keeps the state of a pool in a file, for `farcall pool replay --with`");
  auto pool = AddPoolOptions(command);
  auto file = std::make_shared<std::string>();
  command->add_option("file", *file, "new file")->required();
  command->footer(
      "Example: farcall pool snapshot now.snap && farcall pool replay now.snap --with "
      "placer=spread");
  command->callback([pool, file, &exit_code] { exit_code = Take(*pool, *file); });
}

}  // namespace farcall::cli
