// SPDX-License-Identifier: Apache-2.0
// A callback that cuFFT compiles into a plan: it keeps the addresses that it was given until the
// plan is made, so that what lies there is the plan's.
#include <cufft.h>
#include <cufftXt.h>

#include <memory>
#include <string>

#include "generated/proto/cufft_call.h"
#include "server/library/library_call.h"

namespace farcall::server {

namespace {

struct Callback {
  std::string symbol, code;
  void* caller_info[1];  // of one device
};

}  // namespace

void Serve_cufftXtSetJITCallback(LibraryCall& call) {
  auto plan = call.Object<cufftHandle>({cufft::kKind_cufftHandle});
  LibraryObject* object = call.last_object();
  auto bytes = call.Value<uint64_t>();
  auto type = call.Value<cufftXtCallbackType>();
  auto symbol = call.String<const char*>();
  auto code = call.In<const char*>(bytes);
  auto caller_info = call.Addresses<void* const*>(1);
  auto real = call.Of<decltype(&::cufftXtSetJITCallback)>(
      static_cast<uint16_t>(cufft::Function::cufftXtSetJITCallback));
  if (!call.Ready()) return;
  auto callback = std::make_shared<Callback>();
  callback->symbol = symbol == nullptr ? "" : symbol;
  callback->code.assign(code == nullptr ? "" : code, code == nullptr ? 0 : bytes);
  callback->caller_info[0] = caller_info == nullptr ? nullptr : caller_info[0];
  call.status = real(plan, symbol == nullptr ? nullptr : callback->symbol.c_str(),
                     code == nullptr ? nullptr : callback->code.data(), bytes, type,
                     caller_info == nullptr ? nullptr : callback->caller_info);
  if (call.status == 0) object->kept[type] = std::move(callback);
}

}  // namespace farcall::server
