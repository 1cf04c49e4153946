// SPDX-License-Identifier: Apache-2.0
// shm:// in this process, for the suite over every transport: who is accepted gets rings at once,
// as a worker would make them.
#pragma once

namespace farcall::test {

// Once; after it Listen makes such listeners.
void AddShmForTests();

}  // namespace farcall::test
