// SPDX-License-Identifier: Apache-2.0
// The answer a stock cudart expects from slot 1 of the INTEGRITY_CHECK export table. See
// docs/reference/legal.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace farcall::cuda_abi {

struct DeviceIdentity {
  std::array<uint8_t, 16> uuid{};
  int32_t pci_domain = 0;
  int32_t pci_bus = 0;
  int32_t pci_device = 0;
};

// What the runtime and the driver both see, and hash on each side.
struct IntegrityInputs {
  uint32_t driver_version = 0;  // as cuDriverGetVersion reports it
  uint32_t version = 0;         // the argument: toolkit version x 10 + {0, 1, 2}
  uint32_t process_id = 0;
  uint32_t thread_id = 0;  // low half of pthread_self
  const void* cudart_table = nullptr;
  const void* integrity_table = nullptr;
  const void* check_function = nullptr;
  uint64_t unix_seconds = 0;
  std::vector<DeviceIdentity> devices;  // every device, in ordinal order
};

std::array<uint64_t, 2> IntegrityAnswer(const IntegrityInputs& inputs);

// RFC 1319, the digest the answer is built on.
std::array<uint8_t, 16> Md2(std::string_view message);

}  // namespace farcall::cuda_abi
