// SPDX-License-Identifier: Apache-2.0
// The message kNvml: the library is asked on a thread of its own, the tenant's figures are taken
// where memory is granted.
#include "server/nvml/nvml_service.h"
#include "server/session/session_loop.h"

namespace farcall::server {

#ifdef FARCALL_NVML

Status SessionLoop::ServeNvml(const RecordView& record) {
  struct Asked {
    std::vector<std::byte> bytes;
    NvmlQuestions questions;
  };
  auto asked = std::make_shared<Asked>();
  asked->bytes.assign(record.body.begin(), record.body.end());
  RecordHeader header = record.header;
  if (!SplitNvmlQuestions(asked->bytes, &asked->questions))
    return Malformed(header, "kNvml's body");
  if (options_.nvml == nullptr) {
    session_->Answer(header, CUDA_ERROR_NOT_SUPPORTED, {});
    return {};
  }
  if (nvml_asked_.fetch_add(1) >= kMaxNvmlAsked)
    return Malformed(header, "one kNvml more than may be under way");
  nvml_helper_.Submit([this, header, asked] {
    auto known = options_.nvml->AskLibrary(asked->questions);
    session_->OnMemoryHelper([this, header, asked, known = std::move(known)]() mutable {
      nvml_asked_.fetch_sub(1);
      session_->Answer(header, CUDA_SUCCESS,
                       options_.nvml->Reply(asked->questions, std::move(known)));
    });
  });
  return {};
}

#else

Status SessionLoop::ServeNvml(const RecordView& record) {
  session_->Answer(record.header, CUDA_ERROR_NOT_SUPPORTED, {});
  return {};
}

#endif

}  // namespace farcall::server
