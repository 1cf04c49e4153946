// SPDX-License-Identifier: Apache-2.0
#include "cli/control/top_screen.h"

#include <algorithm>

#include "proto/printable.h"

namespace farcall::cli {

namespace {

// No more than the screen has: in columns, with colors counted as nothing.
std::string Clipped(const std::string& line, size_t width) {
  std::string clipped;
  size_t columns = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\033') {
      const size_t end = std::min(line.find('m', i), line.size() - 1);
      clipped.append(line, i, end - i + 1);
      i = end;
      continue;
    }
    const bool begins = (static_cast<unsigned char>(line[i]) & 0xc0) != 0x80;
    if (begins && columns++ == width) break;
    clipped += line[i];
  }
  return clipped;
}

void AddText(const std::string& text, std::vector<std::string>* lines) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines->push_back(text.substr(at, end - at));
    at = end + 1;
  }
}

}  // namespace

void TopScreen::Update(const TopFrame& frame) {
  history_.Add(frame.hosts);
}

std::string TopScreen::KeysLine() const {
  return std::string("q quit   j/k select   Enter sessions   s sort: ") + SortName(options_.sort) +
         "   p park";
}

size_t TopScreen::IndexOfSelected(const std::vector<VgpuRow>& rows) const {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const VgpuRow& row) {
    return row.vgpu->id() == selected_vgpu_ && row.host == selected_host_;
  });
  return found == rows.end() ? 0 : static_cast<size_t>(found - rows.begin());
}

std::string TopScreen::Draw(const TopFrame& frame, size_t height, size_t width) {
  constexpr size_t kMarker = 2;
  options_.width = width;
  std::vector<std::string> lines = {frame.head, message_.empty() ? KeysLine() : message_, ""};
  AddText(DeviceTable(frame.hosts, options_), &lines);
  lines.emplace_back();
  ViewOptions marked = options_;
  marked.width = width > kMarker ? width - kMarker : width;
  const std::vector<VgpuRow> rows = VgpuRows(frame.hosts, options_);
  if (rows.empty()) {
    lines.emplace_back("no vGPUs");
  } else {
    const auto last = static_cast<int>(rows.size()) - 1;
    const auto at =
        static_cast<size_t>(std::clamp(static_cast<int>(IndexOfSelected(rows)) + move_, 0, last));
    selected_vgpu_ = rows[at].vgpu->id();
    selected_host_ = rows[at].host;
    const std::vector<std::string> table = VgpuLines(rows, marked);
    for (size_t i = 0; i < table.size(); ++i) {
      lines.push_back((i == at + 1 ? "> " : "  ") + table[i]);
      if (i == at + 1 && shows_sessions_)
        for (const std::string& line : SessionLines(*rows[at].vgpu)) lines.push_back("    " + line);
    }
  }
  move_ = 0;
  std::string text;
  for (size_t i = 0; i < std::min(lines.size(), height); ++i)
    text += Clipped(lines[i], width) + "\033[K\r\n";
  return text;
}

TopScreen::Wish TopScreen::Press(const std::string& key) {
  message_.clear();
  if (key == "q" || key == "Q" || key == "\x03") return Wish::kQuit;
  if (key == "p") return Wish::kPark;
  if (key == "s")
    options_.sort = NextSort(options_.sort);
  else if (key == "j" || key == "\033[B" || key == "\033OB")
    ++move_;
  else if (key == "k" || key == "\033[A" || key == "\033OA")
    --move_;
  else if (key == "\r" || key == "\n")
    shows_sessions_ = !shows_sessions_;
  else
    return Wish::kNothing;
  return Wish::kRedraw;
}

std::optional<std::string> TopScreen::Selected() const {
  return selected_vgpu_.empty() ? std::nullopt : std::optional(selected_vgpu_);
}

}  // namespace farcall::cli
