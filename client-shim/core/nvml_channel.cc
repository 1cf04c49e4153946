// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/nvml_channel.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "client-shim/core/connection/connect.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/credit.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/session.h"
#include "cuda-abi/visible_devices.h"
#include "proto/handshake/session_features.h"

namespace farcall::client {

namespace {

// Without cuInit: a program that only asks NVML may fork and use CUDA in its children.
int Join() {
  return ConnectSession();
}

int DriverVersion() {
  uint32_t version = kShimDriverVersion;
  for (const Session* session : Sessions())
    version = std::min(version, session->welcome().driver_version);
  return static_cast<int>(version);
}

int DeviceCount() {
  size_t count = 0;
  for (const Session* session : Sessions()) count += session->welcome().devices.size();
  return static_cast<int>(count);
}

struct Place {
  Session* session = nullptr;
  int device = -1;  // as its server counts
};

// -1, and what no server has: the first server.
Place PlaceOf(int device) {
  for (Session* session : Sessions()) {
    const int count = static_cast<int>(session->welcome().devices.size());
    if (device >= 0 && device < count) return {session, device};
    device -= count;
    if (device < 0) break;
  }
  return {g_session.load(std::memory_order_acquire), -1};
}

int WireDevice(int device) {
  return PlaceOf(device).device;
}

uint32_t Fact(const DeviceSnapshot& snapshot, CUdevice_attribute attribute) {
  size_t index = static_cast<size_t>(attribute);
  return index < snapshot.attributes.size() ? static_cast<uint32_t>(snapshot.attributes[index]) : 0;
}

bool Describe(int device, NvmlDeviceFacts* facts) {
  if (device < 0 || device >= DeviceCount()) return false;
  const Place place = PlaceOf(device);
  const DeviceSnapshot& snapshot =
      place.session->welcome().devices[static_cast<size_t>(place.device)];
  std::snprintf(facts->name, sizeof(facts->name), "%s", snapshot.name.c_str());
  std::snprintf(facts->uuid, sizeof(facts->uuid), "%s", cuda_abi::UuidText(snapshot.uuid).c_str());
  facts->pci_domain = Fact(snapshot, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  facts->pci_bus = Fact(snapshot, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  facts->pci_device = Fact(snapshot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  facts->major = static_cast<int>(Fact(snapshot, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  facts->minor = static_cast<int>(Fact(snapshot, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  return true;
}

int AskNvml(int device, const void* body, size_t bytes, void (*take)(void*, const void*, size_t),
            void* user) {
  Session* session = PlaceOf(device).session;
  const ServerScope scope(session);
  if (session != nullptr && !HasFeature(session->welcome(), SessionFeature::kNvml)) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
      Log(LogLevel::kWarn, "the server answers no NVML: it is older than this client");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Self()->call = 0;  // no entry of the driver API's
  Reply reply;
  CUresult status =
      AskSession(SessionCall::kNvml, 0, {static_cast<const std::byte*>(body), bytes}, &reply);
  if (status == CUDA_SUCCESS) take(user, reply.body.data(), reply.body.size());
  return status;
}

uint64_t Records() {
  uint64_t records = 0;
  for (const Session* session : Sessions()) records += session->records();
  return records;
}

uint64_t UnspentBytes(int device) {
  const Place place = PlaceOf(device);
  if (place.session == nullptr) return 0;
  Credit& credit = place.session->credit();
  return credit.FreeBytes(place.device) + credit.QuarantinedBytes(place.device);
}

void LogLine(int level, const char* line) {
  auto at = static_cast<LogLevel>(level);
  if (LogEnabled(at)) Log(at, "%s", line);
}

}  // namespace

const NvmlChannel* TheNvmlChannel() {
  static constexpr NvmlChannel kChannel = {
      sizeof(NvmlChannel), Join,    DriverVersion, DeviceCount,  Describe,
      WireDevice,          AskNvml, Records,       UnspentBytes, LogLine};
  return &kChannel;
}

}  // namespace farcall::client
