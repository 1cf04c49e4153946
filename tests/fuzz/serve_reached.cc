// SPDX-License-Identifier: Apache-2.0
// The count of reached handlers, against the generated dispatch table.
#include "tests/fuzz/serve_reached.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "proto/wire.h"
#include "server/state/serve.h"

namespace farcall::fuzz {

namespace {

constexpr std::string_view kGenerated[] = {
#define FARCALL_NAME(name) #name,
#include "fuzz_generated.inc"
#undef FARCALL_NAME
};

struct Message {
  SessionCall call;
  const char* name;
};
constexpr Message kMessages[] = {
    {SessionCall::kHeartbeat, "kHeartbeat"},
    {SessionCall::kGoodbye, "kGoodbye"},
    {SessionCall::kNeedCredit, "kNeedCredit"},
    {SessionCall::kReturnCredit, "kReturnCredit"},
    {SessionCall::kFenceFrees, "kFenceFrees"},
    {SessionCall::kHostDone, "kHostDone"},
    {SessionCall::kHostWindow, "kHostWindow"},
    {SessionCall::kHostWindowEnd, "kHostWindowEnd"},
    {SessionCall::kShareHost, "kShareHost"},
    {SessionCall::kNamedImage, "kNamedImage"},
    {SessionCall::kMirrorUp, "kMirrorUp"},
    {SessionCall::kMirrorDown, "kMirrorDown"},
#ifdef FARCALL_NVML
    {SessionCall::kNvml, "kNvml"},
#endif
};

std::array<std::atomic<bool>, UINT16_MAX + 1> g_served;

std::atomic<uint64_t> g_sessions{0};
std::atomic<uint64_t> g_whole_sessions{0};

bool IsGenerated(std::string_view name) {
  for (std::string_view generated : kGenerated)
    if (generated == name) return true;
  return false;
}

Reached CountRows(bool generated, std::string* missing) {
  Reached count;
  for (uint16_t id = 0; id < server::kDispatchRows; ++id) {
    const server::DispatchRow& row = server::kDispatchTable[id];
    if (row.serve == nullptr || IsGenerated(row.name) != generated) continue;
    ++count.all;
    if (g_served[id])
      ++count.reached;
    else if (missing != nullptr)
      missing->append(" ").append(row.name);
  }
  return count;
}

Reached CountMessages(std::string* missing) {
  Reached count;
  for (const Message& message : kMessages) {
    ++count.all;
    if (g_served[static_cast<uint16_t>(message.call)])
      ++count.reached;
    else if (missing != nullptr)
      missing->append(" ").append(message.name);
  }
  return count;
}

void Print(const char* what, Reached count, const std::string& missing) {
  std::fprintf(stderr, "%s reached: %d of %d (%.1f %%)%s%s\n", what, count.reached, count.all,
               count.percent(), missing.empty() ? "" : "; not:", missing.c_str());
}

}  // namespace

void NoteServed(uint16_t call) {
  g_served[call] = true;
}

// FARCALL_FUZZ_REPORT=2 tells each refusal.
void NoteSession(bool to_its_end, const Status& end) {
  static const char* report = std::getenv("FARCALL_FUZZ_REPORT");
  ++g_sessions;
  if (to_its_end)
    ++g_whole_sessions;
  else if (report != nullptr && *report == '2')
    std::fprintf(stderr, "refused: %s\n", end.message().c_str());
}

bool IsClientMessage(uint16_t call) {
  for (const Message& message : kMessages)
    if (static_cast<uint16_t>(message.call) == call) return true;
  return false;
}

Reached GeneratedReached() {
  return CountRows(true, nullptr);
}
Reached HandwrittenReached() {
  return CountRows(false, nullptr);
}
Reached MessagesReached() {
  return CountMessages(nullptr);
}

void ReportReached() {
  std::fprintf(stderr, "sessions: %llu, served to the input's end: %llu\n",
               static_cast<unsigned long long>(g_sessions.load()),
               static_cast<unsigned long long>(g_whole_sessions.load()));
  std::string missing;
  Reached count = CountRows(true, &missing);
  Print("generated server functions", count, missing);
  missing.clear();
  count = CountRows(false, &missing);
  Print("hand-written server functions", count, missing);
  missing.clear();
  count = CountMessages(&missing);
  Print("messages of the session", count, missing);
}

}  // namespace farcall::fuzz
