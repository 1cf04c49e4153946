// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/device.h"

#include <pthread.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cpu-device/driver/base/kind.h"
#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/memory/mempool.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/stream.h"
#include "cpu-device/driver/state/thread.h"
#include "cuda-abi/visible_devices.h"

namespace farcall::cpu_device {
namespace {

CUuuid UuidOf(int number) {
  // The same in every process: programs and pools recognise a device by it.
  static constexpr unsigned char kBase[16] = {0xfa, 0x2c, 0xa1, 0x1d, 0xc9, 0x0d, 0x4e, 0x5c,
                                              0x8b, 0x1f, 0x63, 0x70, 0x75, 0x2d, 0x00, 0x00};
  CUuuid uuid;
  memcpy(uuid.bytes, kBase, sizeof(kBase));
  uuid.bytes[15] = static_cast<char>(number);
  return uuid;
}

std::string PciBusIdOf(int number) {
  char text[16];
  snprintf(text, sizeof(text), "0000:%02X:00.0", static_cast<unsigned>(number + 1) & 0xff);
  return text;
}

// The profile's devices that CUDA_VISIBLE_DEVICES leaves, by their number on this machine.
std::vector<int> VisibleNumbers(const Profile& profile) {
  std::vector<cuda_abi::PhysicalDevice> devices;
  for (int number = 0; number < profile.devices; ++number) {
    const CUuuid uuid = UuidOf(number);
    std::array<uint8_t, 16> bytes;
    memcpy(bytes.data(), uuid.bytes, bytes.size());
    devices.push_back({cuda_abi::UuidText(bytes), PciBusIdOf(number)});
  }
  return cuda_abi::VisibleDevices(devices, getenv("CUDA_DEVICE_ORDER"),
                                  getenv("CUDA_VISIBLE_DEVICES"));
}

void OnForkInChild() {
  Driver& driver = TheDriver();
  if (driver.initialized.load()) driver.forked.store(true);
}

}  // namespace

Device::Device(int place, int physical, const Profile& claims)
    : ordinal(place), number(physical), profile(claims), uuid(UuidOf(physical)) {}

bool Device::Charge(uint64_t bytes) {
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > total() - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void Device::Refund(uint64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
}

std::string Device::PciBusId() const {
  return PciBusIdOf(number);
}

Driver& TheDriver() {
  static Driver* driver = new Driver;
  return *driver;
}

CUresult InitializeDriver() {
  static std::mutex* mutex = new std::mutex;
  Driver& driver = TheDriver();
  if (driver.forked.load()) return CUDA_ERROR_NOT_INITIALIZED;
  std::lock_guard lock(*mutex);
  if (driver.initialized.load()) return CUDA_SUCCESS;
  if (!kDeviceKind.read_profile(&driver.profile)) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<int> visible = VisibleNumbers(driver.profile);
  if (visible.empty()) return CUDA_ERROR_NO_DEVICE;
  const auto devices = static_cast<uint64_t>(visible.size());
  driver.arena = std::make_unique<Arena>(devices * driver.profile.memory_bytes * 2 + (1ull << 30));
  for (int number : visible) {
    const int ordinal = static_cast<int>(driver.devices.size());
    auto device = std::make_unique<Device>(ordinal, number, driver.profile);
    device->primary = std::make_shared<Context>(*device, true, 0);
    driver.contexts.Add(device->primary);
    device->default_pool = device->current_pool = std::make_shared<MemPool>(*device);
    driver.pools.Add(device->default_pool);
    driver.devices.push_back(std::move(device));
  }
  pthread_atfork(nullptr, nullptr, &OnForkInChild);
  driver.initialized.store(true, std::memory_order_release);
  Log(LogLevel::kInfo, "%d device(s), compute capability %d.%d, %llu bytes each",
      static_cast<int>(visible.size()), driver.profile.cc_major, driver.profile.cc_minor,
      static_cast<unsigned long long>(driver.profile.memory_bytes));
  return CUDA_SUCCESS;
}

CUresult CheckInitialized() {
  const Driver& driver = TheDriver();
  if (!driver.initialized.load(std::memory_order_acquire) || driver.forked.load())
    return CUDA_ERROR_NOT_INITIALIZED;
  return InsideCallback() ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

Device* FindDevice(CUdevice ordinal) {
  Driver& driver = TheDriver();
  const auto index = static_cast<size_t>(ordinal);
  return ordinal < 0 || index >= driver.devices.size() ? nullptr : driver.devices[index].get();
}

CUresult CurrentContextEvenBroken(std::shared_ptr<Context>* context) {
  if (const CUresult result = CheckInitialized()) return result;
  const auto& stack = ContextStack();
  if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!stack.back()->active.load()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *context = stack.back();
  return CUDA_SUCCESS;
}

CUresult CurrentContext(std::shared_ptr<Context>* context) {
  if (const CUresult result = CurrentContextEvenBroken(context)) return result;
  return (*context)->sticky();
}

}  // namespace farcall::cpu_device
