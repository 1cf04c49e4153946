// SPDX-License-Identifier: Apache-2.0
// cuDNN's backend descriptors: attributes are the client's; finalising asks the server once for
// each distinct tree of them, and what is asked of the result is asked once
// (proto/cudnn_backend.h).
#pragma once

#include <cudnn.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client-shim/thin/call.h"
#include "proto/cudnn_backend.h"
#include "proto/cudnn_call.h"

namespace farcall::thin {

struct BackendContent;
using BackendContentRef = std::shared_ptr<BackendContent>;

// One attribute as it was set.
struct BackendStep {
  int32_t attribute = 0;
  int32_t type = 0;
  int64_t count = 0;
  bool is_null = false;
  std::string bytes;                        // of the elements that are no objects
  std::vector<uint64_t> ids;                // of those that are, on the wire
  std::vector<BackendContentRef> contents;  // which they are, so that they live as long
  std::vector<void*> handles;               // as the program named them
};

// What the library answered to one question about a finalised descriptor.
struct BackendAnswer {
  int status = 0;
  int64_t count = 0;
  std::string bytes;
  std::string text;
  std::vector<BackendContentRef> made;
};

// A finalised descriptor of the server's; shared by all of the program's that are set alike.
struct BackendContent {
  BackendContent() = default;
  BackendContent(const BackendContent&) = delete;
  ~BackendContent();

  client::LibraryObject* object = nullptr;  // null: the server refused it
  int status = 0;
  std::string text;  // why
  int32_t type = 0;
  std::vector<BackendStep> steps;
  // Of tensors below that a variant pack holds by value: their bytes by unique id.
  std::map<int64_t, uint64_t> by_value;
  std::atomic<bool> has_run{false};
  std::mutex mutex;
  std::map<std::string, BackendAnswer> answers;
};

// What the program's descriptor points to.
struct Backend final : State {
  Backend() { is_handle = false; }
  client::LibraryObject* object = nullptr;
  int32_t type = 0;
  bool finalized = false;
  std::vector<BackendStep> steps;
  BackendContentRef content;  // once it is finalised; a variant pack has none
};

Backend* FindBackend(cudnnBackendDescriptor_t descriptor);
void SetLastError(const std::string& text);
const std::string& LastError();

// Into a record.
void PutStep(Call& call, const BackendStep& step);
// The content of these attributes: asked once. `out` is null if the server refuses.
int FinalizeContent(int32_t type, const std::vector<BackendStep>& steps, BackendContentRef* out);
// Whether such a descriptor takes that, as far as the library says before it is finalised.
int ProbeStep(int32_t type, const BackendStep& step);
// Asked once; `types`: of the descriptors that the program wants filled.
BackendAnswer AskContent(const BackendContentRef& content, int32_t attribute, int32_t type,
                         int64_t requested, BackendForm form, const std::vector<int32_t>& types);

}  // namespace farcall::thin
