// SPDX-License-Identifier: Apache-2.0
// Compilers and linkers of code run here for a client: the whole job comes in one record, with its
// long texts as blobs, and everything that there is to know of it goes back in one reply. They run
// on a helper of their own, in no context.
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

// What nvrtc and nvJitLink are on the wire.
void Serve_nvrtcCompileProgram(LibraryCall& call);
void Serve_nvrtcGetSupportedArchs(LibraryCall& call);
int64_t NvrtcVersion(void* library);
void Serve_nvJitLinkCreate(LibraryCall& call);
void Serve_nvJitLinkComplete(LibraryCall& call);
int64_t NvJitLinkVersion(void* library);

}  // namespace farcall::server
