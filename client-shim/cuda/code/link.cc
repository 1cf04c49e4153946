// SPDX-License-Identifier: Apache-2.0
// JIT linking: the server's driver links, inputs travel by hash, what comes out is kept here until
// the state goes.
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/objects/image.h"
#include "client-shim/cuda/objects/jit_options.h"
#include "client-shim/cuda/state/module.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

// The application's buffers must live as long as the state: CUDA's rule, and ours.
struct Linking {
  std::mutex mutex;
  Jit jit;
  std::chrono::steady_clock::duration spent{};
  std::vector<std::byte> output;
};

Linking* FindLink(CUlinkState state) {
  return FindObject<Linking>(HandleKind::kLinkState, reinterpret_cast<uint64_t>(state));
}

// Asks the linker, and hands on what it has said so far.
CUresult Ask(Linking* link, CallId call, std::span<const std::byte> body, Reply* reply) {
  auto start = std::chrono::steady_clock::now();
  CUresult status = RoundTrip(call, body, reply);
  link->spent += std::chrono::steady_clock::now() - start;
  Reader outputs = reply->outputs();
  std::string_view info = outputs.GetString(), error = outputs.GetString();
  if (outputs.ok()) GiveLogs(link->jit, info, error);
  if (status != CUDA_SUCCESS) NoteJitFailure(call, status, outputs.ok() ? error : "");
  GiveWallTime(link->jit, link->spent);
  return status;
}

CUresult AddInput(CUlinkState state, CUjitInputType type, std::vector<std::byte> bytes,
                  const char* name, const Jit& own) {
  Linking* link = FindLink(state);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!own.known) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(link->mutex);
  auto image = Image::Whole(std::move(bytes));
  Builder body;
  body.Put<uint64_t>(reinterpret_cast<uint64_t>(state));
  body.Put<uint32_t>(type);
  body.PutBytes(image->hash().data(), image->hash().size());
  body.Put<uint64_t>(image->bytes());
  body.PutString(name == nullptr ? "" : name);
  PutNumbers(body, own);
  CUresult status = image->Offer();
  if (status != CUDA_SUCCESS) return status;
  Reply reply;
  status = Ask(link, CallId::cuLinkAddData_v2, body.bytes(), &reply);
  if (status != CUDA_ERROR_NOT_FOUND) return status;
  image->Unsend();  // the store let it go since WELCOME
  status = image->Offer();
  return status != CUDA_SUCCESS ? status
                                : Ask(link, CallId::cuLinkAddData_v2, body.bytes(), &reply);
}

// The next piece of the output; the first asks for the linking itself.
CUresult FetchPiece(CUlinkState state, Linking* link, uint64_t* total) {
  FixedBody<16> body;
  body.Put<uint64_t>(reinterpret_cast<uint64_t>(state));
  body.Put<uint64_t>(link->output.size());
  Reply reply;
  CUresult status = Ask(link, CallId::cuLinkComplete, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  outputs.GetString();
  outputs.GetString();
  *total = outputs.Get<uint64_t>();
  std::span<const std::byte> piece = outputs.GetBytes();
  if (!outputs.Done() || piece.size() > *total - link->output.size() ||
      (piece.empty() && link->output.size() < *total))
    return CUDA_ERROR_UNKNOWN;
  link->output.insert(link->output.end(), piece.begin(), piece.end());
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Call_cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options, void** optionValues,
                              CUlinkState* stateOut) {
  if (stateOut == nullptr || (numOptions != 0 && (options == nullptr || optionValues == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  auto link = std::make_unique<Linking>();
  link->jit = ReadOptions(numOptions, options, optionValues);
  if (!link->jit.known) return CUDA_ERROR_INVALID_VALUE;
  uint64_t handle = Handles(HandleKind::kLinkState).New(link.get());
  if (handle == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Builder body;
  body.Put<uint64_t>(handle);
  PutNumbers(body, link->jit);
  Reply reply;
  CUresult status = Ask(link.get(), CallId::cuLinkCreate_v2, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) {
    Handles(HandleKind::kLinkState).Free(handle);
    return status;
  }
  (void)link.release();
  *stateOut = reinterpret_cast<CUlinkState>(handle);
  return CUDA_SUCCESS;
}

CUresult Call_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size,
                               const char* name, unsigned int numOptions, CUjit_option* options,
                               void** optionValues) {
  if (data == nullptr || size == 0 || type < 0 || type >= CU_JIT_NUM_INPUT_TYPES ||
      (numOptions != 0 && (options == nullptr || optionValues == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  const auto* bytes = static_cast<const std::byte*>(data);
  return AddInput(state, type, {bytes, bytes + size}, name,
                  ReadOptions(numOptions, options, optionValues));
}

CUresult Call_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path,
                               unsigned int numOptions, CUjit_option* options,
                               void** optionValues) {
  if (type < 0 || type >= CU_JIT_NUM_INPUT_TYPES ||
      (numOptions != 0 && (options == nullptr || optionValues == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::byte> bytes;
  CUresult read = ReadImageFile(path, &bytes);
  if (read != CUDA_SUCCESS) return read;
  if (bytes.empty()) return CUDA_ERROR_INVALID_IMAGE;
  return AddInput(state, type, std::move(bytes), path,
                  ReadOptions(numOptions, options, optionValues));
}

CUresult Call_cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) {
  Linking* link = FindLink(state);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (cubinOut == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(link->mutex);
  uint64_t total = link->output.size();
  while (link->output.empty() || link->output.size() < total) {
    CUresult status = FetchPiece(state, link, &total);
    if (status != CUDA_SUCCESS) {
      link->output.clear();
      return status;
    }
    if (total == 0) break;
  }
  *cubinOut = link->output.data();
  if (sizeOut != nullptr) *sizeOut = link->output.size();
  return CUDA_SUCCESS;
}

CUresult Call_cuLinkDestroy(CUlinkState state) {
  Linking* link = FindLink(state);
  auto handle = reinterpret_cast<uint64_t>(state);
  if (link == nullptr || !Handles(HandleKind::kLinkState).Free(handle))
    return CUDA_ERROR_INVALID_HANDLE;
  FixedBody<8> body;
  body.Put<uint64_t>(handle);
  CUresult status = Post(CallId::cuLinkDestroy, body.bytes());
  delete link;
  return status;
}

}  // namespace farcall::client
