// SPDX-License-Identifier: Apache-2.0
// What `farcall doctor` found: one line per topic, or each finding on a line, or one JSON object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace farcall::cli {

class Findings {
 public:
  enum class Form { kTopics, kAll, kJson };
  explicit Findings(Form form) : form_(form) {}

  // What follows belongs to `topic`, such as "server". `is_quiet`: one that gets its line only if
  // something is wrong in it.
  void Begin(const std::string& topic, bool is_quiet = false);
  // Returns `good`. The remedy is told where it is not.
  bool Say(bool good, const std::string& what, const std::string& remedy = "");
  // Neither a failure nor as it should be.
  void Warn(const std::string& what, const std::string& remedy = "");
  // Under the finding before it.
  void Note(const std::string& what);
  // What the topic's line says if nothing in it failed; otherwise its first finding.
  void Sum(const std::string& what);
  // For machines only: what the lines above say in words. Lists of one key are joined.
  void Attach(const std::string& key, nlohmann::ordered_json value) {
    nlohmann::ordered_json& kept = extra_[key];
    if (kept.is_array() && value.is_array())
      kept.insert(kept.end(), value.begin(), value.end());
    else
      kept = std::move(value);
  }

  bool good() const { return failures_ == 0; }
  // The topics or the JSON, and the verdict. `next`: the command to go on with if all is well.
  void Finish(const std::string& next);

 private:
  enum class Kind { kGood, kWarning, kFailure };
  struct Finding {
    Kind kind;
    std::string what, remedy;
    std::vector<std::string> notes;
  };
  struct Topic {
    std::string name, sum;
    std::vector<Finding> findings;
    bool is_quiet = false;
  };
  void Add(Finding finding);
  void PrintTopics() const;
  void PrintVerdict(const std::string& next) const;
  void PrintJson() const;

  const Form form_;
  size_t failures_ = 0, warnings_ = 0;
  std::vector<Topic> topics_;
  nlohmann::ordered_json extra_ = nlohmann::ordered_json::object();
};

}  // namespace farcall::cli
