// SPDX-License-Identifier: Apache-2.0
// Which records put work on a device, and of what kind: what the compute gate holds and accounts.
#pragma once

#include <cstdint>

#include "proto/records.h"

namespace farcall::server {

// What the record's like is known by: kernel and geometry, the graph, else the call and its size.
// 0: it takes no device time (CallInfo::effect).
uint64_t WorkKey(const RecordView& record);

}  // namespace farcall::server
