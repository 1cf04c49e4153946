// SPDX-License-Identifier: Apache-2.0
#include "cli/pool/base/bounds.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "cli/pool/base/call.h"
#include "cli/pool/base/flag_values.h"
#include "proto/printable.h"
#include "settings/byte_count.h"

namespace farcall::cli {

namespace {

bool ParseNumber(std::string_view text, uint64_t* number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

// "250%" or "12.5%" as thousandths, of as many GPUs as it says.
bool ParsePercent(std::string_view text, uint64_t* milli) {
  constexpr uint64_t kMax = 100'000'000;
  if (text.empty() || text.back() != '%') return false;
  text.remove_suffix(1);
  uint64_t tenths = 0;
  if (const size_t dot = text.find('.'); dot != text.npos) {
    if (text.size() - dot != 2 || !ParseNumber(text.substr(dot + 1), &tenths)) return false;
    text = text.substr(0, dot);
  }
  if (!ParseNumber(text, milli) || *milli > kMax) return false;
  *milli = *milli * 10 + tenths;
  return true;
}

bool ParseOne(std::string_view key, std::string_view value, GivenBounds* given) {
  uint64_t number = 0;
  if (key == "model") {
    given->model = value;
    return !value.empty();
  }
  if (key == "mem" && (value == "0" || ParseByteCount(value, &number)))
    given->bounds.set_memory_bytes(number);
  else if (key == "share" && ParsePercent(value, &number))
    given->bounds.set_share_milli(number);
  else if (key == "gpus" && ParseNumber(value, &number))
    given->bounds.set_gpus(number);
  else
    return false;
  return true;
}

}  // namespace

bool ParseBounds(const std::string& text, GivenBounds* given) {
  *given = GivenBounds();
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one == "none") continue;
    const size_t equals = one.find('=');
    if (equals == one.npos || !ParseOne(one.substr(0, equals), one.substr(equals + 1), given))
      return false;
  }
  return !text.empty();
}

std::string CheckBounds(const std::string& text) {
  GivenBounds given;
  return ParseBounds(text, &given) ? "" : "'" + text + "': " + kBoundsForm;
}

bool ParseSize(const std::string& text, pool::v1::ClaimSize* size) {
  constexpr uint64_t kMaxGpus = 64, kMaxMilli = 1000;
  constexpr char kTflopsWord[] = "tflops=";
  // TFLOPS are what bounds have none of.
  std::string bounded;
  double tflops = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, end - at);
    at = end + 1;
    if (one.rfind(kTflopsWord, 0) != 0)
      bounded += (bounded.empty() ? "" : ",") + one;
    else if (tflops != 0 || !ReadTflops(one.substr(std::size(kTflopsWord) - 1), &tflops))
      return false;
  }
  GivenBounds given;
  if (bounded == "none" || (!ParseBounds(bounded, &given) && (tflops == 0 || !bounded.empty())))
    return false;
  const pool::v1::ResourceBounds& bounds = given.bounds;
  if (bounds.has_gpus() && (bounds.gpus() == 0 || bounds.gpus() > kMaxGpus)) return false;
  if (bounds.share_milli() > kMaxMilli || (tflops != 0 && bounds.share_milli() != 0)) return false;
  size->set_count(bounds.has_gpus() ? static_cast<uint32_t>(bounds.gpus()) : 1);
  size->set_memory_bytes(bounds.memory_bytes());
  size->set_share_milli(static_cast<uint32_t>(bounds.share_milli()));
  size->set_model(given.model);
  size->set_tflops(tflops);
  return true;
}

std::string CheckSize(const std::string& text) {
  pool::v1::ClaimSize size;
  return ParseSize(text, &size)
             ? ""
             : "'" + text +
                   "': write gpus=2,mem=40GiB,share=50%,model=A100 or a part of it, or tflops=40 "
                   "instead of the share";
}

std::string SizeText(const pool::v1::ClaimSize& size) {
  std::string text = size.count() > 1 ? std::to_string(size.count()) + " x " : "";
  text += size.memory_bytes() == 0 ? "GPU" : Gib(size.memory_bytes()) + "GiB";
  if (size.share_milli() != 0) {
    char share[32];
    std::snprintf(share, sizeof(share), " %g%%", size.share_milli() / 10.0);
    text += share;
  }
  if (size.tflops() != 0) text += " " + TflopsText(size.tflops());
  return size.model().empty() ? text : text + " of " + Printable(size.model());
}

std::string BoundsText(const pool::v1::ResourceBounds& bounds) {
  std::string text;
  auto add = [&text](const std::string& one) { text += (text.empty() ? "" : ",") + one; };
  if (bounds.has_memory_bytes()) add(Gib(bounds.memory_bytes()) + "GiB");
  if (bounds.has_share_milli()) {
    char share[32];
    std::snprintf(share, sizeof(share), "%g%%", static_cast<double>(bounds.share_milli()) / 10.0);
    add(share);
  }
  if (bounds.has_gpus()) add(std::to_string(bounds.gpus()) + " GPU(s)");
  return text.empty() ? "-" : text;
}

}  // namespace farcall::cli
