// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace farcall::server {

// What is to be done, last first, unless all goes well.
class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
      if (step->always || !forgotten_) step->run();
  }
  void Add(std::function<void()> run) { steps_.push_back({std::move(run), false}); }
  void Always(std::function<void()> run) { steps_.push_back({std::move(run), true}); }
  void Forget() { forgotten_ = true; }

 private:
  struct Step {
    std::function<void()> run;
    bool always;
  };
  std::vector<Step> steps_;
  bool forgotten_ = false;
};

}  // namespace farcall::server
