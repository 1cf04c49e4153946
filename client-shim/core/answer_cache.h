// SPDX-License-Identifier: Apache-2.0
// What libraries answered to pure questions (sizes, heuristics, what a descriptor takes), kept on
// disk for later runs: a file of records for each library of one version on one kind of device of
// one server.
#pragma once

#include <cstddef>
#include <cstdint>

#include "client-shim/core/channel/library_channel.h"

namespace farcall::client {

// True: an answer is known; `take` has had it. `version`: of the server's library, 0 if it has
// none, and then nothing is known.
bool KeptAnswer(uint8_t library, int64_t version, const void* question, size_t question_bytes,
                TakeReply take, void* user);
void KeepAnswer(uint8_t library, int64_t version, const void* question, size_t question_bytes,
                const void* answer, size_t answer_bytes);

}  // namespace farcall::client
