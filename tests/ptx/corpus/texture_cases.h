// SPDX-License-Identifier: Apache-2.0
// Cases apart from AllCases: the interpreter reads no textures. ptx_forms does not spoil them so
// far.
#pragma once

#include <vector>

#include "tests/ptx/corpus/corpus.h"

namespace farcall::cpu_device::ptx_corpus {

const std::vector<Case>& TextureCases();

}  // namespace farcall::cpu_device::ptx_corpus
