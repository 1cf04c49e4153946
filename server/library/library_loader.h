// SPDX-License-Identifier: Apache-2.0
// The real mathematics libraries of a session: loaded on first use, with the objects it made in
// them.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "generated/server/driver_api.h"
#include "proto/library/library_call.h"
#include "server/library/library_blobs.h"
#include "server/library/library_call.h"
#include "sync/cond_var.h"

namespace farcall::server {

struct LoadedLibrary {
  void* handle = nullptr;  // dlopen's; never closed
  int major = 0;
  std::string path;
  std::vector<void*> functions;  // by id; asked for once
};

//   Thread  any; objects are used on the issue thread or the libraries' helper
class LibraryLoader {
 public:
  explicit LibraryLoader(const DriverApi& api) : api_(api) {}
  ~LibraryLoader();

  // The library, loaded if it was not; null with `why` naming the files looked for.
  LoadedLibrary* Load(const LibraryTable& table, int major, std::string* why);
  LoadedLibrary* Loaded(LibraryId id);
  // Null: it has no such function.
  void* Function(const LibraryTable& table, uint16_t id);

  // False: too many, or one of that name there already.
  bool Add(const LibraryObject& object);
  LibraryObject* Find(uint64_t wire);
  void Erase(uint64_t wire);
  // Whether the name was given to an object before, live or not.
  bool WasNamed(uint64_t wire);
  void NoteNamed(uint64_t wire);

  // ---- what slow calls hold: their objects, from submission to end. What the log has behind them
  // waits for them (or finds the object gone), so that no two threads are in one object, and none
  // is in one that ends.
  enum class Hold : uint8_t { kNone, kUsed, kEnds };
  // Until the last copy of what it returns is gone.
  std::shared_ptr<void> HoldNames(std::vector<LibraryName> names);
  Hold HoldOf(uint64_t wire);

  // Page-locked memory a kernel may write a result to. Null: none to be had.
  std::byte* TakeResult(CUcontext context);
  void PutResult(CUcontext context, std::byte* result);
  // Such memory goes with the context it was taken in.
  void ForgetContext(CUcontext context);
  static constexpr uint64_t kResultBytes = 256;

  // The library's own memory that a client has ended and a later object of this key may have. Null:
  // none. A context that goes takes its own along.
  void* TakeSpare(CUcontext context, uint64_t key);
  void PutSpare(CUcontext context, uint64_t key, void* memory);
  LibraryBlobs& blobs() { return blobs_; }
  static constexpr size_t kMaxObjects = 1u << 16;

 private:
  const DriverApi& api_;
  std::mutex mutex_;
  std::array<std::unique_ptr<LoadedLibrary>, static_cast<size_t>(LibraryId::kLast) + 1> loaded_;
  std::array<std::string, static_cast<size_t>(LibraryId::kLast) + 1> missing_;
  std::unordered_map<uint64_t, std::unique_ptr<LibraryObject>> objects_;
  uint64_t highest_serial_ = 0;
  struct Held {
    int uses = 0;
    int ends = 0;
  };
  std::unordered_map<uint64_t, Held> held_;
  LibraryBlobs blobs_;
  std::map<CUcontext, std::vector<std::byte*>> results_;
  std::map<CUcontext, std::multimap<uint64_t, void*>> spares_;
};

}  // namespace farcall::server
