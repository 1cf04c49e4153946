// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_text.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "server/library/library_blobs.h"

namespace farcall::server {

namespace {
constexpr uint64_t kMaxInlineBytes = 512u << 10;  // with what else there is it fits a frame
}  // namespace

std::shared_ptr<const std::string> GetText(LibraryCall& call) {
  Reader& in = call.base().in;
  const auto blob = in.Get<uint64_t>();
  if (blob == 0) {
    std::string_view text = in.GetString();
    return in.ok() ? std::make_shared<const std::string>(text) : nullptr;
  }
  std::shared_ptr<const std::string> text = call.blobs().Find(blob);
  if (text == nullptr && call.status == 0)  // dropped as too large, or never put
    call.status = call.table().out_of_memory;
  return text;
}

std::vector<std::shared_ptr<const std::string>> GetTexts(LibraryCall& call, uint32_t count) {
  constexpr size_t kEachBytes = 8;
  std::vector<std::shared_ptr<const std::string>> texts;
  if (count > call.base().in.remaining_bytes() / kEachBytes) {
    call.base().Reject("more texts than the record has room for");
    return texts;
  }
  texts.reserve(count);
  for (uint32_t i = 0; i < count && call.base().in.ok() && call.status == 0; ++i)
    texts.push_back(GetText(call));
  return texts;
}

void AnswerWith(LibraryCall& call, const Builder& answer) {
  struct {
    uint64_t blob = 0;
    uint64_t bytes = 0;
  } head;
  std::span<const std::byte> bytes = answer.bytes();
  head.bytes = bytes.size();
  if (bytes.size() > kMaxInlineBytes) {
    head.blob =
        call.blobs().Keep(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    if (head.blob == 0) {
      call.status = call.table().out_of_memory;
      return;
    }
    bytes = {};
  }
  call.PutOutput(&head, sizeof(head));
  call.PutOutput(bytes.data(), bytes.size());
}

void AnswerFailure(LibraryCall& call, int outputs) {
  for (int i = 0; call.status != 0 && i < outputs; ++i) call.PutOutput(nullptr, 0);
}

std::string FolderOfFunction(void* function) {
  Dl_info info;
  if (function == nullptr || dladdr(function, &info) == 0) return "";
  char* real = realpath(info.dli_fname, nullptr);
  std::string path = real == nullptr ? info.dli_fname : real;
  free(real);
  return path.substr(0, path.rfind('/') + 1);
}

}  // namespace farcall::server
