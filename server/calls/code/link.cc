// SPDX-License-Identifier: Apache-2.0
// JIT linking. A state is used and destroyed on the helper alone. The partner is
// client-shim/cuda/code/link.cc.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/state/objects/link_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

constexpr size_t kPieceBytes = 512u << 10;  // of the output, a reply

LinkState* FindLink(ServeCall& call, uint64_t wire) {
  return static_cast<LinkState*>(call.ResolveExtra(HandleKind::kLinkState, wire));
}

// An archive without its members, which lie in files beside it.
bool IsThinArchive(std::span<const std::byte> image) {
  constexpr std::string_view kThin = "!<thin>";
  return image.size() >= kThin.size() && std::memcmp(image.data(), kThin.data(), kThin.size()) == 0;
}

}  // namespace

Status Serve_cuLinkCreate_v2(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  LinkState state;
  if (!state.jit.Decode(call.in) || !call.in.Done()) return call.Malformed("body");
  call.CheckNew(HandleKind::kLinkState, wire);
  if (!call.ready()) return call.RejectStatus();
  if (call.api.cuLinkCreate_v2 == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  state.jit.AddLogs();
  CUlinkState native = nullptr;
  call.result = call.api.cuLinkCreate_v2(state.jit.count(), state.jit.options.data(),
                                         state.jit.values.data(), &native);
  state.jit.EncodeLogs(call.out);
  if (call.result == CUDA_SUCCESS) {
    call.Insert(HandleKind::kLinkState, wire, native);
    // The driver keeps pointers to what the vectors and strings hold: moved, it stays where it is.
    FindLink(call, wire)->jit = std::move(state.jit);
  }
  return {};
}

Status Serve_cuLinkAddData_v2(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  auto type = call.in.Get<uint32_t>();
  std::span<const std::byte> hash_bytes = call.in.GetBytes();
  auto bytes = call.in.Get<uint64_t>();
  std::string name(call.in.GetString());
  JitOptions own;
  Hash256 hash{};
  if (!own.Decode(call.in) || !call.in.Done() || hash_bytes.size() != hash.size() ||
      type >= CU_JIT_NUM_INPUT_TYPES)
    return call.Malformed("body");
  std::memcpy(hash.data(), hash_bytes.data(), hash.size());
  LinkState* state = FindLink(call, wire);
  if (!call.ready()) return call.RejectStatus();
  Image image = call.session.images().Get(hash);
  if (image == nullptr || image->size() != bytes + 1) {
    call.result = CUDA_ERROR_NOT_FOUND;
    call.detail =
        "the server has no such input of " + std::to_string(bytes) + " bytes: send it again";
  } else if (IsThinArchive(*image)) {
    call.result = CUDA_ERROR_INVALID_IMAGE;
    call.detail = "cuLinkAddData: a thin archive names files of the server; send a whole one";
  } else {
    // PTX is text: the NUL behind it counts.
    bool text = type == CU_JIT_INPUT_PTX && (bytes == 0 || (*image)[bytes - 1] != std::byte{0});
    call.result = call.api.cuLinkAddData_v2(
        state->native, static_cast<CUjitInputType>(type), const_cast<std::byte*>(image->data()),
        bytes + (text ? 1 : 0), name.empty() ? nullptr : name.c_str(), own.count(),
        own.options.data(), own.values.data());
    call.session.images().Forget(hash);
  }
  state->jit.EncodeLogs(call.out);
  return {};
}

Status Serve_cuLinkComplete(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  auto offset = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  LinkState* state = FindLink(call, wire);
  if (!call.ready()) return call.RejectStatus();
  if (offset == 0) {
    void* output = nullptr;
    size_t bytes = 0;
    call.result = call.api.cuLinkComplete(state->native, &output, &bytes);
    state->output = {static_cast<const std::byte*>(output),
                     call.result == CUDA_SUCCESS && output != nullptr ? bytes : 0};
  }
  state->jit.EncodeLogs(call.out);
  if (call.result != CUDA_SUCCESS) return {};
  if (offset > state->output.size()) return call.Malformed("an offset behind the output");
  std::span<const std::byte> piece =
      state->output.subspan(offset, std::min(kPieceBytes, state->output.size() - offset));
  call.out.Put<uint64_t>(state->output.size());
  call.out.PutBytes(piece.data(), piece.size());
  return {};
}

Status Serve_cuLinkDestroy(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto native = call.Resolve<CUlinkState>(HandleKind::kLinkState, wire);
  if (!call.ready()) return call.RejectStatus();
  call.result = call.api.cuLinkDestroy(native);  // before its logs' buffers go
  call.Erase(HandleKind::kLinkState, wire);
  return {};
}

}  // namespace farcall::server
