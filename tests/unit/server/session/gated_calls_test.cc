// SPDX-License-Identifier: Apache-2.0
// No call that puts work on a device passes the gate by.
#include "server/session/gated_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "generated/proto/call_info.h"
#include "server/state/serve.h"

namespace farcall::server {
namespace {

// Each call that puts work in order on a stream is held, or is here with the reason why not.
TEST(GatedCalls, EveryCallThatPutsWorkOnADeviceIsHeld) {
  const std::vector<std::string> exempt = {
      "cuEvent",           // a point in a stream takes no time
      "cuStream",          // waits, values and attributes: others' work may wait for them
      "cuLaunchHostFunc",  // runs on the client
      "cuMemAllocAsync",   // mapping: the memory ledger's
      "cuMemAllocFromPoolAsync",
      "cuMemFreeAsync",
      "cuMemMapArrayAsync",
      "cuMemPool",
      "cuSignalExternal",
      "cuWaitExternal",
      "cuGraphicsMapResources",
      "cuGraphicsUnmapResources"};
  int gated = 0;
  for (uint16_t id = 0; id < kDispatchRows; ++id) {
    const DispatchRow& row = kDispatchTable[id];
    std::string name = row.name;
    bool is_async = name.find("Async") != std::string::npos;
    bool copies = name.find("Memcpy") != std::string::npos && name.find("Graph") == name.npos;
    bool launches = name.find("Launch") != std::string::npos;
    if (row.serve == nullptr || !(is_async || copies || launches)) continue;
    bool is_exempt = false;
    for (const std::string& prefix : exempt) is_exempt = is_exempt || name.rfind(prefix, 0) == 0;
    EXPECT_NE(InfoOf(id).TakesDeviceTime(), is_exempt) << name;
    gated += is_exempt ? 0 : 1;
  }
  EXPECT_GE(gated, 12);
}

}  // namespace
}  // namespace farcall::server
