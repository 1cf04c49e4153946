// SPDX-License-Identifier: Apache-2.0
// Tables for people: columns as wide as their widest cell, numbers to the right, and what does not
// fit left out by rank. And how sizes and times are written in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/output/terminal.h"

namespace farcall::cli {

struct Column {
  std::string head;
  bool is_number = false;  // to the right
  int rank = 0;            // 0: always there; of the others the highest is left out first
};

// Peers' texts are made printable; colors stand behind that.
struct Cell {
  Cell(std::string what) : text(std::move(what)) {}  // NOLINT: a row is a list of texts
  Cell(const char* what) : text(what) {}             // NOLINT
  Cell(std::string what, Color how) : text(std::move(what)), color(how) {}
  std::string text;
  Color color = Color::kNone;
};
using Cells = std::vector<Cell>;

inline constexpr size_t kAnyWidth = SIZE_MAX;

// The heads, then a line a row, without their ends of line. `width`: columns of the terminal.
std::vector<std::string> TableLines(const std::vector<Column>& columns,
                                    const std::vector<Cells>& rows, size_t width = kAnyWidth,
                                    bool colors = false);
// The same as text.
std::string Table(const std::vector<Column>& columns, const std::vector<Cells>& rows,
                  size_t width = kAnyWidth, bool colors = false);

// Of UTF-8 text, in columns of a terminal; our own signs are one wide each.
size_t WidthOf(const std::string& text);

// "1.5GiB", "12.5%", "1h02m", "3.2s".
std::string BytesText(uint64_t bytes);
std::string MilliText(uint32_t milli);
std::string AgeText(uint64_t ms);
std::string DeviceTimeText(uint64_t ns);

// "#####....." `width` columns wide; `milli` of 1000.
std::string BarText(uint32_t milli, size_t width);
// The last of `milli` (of 1000 each), a sign each, `width` at most: " .:-=+*#".
std::string SparkText(const std::vector<uint32_t>& milli, size_t width);

}  // namespace farcall::cli
