// SPDX-License-Identifier: Apache-2.0
// What `farcall top` shows in a terminal, and what its keys do: no terminal and no network here.
#pragma once

#include <optional>
#include <string>

#include "cli/control/view.h"

namespace farcall::cli {

// One state of the server or the pool.
struct TopFrame {
  std::string head;  // one line
  std::vector<Shown> hosts;
};

class TopScreen {
 public:
  explicit TopScreen(ViewOptions options) : options_(options) { options_.history = &history_; }

  void Update(const TopFrame& frame);
  // The screen, `height` lines at most, each with its end of line.
  std::string Draw(const TopFrame& frame, size_t height, size_t width);

  enum class Wish { kNothing, kRedraw, kQuit, kPark };
  // One key: a letter, or what Arrow and Enter send.
  Wish Press(const std::string& key);
  // Whose memory is to leave its devices; nullopt: nothing is selected.
  std::optional<std::string> Selected() const;
  // Under the head until the next key.
  void Say(const std::string& message) { message_ = message; }

 private:
  std::string KeysLine() const;
  size_t IndexOfSelected(const std::vector<VgpuRow>& rows) const;

  ViewOptions options_;
  History history_;
  std::string message_;
  // By name, so that it stays where rows change places.
  std::string selected_vgpu_, selected_host_;
  int move_ = 0;  // asked for since the last drawing
  bool shows_sessions_ = false;
};

}  // namespace farcall::cli
