// SPDX-License-Identifier: Apache-2.0
// What a peer may know of the session beyond the API's calls: bits of HELLO's and WELCOME's
// `features`. Such a message goes only to a peer that has its bit: another one would take it for a
// lie.
#pragma once

#include "proto/handshake/handshake.h"

namespace farcall {

enum class SessionFeature : uint8_t {
  kNvml = 0,           // the server: SessionCall::kNvml
  kMirrors = 1,        // the server: kHostWindow, kMirrorUp, kMirrorDown; the client: kMirrored
  kRedirect = 2,       // the client: REDIRECT in the place of WELCOME
  kLibraries = 3,      // the server: kLibrary; the client: kLibraryFailed
  kPoolAddresses = 4,  // whoever says HELLO to a pool wants its other addresses, and no session
  kLibraryArrays = 5,  // the server: arrays of kLibrary's calls in blobs (library_blob.h)
  kLibraryLacks = 6,   // the server: kLibraryOpen tells what its library lacks, if it is asked to
  kLibraryInventory = 7,  // the server: WELCOME says which libraries it has (library_inventory.h)
  kImageUnits = 8,        // the server: images of several units (image_units.h)
  kEventTimes = 9,    // the server: a recording may name another, kCompleted tells the time between
  kFirstCredit = 10,  // the client takes credit in WELCOME; the server: WELCOME ends in it
  kErrorOutput = 11,  // the client: kOutput says which of two streams was written to
  kQuery = 12,  // the client asks what is here and wants no session; the server: WELCOME begins
                // none, and ends in what is free
  kSharedMemory = 13,  // the client may use shared memory; the server: WELCOME names the socket
  kSharedHost = 14,    // the server: kShareHost; who asks takes kHostShared
  kIdleSilence = 15,   // both: no heartbeats while nothing is under way; kFrameAsks is answered
  kPackedChunks = 16,  // both: chunks may be compressed
};

// Of kIdleSilence: from the last frame of the log to the last heartbeat. More than a heartbeat and
// the client's patience (4 s), which so begin and end in time on both sides.
inline constexpr uint32_t kIdleAfterMs = 6000;

inline constexpr uint64_t FeatureBit(SessionFeature feature) {
  return uint64_t{1} << static_cast<uint8_t>(feature);
}

inline bool HasFeature(const Welcome& welcome, SessionFeature feature) {
  return (welcome.features & FeatureBit(feature)) != 0;
}

inline bool HasFeature(const Hello& hello, SessionFeature feature) {
  return (hello.features & FeatureBit(feature)) != 0;
}

}  // namespace farcall
