// SPDX-License-Identifier: Apache-2.0
#include "server/library/library_call.h"

#include <dlfcn.h>

#include <cstring>
#include <utility>

#include "proto/library/library_blob.h"
#include "server/library/library_loader.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

bool LibraryCall::Ready() {
  if (!call_.rejected() && !call_.stalled && status == 0 && !call_.in.Done())
    call_.Reject("arguments of another length");
  return !call_.rejected() && !call_.stalled && call_.result == CUDA_SUCCESS && status == 0;
}

// Those of a call that did not come to its answer.
LibraryCall::~LibraryCall() {
  for (std::byte* result : results_) loader_.PutResult(call_.context->native, result);
}

bool LibraryCall::HasNewStream() {
  if (object_ == nullptr || header_.stream == 0 ||
      (object_->has_stream && object_->stream == stream_))
    return false;
  object_->has_stream = true;
  object_->stream = stream_;
  return true;
}

bool LibraryCall::HasNewMode() {
  if (object_ == nullptr || object_->pointer_mode == mode()) return false;
  object_->pointer_mode = mode();
  return true;
}

void LibraryCall::PutOutput(const void* data, uint64_t bytes) {
  std::byte* room = Room(bytes);
  if (bytes != 0) std::memcpy(room, data, bytes);
  outputs_.push_back({room, bytes});
}

LibraryBlobs& LibraryCall::blobs() {
  return loader_.blobs();
}

void* LibraryCall::FindFunction(uint16_t id) {
  if (reads_names_) return nullptr;  // loading may take long
  void* found = loader_.Function(table_, id);
  if (found == nullptr && status == 0) status = table_.unsupported;
  return found;
}

void* LibraryCall::FindFunctionOf(LibraryId library, const char* name) {
  LoadedLibrary* loaded = loader_.Loaded(library);
  return loaded == nullptr ? nullptr : dlsym(loaded->handle, name);
}

void LibraryCall::Encode(int status, const std::vector<Output>& outputs, LibraryLoader& loader,
                         int out_of_memory, Builder& out) {
  std::vector<uint64_t> blobs;
  for (const Output& output : outputs) {
    const bool is_long = output.may_be_long && output.bytes > kMaxOutBytes;
    uint64_t blob = 0;
    if (is_long && status == 0) {
      blob = loader.blobs().Keep({reinterpret_cast<const char*>(output.data), output.bytes});
      status = blob == 0 ? out_of_memory : 0;
    }
    blobs.push_back(blob);
  }
  out.Put<int32_t>(status);
  out.Put<uint32_t>(0);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    if (!output.may_be_long || output.bytes <= kMaxOutBytes) {
      out.PutBytes(output.data, output.bytes);
    } else if (status == 0) {
      out.PutBytes(&blobs[i], sizeof(blobs[i]));
    } else {
      loader.blobs().Drop(blobs[i]);
      out.PutBytes(nullptr, 0);
    }
  }
}

// Of what the library keeps, a client learns addresses that its own kernels may use, and no others.
void LibraryCall::CheckOutWords() {
  for (std::byte* at : out_addresses_) {
    uint64_t address = 0;
    std::memcpy(&address, at, sizeof(address));
    if (address != 0 && !call_.session.MayReach(address, 1)) {
      std::memset(at, 0, sizeof(address));
      status = status == 0 ? table_.unsupported : status;
    }
  }
  for (std::byte* at : out_objects_) {
    uint64_t object = 0;
    std::memcpy(&object, at, sizeof(object));
    object = object != 0 ? 1 : 0;
    std::memcpy(at, &object, sizeof(object));
  }
}

void LibraryCall::Finish() {
  ServeCall& call = call_;
  CheckOutWords();
  if (results_.empty()) return Encode(status, outputs_, loader_, table_.out_of_memory, call_.out);
  CUcontext context = call.context->native;
  // Rooms are copied: the answer outlives this call.
  struct Parked {
    RecordHeader header;
    int status;
    std::vector<Output> outputs;
    std::vector<std::byte*> results;
    std::vector<std::unique_ptr<std::byte[]>> room;
    int out_of_memory;
  };
  auto parked = std::make_shared<Parked>();
  parked->header = call.header;
  parked->status = status;
  parked->outputs = std::move(outputs_);
  parked->results = std::exchange(results_, {});
  parked->room = std::move(room_);
  parked->out_of_memory = table_.out_of_memory;
  auto answer = [parked, &session = call.session, &loader = loader_, context](CUresult reached) {
    Builder out;
    Encode(parked->status, parked->outputs, loader, parked->out_of_memory, out);
    for (std::byte* result : parked->results) loader.PutResult(context, result);
    session.Answer(parked->header, reached, out.bytes());
  };
  call.parked = true;
  CUresult result = CUDA_SUCCESS;
  StreamState* stream = call.FindStream(header_.stream);
  if (status != 0 || stream == nullptr) return answer(call.result);
  if (!call.session.streams().FenceStream(*stream, answer, &result)) answer(result);
}

}  // namespace farcall::server
