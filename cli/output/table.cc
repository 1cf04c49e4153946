// SPDX-License-Identifier: Apache-2.0
#include "cli/output/table.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <numeric>

#include "proto/printable.h"

namespace farcall::cli {

namespace {

constexpr size_t kGap = 2;
constexpr uint32_t kWhole = 1000;

std::string Format(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string Padded(const Cell& cell, size_t width, bool to_right, bool is_last, bool colors) {
  const size_t own = WidthOf(cell.text);
  const std::string padding(width > own ? width - own : 0, ' ');
  const std::string text = colors ? Painted(cell.color, cell.text) : cell.text;
  if (to_right) return padding + text;
  return is_last ? text : text + padding;
}

}  // namespace

size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }));
}

std::vector<std::string> TableLines(const std::vector<Column>& columns,
                                    const std::vector<Cells>& rows, size_t width, bool colors) {
  std::vector<Cells> all(1);
  for (const Column& column : columns) all[0].push_back({column.head, Color::kBold});
  for (const Cells& row : rows) {
    all.push_back(row);
    for (Cell& cell : all.back()) cell.text = Printable(cell.text);
  }
  std::vector<size_t> widths(columns.size());
  for (const Cells& row : all)
    for (size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], WidthOf(row[i].text));
  std::vector<size_t> shown(columns.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  auto total = [&] {
    size_t sum = 0;
    for (size_t i : shown) sum += widths[i] + kGap;
    return sum - kGap;
  };
  while (shown.size() > 1 && total() > width) {
    auto last = std::max_element(shown.begin(), shown.end(), [&](size_t a, size_t b) {
      return columns[a].rank < columns[b].rank;
    });
    if (columns[*last].rank == 0) break;
    shown.erase(last);
  }
  std::vector<std::string> lines;
  for (const Cells& row : all) {
    std::string line;
    for (size_t i : shown) {
      const bool is_last = i == shown.back();
      line += Padded(row[i], widths[i], columns[i].is_number, is_last, colors);
      if (!is_last) line += std::string(kGap, ' ');
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string Table(const std::vector<Column>& columns, const std::vector<Cells>& rows, size_t width,
                  bool colors) {
  std::string text;
  for (const std::string& line : TableLines(columns, rows, width, colors)) text += line + "\n";
  return text;
}

std::string BytesText(uint64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return Format(value < 10 && unit > 0 ? "%.1f" : "%.0f", value) + units[unit];
}

std::string MilliText(uint32_t milli) {
  return Format(milli % 10 == 0 ? "%.0f%%" : "%.1f%%", milli / 10.0);
}

std::string AgeText(uint64_t ms) {
  uint64_t seconds = ms / 1000;
  if (seconds < 60) return std::to_string(seconds) + "s";
  char text[32];
  if (seconds < 3600)
    std::snprintf(text, sizeof(text), "%dm%02ds", static_cast<int>(seconds / 60),
                  static_cast<int>(seconds % 60));
  else
    std::snprintf(text, sizeof(text), "%lluh%02dm", static_cast<unsigned long long>(seconds / 3600),
                  static_cast<int>(seconds / 60 % 60));
  return text;
}

std::string DeviceTimeText(uint64_t ns) {
  double seconds = static_cast<double>(ns) / 1e9;
  return Format(seconds < 10 ? "%.2fs" : "%.0fs", seconds);
}

std::string BarText(uint32_t milli, size_t width) {
  const size_t full = std::min<size_t>(width, (milli * width + kWhole / 2) / kWhole);
  return std::string(full, '#') + std::string(width - full, '.');
}

std::string SparkText(const std::vector<uint32_t>& milli, size_t width) {
  static constexpr char kSigns[] = {' ', '.', ':', '-', '=', '+', '*', '#'};
  constexpr uint32_t kMax = std::size(kSigns) - 1;
  std::string text;
  const size_t first = milli.size() - std::min(milli.size(), width);
  for (size_t i = first; i < milli.size(); ++i) {
    const uint32_t part = std::min(milli[i], kWhole);
    text += kSigns[part == 0 ? 0 : std::max<uint32_t>(1, (part * kMax + kWhole / 2) / kWhole)];
  }
  return std::string(width - text.size(), ' ') + text;
}

}  // namespace farcall::cli
