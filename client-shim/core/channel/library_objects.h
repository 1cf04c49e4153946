// SPDX-License-Identifier: Apache-2.0
// The handles that drop-in libraries give to applications, and which of their posts failed.
//   Thread  any
#pragma once

#include "client-shim/core/channel/library_channel.h"

namespace farcall::client {

// What LibraryChannel's functions of these names do.
LibraryObject* NewLibraryObject(uint8_t library, uint8_t kind, void* state);
LibraryObject* FindLibraryObject(const void* handle);
void EndLibraryObject(LibraryObject* object);

// A kLibraryFailed message.
void NoteLibraryFailure(uint64_t object, uint16_t library, uint16_t function, int status);
bool TakeLibraryFailure(uint64_t object, uint16_t* function, int* status);
// Grows with each.
const std::atomic<uint64_t>& LibraryFailures();

}  // namespace farcall::client
