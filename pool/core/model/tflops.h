// SPDX-License-Identifier: Apache-2.0
// Tables of what models of GPUs can do, in TFLOPS. A claim for TFLOPS gets that part of a GPU's
// time that they are of the TFLOPS of its model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::pool {

inline constexpr size_t kMaxModelTflops = 1000;
inline constexpr uint32_t kMaxGflops = 100'000'000;

struct ModelTflops {
  std::string model;    // a GPU is of it if its name has it as a word, or words
  uint32_t gflops = 0;  // thousandths of TFLOPS
  bool operator==(const ModelTflops&) const = default;
};

// What cannot be, in one line; "": nothing.
std::string FaultOf(const std::vector<ModelTflops>& table);

// Of the GPU of that name, by the longest model that it has; 0: the table has none.
uint32_t GflopsOf(std::string_view gpu, const std::vector<ModelTflops>& table);
// Whether GPUs that a claim for this model may have are in the table: `model` is a part of a name.
bool IsIn(std::string_view model, const std::vector<ModelTflops>& table);
// As "312 TFLOPS".
std::string TflopsText(uint32_t gflops);

}  // namespace farcall::pool
