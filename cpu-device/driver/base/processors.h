// SPDX-License-Identifier: Apache-2.0
// The processors of this machine that are the device.
#pragma once

#include <string>
#include <vector>

namespace farcall::cpu_device {

// "2,4-7", each once and one that this process may run on. false: it is not that.
bool ParseProcessors(const std::string& text, std::vector<int>* processors);

// The calling thread, and those it starts, run there alone. None: wherever they may.
void RunOn(const std::vector<int>& processors);

}  // namespace farcall::cpu_device
