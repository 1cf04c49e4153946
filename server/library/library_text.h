// SPDX-License-Identifier: Apache-2.0
// Long texts of a library call: those it comes with, as blobs, and the answer that may need one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/codec.h"
#include "server/library/library_call.h"

namespace farcall::server {

// {u64 blob} or {0, bytes}. Null, and the call has a status: a blob that is not there.
std::shared_ptr<const std::string> GetText(LibraryCall& call);
// As many; `each_bytes`: what one takes at least, so that no count is believed.
std::vector<std::shared_ptr<const std::string>> GetTexts(LibraryCall& call, uint32_t count);
// {struct {u64 blob, u64 bytes}, what fits a reply}: a blob holds it all if it does not fit.
void AnswerWith(LibraryCall& call, const Builder& answer);
// If the call has failed: the outputs that it has not made, empty.
void AnswerFailure(LibraryCall& call, int outputs = 2);
// Where the file lies that holds this function, and a slash.
std::string FolderOfFunction(void* function);

}  // namespace farcall::server
