// SPDX-License-Identifier: Apache-2.0
// Texts and images in a library's call: short ones in its record, others as blobs put ahead of it
// (proto/library/library_call.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client-shim/thin/call.h"

namespace farcall::thin {

// Ahead of the call that names it; its name.
uint64_t SendBlob(std::string_view bytes, int* status);
void DropBlob(uint64_t blob);

// The texts of one call. Outlives its answer: what was put for it alone is then dropped, and kept
// texts when they have become too many.
class CallTexts {
 public:
  explicit CallTexts(Call& call);
  CallTexts(const CallTexts&) = delete;
  ~CallTexts();

  void Put(std::string_view text);
  // One that other calls will have as well (a header): crosses once.
  void PutKept(const std::shared_ptr<const std::string>& text);

 private:
  void PutBlob(uint64_t blob) { call_.Value<uint64_t>(blob); }
  void PutInline(std::string_view text);

  Call& call_;
  std::vector<uint64_t> blobs_;
  uint64_t inline_bytes_ = 0;
  bool is_open_ = false;  // else the call is refused
};

// What a call answered by hand, however long.
struct LongAnswer {
  struct {
    uint64_t blob = 0, bytes = 0;
  } head;
  std::string bytes;
  // Ahead of the call.
  void Await(Call& call);
  // After it: 0, or a status of the library's.
  int Complete();
};

}  // namespace farcall::thin
