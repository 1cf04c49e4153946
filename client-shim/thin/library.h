// SPDX-License-Identifier: Apache-2.0
// What each of our drop-in mathematics libraries is, and how it reaches the libcuda.so.1 beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "client-shim/core/channel/library_channel.h"
#include "proto/library/library_call.h"

namespace farcall::thin {

// Generated for each library; the codes are its own for what this side finds out.
struct LibraryInfo {
  LibraryId id;
  const char* name;
  const char* const* functions;  // names by id
  int missing;                   // the server has no such library; CUDA cannot begin
  int handle;                    // no live object of the kind wanted
  int value;
  int failed;  // the device's fault, or the session's
  int memory;
  int unsupported;
  int internal;
  bool contextless = false;  // a compiler: works in no context
};
extern const LibraryInfo kLibrary;
extern const int kMajor;
extern const char* const kSoname;

// Null: no libcuda.so.1 of this build is to be found (said once).
const client::LibraryChannel* FindChannel();
// After FindChannel() was not null.
const client::LibraryChannel& Channel();

// Begins CUDA and asks the server once for the library: 0, or a status of the library's.
int Open();
// Of the server's library: major << 20 | minor << 10 | patch; 0: it did not say. After Open().
int64_t ServerVersion();
// 0, 1, 2: major, minor, patch; what this file knows of itself if the server cannot be asked.
int VersionPart(int part);

// Whether the server's library is known to have no such function (an older release); after Open().
bool IsLacking(uint16_t function);

// The library's status for a failure of ours or CUDA's. 0 for 0.
int StatusOf(int cuda_result);

// An entry that does nothing: says so once, and why if there is more to say.
int Refuse(const char* function, const std::string& why = "");

void LogLine(int level, const std::string& line);

// A function of the driver beside us by its exported name; null: there is none.
void* DriverFunction(const char* name);
#define FARCALL_DRIVER(name) \
  (reinterpret_cast<decltype(&::name)>(::farcall::thin::DriverFunction(#name)))

}  // namespace farcall::thin
