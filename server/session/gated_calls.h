// SPDX-License-Identifier: Apache-2.0
// Which records put work on a device, and of what kind: what the compute gate holds and accounts.
#pragma once

#include <cstdint>
#include <string_view>

#include "proto/records.h"

namespace farcall::server {

// By the call's exported name: launches, graphs, copies, memsets, prefetches. Not: writes and waits
// for values (another's work may wait for the one, the other takes no time), host functions.
bool PutsWorkOnDevice(std::string_view name);

// What the record's like is known by: kernel and geometry, the graph, else the call and its size.
// 0: it puts no work on a device.
uint64_t WorkKey(const RecordView& record);

}  // namespace farcall::server
