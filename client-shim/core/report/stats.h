// SPDX-License-Identifier: Apache-2.0
// FARCALL_STATS: what each API call cost, written as JSON at exit. Off, a call pays one test.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "client-shim/core/report/counters.h"
#include "transport/link.h"

namespace farcall::client {

extern std::atomic<Stats*> g_stats;  // nullptr = off

// What happens between cuProfilerStart and cuProfilerStop is counted apart as well.
void OpenStatsRange();
void CloseStatsRange();
// Counts in a file of this process in `folder`, or in memory where that is empty.
void StartStats(const std::string& folder);
// Notes the library that `image` lies in, if it lies in one.
void CountLibrary(const void* image);
// The file that holds the address; "": none.
std::string LibraryOf(const void* address);
uint64_t NowNs();
// Written beside the file and renamed, so a reader never sees half.
void WriteStats(const std::string& path, const Link::Counters& wire);

}  // namespace farcall::client
