// SPDX-License-Identifier: Apache-2.0
// What `farcall doctor` found: printed line by line, or as one JSON object at the end.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace farcall::cli {

class Findings {
 public:
  explicit Findings(bool json) : json_(json) {}

  // Returns `good`. The remedy is told where it is not.
  bool Say(bool good, const std::string& what, const std::string& remedy = "");
  // Neither good nor bad: under the finding before it.
  void Note(const std::string& what);
  // For machines only: what the lines above say in words.
  void Attach(const std::string& key, nlohmann::ordered_json value) {
    extra_[key] = std::move(value);
  }

  bool good() const { return good_; }
  bool json() const { return json_; }
  // The JSON, if that was asked for.
  void Finish();

 private:
  bool json_, good_ = true;
  nlohmann::ordered_json list_ = nlohmann::ordered_json::array(),
                         extra_ = nlohmann::ordered_json::object();
};

}  // namespace farcall::cli
