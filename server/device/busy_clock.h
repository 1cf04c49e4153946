// SPDX-License-Identifier: Apache-2.0
// How much of a device's time this process has used, where the driver keeps count.
#pragma once

#include <functional>

#include "generated/server/driver_api.h"
#include "quota/compute_quota.h"

namespace farcall::server {

// Empty: the driver does not say (NVIDIA's); it has to be measured.   Before: cuInit
std::function<quota::Ns(int device)> BusyClock(const DriverApi& api);

}  // namespace farcall::server
