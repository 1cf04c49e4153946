// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/options/log_format.h"

#include <spdlog/pattern_formatter.h>

#include "proto/printable.h"

namespace farcall::server {

namespace {

constexpr size_t kMaxLineBytes = 4096;

class PrintableFormatter final : public spdlog::formatter {
 public:
  explicit PrintableFormatter(std::unique_ptr<spdlog::formatter> inner)
      : inner_(std::move(inner)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& into) override {
    std::string text =
        Printable(std::string_view(message.payload.data(), message.payload.size()), kMaxLineBytes);
    spdlog::details::log_msg clean = message;
    clean.payload = text;
    inner_->format(clean, into);
    message.color_range_start = clean.color_range_start;
    message.color_range_end = clean.color_range_end;
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<PrintableFormatter>(inner_->clone());
  }

 private:
  std::unique_ptr<spdlog::formatter> inner_;
};

}  // namespace

std::unique_ptr<spdlog::formatter> MakeLogFormatter() {
  return std::make_unique<PrintableFormatter>(std::make_unique<spdlog::pattern_formatter>(
      "%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %n: %v", spdlog::pattern_time_type::utc));
}

}  // namespace farcall::server
