// SPDX-License-Identifier: Apache-2.0
// cuDNN's backend API between its two files: descriptors set, finalized and asked
// (library_cudnn.cc), and what is asked ahead (library_cudnn_next.cc).
#pragma once

#include <cudnn.h>

#include <map>
#include <string>
#include <vector>

#include "generated/proto/cudnn_call.h"
#include "proto/library/cudnn_backend.h"
#include "server/library/library_call.h"

namespace farcall::server::cudnn_backend {

struct Api {
  explicit Api(LibraryCall& call)
      : create(Of<decltype(&::cudnnBackendCreateDescriptor)>(
            call, cudnn::Function::cudnnBackendCreateDescriptor)),
        destroy(Of<decltype(&::cudnnBackendDestroyDescriptor)>(
            call, cudnn::Function::cudnnBackendDestroyDescriptor)),
        set(Of<decltype(&::cudnnBackendSetAttribute)>(call,
                                                      cudnn::Function::cudnnBackendSetAttribute)),
        get(Of<decltype(&::cudnnBackendGetAttribute)>(call,
                                                      cudnn::Function::cudnnBackendGetAttribute)),
        finalize(
            Of<decltype(&::cudnnBackendFinalize)>(call, cudnn::Function::cudnnBackendFinalize)),
        execute(Of<decltype(&::cudnnBackendExecute)>(call, cudnn::Function::cudnnBackendExecute)),
        error(Of<decltype(&::cudnnGetLastErrorString)>(call,
                                                       cudnn::Function::cudnnGetLastErrorString)),
        set_stream(Of<decltype(&::cudnnSetStream)>(call, cudnn::Function::cudnnSetStream)) {}
  template <typename T>
  static T Of(LibraryCall& call, cudnn::Function function) {
    return call.Of<T>(static_cast<uint16_t>(function));
  }
  decltype(&::cudnnBackendCreateDescriptor) create;
  decltype(&::cudnnBackendDestroyDescriptor) destroy;
  decltype(&::cudnnBackendSetAttribute) set;
  decltype(&::cudnnBackendGetAttribute) get;
  decltype(&::cudnnBackendFinalize) finalize;
  decltype(&::cudnnBackendExecute) execute;
  decltype(&::cudnnGetLastErrorString) error;
  decltype(&::cudnnSetStream) set_stream;
};

// A real descriptor that ends with the call unless it is released.
class Descriptor {
 public:
  Descriptor(const Api& api, int type) : api_(api) {
    status_ = api.create(static_cast<cudnnBackendDescriptorType_t>(type), &native_);
  }
  Descriptor(Descriptor&& other) noexcept
      : api_(other.api_), native_(other.Release()), status_(other.status_) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (native_ != nullptr) api_.destroy(native_);
  }
  int status() const { return status_; }
  cudnnBackendDescriptor_t native() const { return native_; }
  cudnnBackendDescriptor_t Release() {
    cudnnBackendDescriptor_t released = native_;
    native_ = nullptr;
    return released;
  }

 private:
  const Api& api_;
  cudnnBackendDescriptor_t native_ = nullptr;
  int status_ = 0;
};

struct Step {
  int attribute = 0;
  int type = 0;
  int64_t count = 0;
  const void* elements = nullptr;
  std::vector<void*> pointers;
};

struct Question {
  cudnnBackendDescriptor_t descriptor;
  cudnnBackendAttributeName_t attribute;
  cudnnBackendAttributeType_t type;
  int64_t requested;
  uint32_t form;
};

struct Answer {
  int status = 0;
  int64_t count = 0;
  std::string bytes;
  std::string text;
};

struct Wanted {
  int type;
  uint64_t name;
};
using Natives = std::map<uint64_t, cudnnBackendDescriptor_t>;

// Elements of a step; a count that no program means is the client's lie.
void ReadElements(LibraryCall& call, bool is_variant, Step* step);
std::vector<Step> ReadSteps(LibraryCall& call, bool is_variant);
// {attribute ... names}; the descriptor is the caller's to know.
void ReadQuestion(LibraryCall& call, Question* question, std::vector<Wanted>* wanted);
// `made` takes what the library filled, by its name.
Answer AnswerTo(LibraryCall& call, const Api& api, const Question& question,
                const std::vector<Wanted>& wanted, Natives* made = nullptr);
// A descriptor with these attributes, finalized and kept under its name; or the library's refusal.
int FinalizeAs(LibraryCall& call, const Api& api, uint64_t name, int type,
               const std::vector<Step>& steps, Natives* natives);
std::string ErrorText(const Api& api, int status);
void SayError(LibraryCall& call, const Api& api);

}  // namespace farcall::server::cudnn_backend
