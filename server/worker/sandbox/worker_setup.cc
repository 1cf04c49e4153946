// SPDX-License-Identifier: Apache-2.0
// The setup's codec: HELLO and WELCOME are kept as the wire has them.
#include "server/worker/sandbox/worker_setup.h"

#include <cuda.h>

#include <cstring>

#include "proto/codec.h"

namespace farcall::server {

std::vector<std::byte> Encode(const WorkerSetup& setup) {
  Builder out;
  out.PutString(setup.device_path);
  out.PutString(setup.device_kind);
  out.PutString(setup.log_level);
  out.PutString(setup.kernel_variable);
  out.Put<uint32_t>(static_cast<uint32_t>(setup.readable.size()));
  for (const std::string& file : setup.readable) out.PutString(file);
  out.Put<uint64_t>(setup.first_credit_bytes);
  for (bool flag : {setup.swaps, setup.trust_tenants, setup.reports_worker_calls, setup.debuggable,
                    setup.is_only_tenant, setup.has_images})
    out.Put<uint8_t>(flag ? 1 : 0);
  out.PutBytes(setup.channel_state.data(), setup.channel_state.size());
  out.PutBytes(setup.answer.key.data(), setup.answer.key.size());
  out.Put<uint32_t>(setup.answer.credential);
  std::vector<std::byte> hello = farcall::Encode(setup.hello),
                         welcome = farcall::Encode(setup.welcome);
  out.PutBytes(hello.data(), hello.size());
  out.PutBytes(welcome.data(), welcome.size());
  return std::move(out.mutable_bytes());
}

Result<WorkerSetup> DecodeWorkerSetup(std::span<const std::byte> bytes) {
  Reader in(bytes);
  WorkerSetup setup;
  setup.device_path = in.GetString();
  setup.device_kind = in.GetString();
  setup.log_level = in.GetString();
  setup.kernel_variable = in.GetString();
  for (auto files = in.Get<uint32_t>(); files != 0 && in.ok(); --files)
    setup.readable.emplace_back(in.GetString());
  setup.first_credit_bytes = in.Get<uint64_t>();
  for (bool* flag : {&setup.swaps, &setup.trust_tenants, &setup.reports_worker_calls,
                     &setup.debuggable, &setup.is_only_tenant, &setup.has_images})
    *flag = in.Get<uint8_t>() != 0;
  std::span<const std::byte> state = in.GetBytes();
  setup.channel_state.assign(state.begin(), state.end());
  std::span<const std::byte> key = in.GetBytes();
  if (key.size() != setup.answer.key.size())
    return Status(Code::kMalformed, "worker setup: unreadable");
  std::memcpy(setup.answer.key.data(), key.data(), key.size());
  setup.answer.credential = in.Get<uint32_t>();
  std::span<const std::byte> hello = in.GetBytes(), welcome = in.GetBytes();
  if (!in.Done()) return Status(Code::kMalformed, "worker setup: unreadable");
  Result<Hello> said = DecodeHello(hello);
  if (!said.ok()) return said.status();
  Result<Welcome> answer = DecodeWelcome(welcome);
  if (!answer.ok()) return answer.status();
  setup.hello = std::move(*said);
  setup.welcome = std::move(*answer);
  return setup;
}

uint32_t CapabilityOf(const DeviceSnapshot& device) {
  if (device.attributes.size() <= CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) return 0;
  const int major = device.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
  const int minor = device.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
  return static_cast<uint32_t>(major * 10 + minor);
}

cuda_abi::CodeTaste TasteOf(const std::string& device_kind) {
  if (device_kind == "cpu") return cuda_abi::CodeTaste::kPtxOnly;
  if (device_kind == "cpu-skip") return cuda_abi::CodeTaste::kPtxFirst;
  return cuda_abi::CodeTaste::kMachineCodeFirst;
}

}  // namespace farcall::server
