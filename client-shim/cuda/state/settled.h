// SPDX-License-Identifier: Apache-2.0
// Waits that have nothing to tell: since the program last waited for a stream, nothing but uploads
// captured at the call have been put anywhere. Then the wait is a barrier in the log, without an
// answer: what comes behind it reaches the device once the stream has got there. The first wait
// behind a copy to the host that was waited for has nothing to tell either; a second one in a row
// asks, for a program may want to know whether the device still answers. Docs:
// docs/reference/client.md.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

namespace farcall::client {

struct Stream;

// Another process can see this one's device memory or events: it cannot be told by a record.
void NoteShared();
bool AnyShared();

// When a stream was last waited for.
struct LastWait {
  std::atomic<uint64_t>* records = nullptr;  // Session::records() then; nullptr: no such stream
  std::atomic<bool>* copied = nullptr;       // by a copy to the host
};
// nullptr: the current context's legacy stream.
LastWait LastWaitOf(Stream* stream);

// As Session::records(), before a wait for the stream (or all of the context's) that succeeded.
void NoteStreamWaited(const LastWait& last, uint64_t records);
void NoteContextWaited(uint64_t records);
// The same of a copy to the host.
void NoteStreamCopied(uint64_t wire_stream, uint64_t records);
bool HasNothingToTell(const LastWait& last);
// The same of a wait for all of the current context's streams; then nothing is under way at all.
bool ContextHasNothingToTell();
// Behind a synchronous upload: whether a barrier on its stream does in the place of a wait for it.
// It holds up the whole log, so it must not stand behind work while other threads have theirs.
bool BarrierSettles(uint64_t wire_stream);

}  // namespace farcall::client
