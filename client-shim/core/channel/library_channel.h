// SPDX-License-Identifier: Apache-2.0
// How our drop-in mathematics libraries reach the session of our libcuda.so.1: a table that
// cuGetExportTable hands out under this id, as NVML's. Both are of one build; the size tells.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "proto/handshake/session_features.h"
#include "proto/library/library_call.h"

namespace farcall::client {

inline constexpr uint8_t kLibraryChannelId[16] = {0x1d, 0x66, 0x0e, 0x9b, 0x37, 0xc4, 0x4f, 0x12,
                                                  0x8a, 0x51, 0xd2, 0x0f, 0x6b, 0x93, 0x7e, 0xa8};

// What an application's handle points to. Never unmapped; used again for another object late, under
// another id.
struct LibraryObject {
  std::atomic<uint64_t> id;  // on the wire (proto/library/library_call.h); 0: none lives here
  void* state;               // the library's own
};

// Who answers an answered call. The bytes are {i32 status, u32 0, outputs}.
using TakeReply = void (*)(void* user, const void* bytes, size_t count);

// What a call has to do with its handle's stream.
enum class StreamUse : uint8_t {
  kNone,
  kOrdered,  // it is ordered there
  kIfAlive,  // the same, but it does no work there: a stream that was destroyed is no fault
};

struct LibraryChannel {
  size_t bytes;
  // Initialises CUDA; if no context is current on this thread, device 0's primary one becomes it.
  // 0, or a CUresult.
  int (*enter)();
  // Initialises CUDA, no more.
  int (*begin)();
  // This process is a child of one that had begun: nothing works, and a lock may be held by a
  // thread that is no more.
  bool (*is_forked)();
  // A bit of WELCOME's features (proto/handshake/session_features.h); after `enter` or `begin` was
  // 0.
  bool (*server_has)(SessionFeature feature);
  // Whether the server has said at its WELCOME that it has no such library.
  bool (*server_lacks)(LibraryId library);
  // One record. `body` begins with a LibraryHeader, whose stream is set here from the application's
  // `stream` as `use` says. 0, or a CUresult; *status: the library's, if the call was waited for
  // (FARCALL_SYNC), else 0.
  int (*post)(void* body, size_t bytes, void* stream, StreamUse use, int* status);
  // The same, waiting.
  int (*ask)(void* body, size_t bytes, void* stream, StreamUse use, TakeReply take, void* user);
  // Where devices have what the program has at `address`: makes page-locked memory reachable.
  uint64_t (*device_address)(uint64_t address);
  // CUstreamCaptureStatus. An answered call has no place in a capture: `break_capture` says so to
  // the capture, as a synchronising call does.
  int (*capture_status)(void* stream);
  void (*break_capture)(void* stream);

  // ---- objects; null if there are too many
  LibraryObject* (*new_object)(uint8_t library, uint8_t kind, void* state);
  // The object of one of our libraries at that address, if one lives there.
  LibraryObject* (*find_object)(const void* handle);
  void (*end_object)(LibraryObject* object);

  // ---- posts that failed: `late` grows with each; taking tells once. False: none of that object.
  const std::atomic<uint64_t>* late;
  bool (*take_late)(uint64_t object, uint16_t* function, int* status);

  // ---- answers of earlier runs (answer_cache.h)
  bool (*kept_answer)(uint8_t library, int64_t version, const void* question, size_t question_bytes,
                      TakeReply take, void* user);
  void (*keep_answer)(uint8_t library, int64_t version, const void* question, size_t question_bytes,
                      const void* answer, size_t answer_bytes);

  // One line into the shim's log, at a LogLevel.
  void (*log)(int level, const char* line);
};

const LibraryChannel* TheLibraryChannel();  // client-shim/cuda/library_channel.cc

}  // namespace farcall::client
