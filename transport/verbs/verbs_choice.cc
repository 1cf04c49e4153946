// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_choice.h"

#include <charconv>

#include "proto/printable.h"

namespace farcall {
namespace {

constexpr size_t kMaxNameBytes = 63;  // as IBV_SYSFS_NAME_MAX has it

bool ParseNumber(std::string_view text, int least, int most, int* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= least &&
         *value <= most;
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") ==
             std::string_view::npos;
}

}  // namespace

Result<VerbsChoice> ParseVerbsChoice(std::string_view text) {
  VerbsChoice choice;
  if (text.empty() || text == "auto") return choice;
  std::string_view rest = text;
  const auto next = [&rest] {
    const size_t colon = rest.find(':');
    const std::string_view part = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    return part;
  };
  const std::string_view name = next();
  const bool has_port = name.size() < text.size();
  const std::string_view port = next();
  const bool has_gid = name.size() + 1 + port.size() < text.size();
  const bool is_right = IsName(name) && (!has_port || ParseNumber(port, 1, 255, &choice.port)) &&
                        (!has_gid || ParseNumber(rest, 0, 65535, &choice.gid));
  if (!is_right) {
    return Status(Code::kInvalid, Quoted(std::string(text)) +
                                      " is no RDMA device: write auto, or DEVICE[:PORT[:GID]], "
                                      "such as mlx5_0:1:3 (`ibv_devices` lists devices)");
  }
  choice.device = name;
  return choice;
}

}  // namespace farcall
