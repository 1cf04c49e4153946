// SPDX-License-Identifier: Apache-2.0
#include "pool/core/model/tflops.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <set>

namespace farcall::pool {

namespace {

constexpr size_t kMaxName = 128;

bool IsInWord(std::string_view text, size_t at) {
  return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
}

// "A10" is in "NVIDIA A10", and neither in "NVIDIA A100" nor in "NVIDIA A10G".
bool HasWords(std::string_view text, std::string_view words) {
  for (size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1))
    if ((at == 0 || !IsInWord(text, at - 1)) && !IsInWord(text, at + words.size())) return true;
  return false;
}

}  // namespace

std::string FaultOf(const std::vector<ModelTflops>& table) {
  if (table.size() > kMaxModelTflops)
    return std::to_string(table.size()) + " models with TFLOPS: at most " +
           std::to_string(kMaxModelTflops);
  std::set<std::string> known;
  for (const ModelTflops& one : table) {
    const std::string of = "model '" + one.model.substr(0, kMaxName) + "'";
    if (one.model.empty() || one.model.size() > kMaxName || !IsInWord(one.model, 0))
      return of + ": 1 to " + std::to_string(kMaxName) + " characters, a letter or digit first";
    if (one.gflops == 0 || one.gflops > kMaxGflops) return of + ": its TFLOPS are 0.001 to 100000";
    if (!known.insert(one.model).second) return of + " is there twice";
  }
  return "";
}

uint32_t GflopsOf(std::string_view gpu, const std::vector<ModelTflops>& table) {
  const ModelTflops* best = nullptr;
  for (const ModelTflops& one : table)
    if ((best == nullptr || one.model.size() > best->model.size()) && HasWords(gpu, one.model))
      best = &one;
  return best == nullptr ? 0 : best->gflops;
}

bool IsIn(std::string_view model, const std::vector<ModelTflops>& table) {
  return std::any_of(table.begin(), table.end(), [&](const ModelTflops& one) {
    return HasWords(model, one.model) || one.model.find(model) != std::string::npos;
  });
}

std::string TflopsText(uint32_t gflops) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g TFLOPS", gflops / 1000.0);
  return text;
}

}  // namespace farcall::pool
