// SPDX-License-Identifier: Apache-2.0
#include "bench/sharing/goals.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace farcall::sharing {

namespace {

// Figures of ours whose trial begins so and whose name is that.
class Search {
 public:
  explicit Search(const std::vector<Figure>& figures) : figures_(figures) {}

  std::vector<const Figure*> Find(const std::string& group, const std::string& trial,
                                  const std::string& name) const {
    std::vector<const Figure*> found;
    for (const Figure& figure : figures_)
      if (figure.group == group && figure.policy == "farcall" && figure.name == name &&
          figure.trial.compare(0, trial.size(), trial) == 0)
        found.push_back(&figure);
    return found;
  }
  // The greatest by `value`; not a number if there is none, which meets no goal.
  double Most(const std::string& group, const std::string& trial, const std::string& name,
              const std::function<double(const Figure&)>& value) const {
    double most = std::nan("");
    for (const Figure* figure : Find(group, trial, name))
      most = std::isnan(most) ? value(*figure) : std::max(most, value(*figure));
    return most;
  }
  double Most(const std::string& group, const std::string& trial, const std::string& name) const {
    return Most(group, trial, name, [](const Figure& figure) { return figure.value; });
  }
  double Least(const std::string& group, const std::string& trial, const std::string& name) const {
    return -Most(group, trial, name, [](const Figure& figure) { return -figure.value; });
  }
  double Busy(const std::string& policy) const {
    for (const Figure& figure : figures_)
      if (figure.group == "mix" && figure.policy == policy && figure.name == "device busy")
        return figure.value;
    return std::nan("");
  }

 private:
  const std::vector<Figure>& figures_;
};

std::string Text(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.4g %s", value, unit);
  return text;
}

Goal AtMost(std::string what, double value, double goal, const char* unit) {
  return {std::move(what), "<= " + Text(goal, unit), Text(value, unit), value <= goal};
}

Goal AtLeast(std::string what, double value, double goal, const char* unit) {
  return {std::move(what), ">= " + Text(goal, unit), Text(value, unit), value >= goal};
}

// By how much a cap's mean lies beside it; its trial begins with it ("10% of ...").
double BesideCap(const Figure& figure) {
  return std::abs(figure.value - std::atof(figure.trial.c_str()));
}

}  // namespace

std::vector<Goal> JudgeGoals(const std::vector<Figure>& figures) {
  Search search(figures);
  auto over_bound = [&](const Figure& second) {
    return second.value - search.Least("caps", second.trial, "bound of a second");
  };
  const std::string steps = "training", requests = "requests";
  return {
      AtMost("share error over 1 s, largest", search.Most("shares", "", "largest error over 1 s"),
             1, "points"),
      AtMost("share error over 10 s, largest", search.Most("shares", "", "largest error over 10 s"),
             0.3, "points"),
      AtLeast("Jain, four equal, 1 s, least",
              search.Least("shares", "25:25:25:25", "Jain over 1 s, least"), 0.999, ""),
      AtMost("a tenant with a share, alone: loss", search.Most("alone", "", "loss"), 1, "%"),
      AtMost("caps of 10 to 90 %: mean beside the cap", search.Most("caps", "", "mean", BesideCap),
             0.5, "points"),
      AtMost("caps: a second above its bound", search.Most("caps", "", "most second", over_bound),
             0, "points"),
      AtMost("high priority, training: mean loss",
             search.Most("priority", steps, "high, mean loss"), 3, "%"),
      AtMost("high priority, requests: p99 loss",
             search.Most("priority", requests, "high, p99 loss"), 5, "%"),
      AtLeast("low priority beside them: of its speed alone",
              std::min(search.Least("priority", steps, "low, speed of its own alone"),
                       search.Least("priority", requests, "low, speed of its own alone")),
              20, "%"),
      AtMost("six tasks against one after another: time",
             search.Most("mix", "", "against one after another"), -25, "%"),
      AtLeast("six tasks: utilization more",
              search.Busy("farcall") - search.Busy("one_after_another"), 15, "points"),
      AtMost("two jobs of 0.9 x the memory, half busy",
             search.Most("swap", "10 s device, 10 s host, 50 GB/s", "against one after the other"),
             0.72, "x"),
      AtMost("two jobs of 0.9 x the memory, 90 % busy",
             search.Most("swap", "54 s device, 6 s host, 50 GB/s", "against one after the other"),
             0.98, "x"),
  };
}

void PrintGoals(const std::vector<Goal>& goals) {
  std::printf("\n%-48s %-16s %-16s\n", "simulated", "goal", "reached");
  for (const Goal& goal : goals)
    std::printf("%-48s %-16s %-16s %s\n", goal.what.c_str(), goal.goal.c_str(),
                goal.reached.c_str(), goal.is_met ? "met" : "MISSED");
  std::printf(
      "\nThe pool's rows: ./scripts/bench pool. Bytes over a quota, and shares of real programs on "
      "the CPU device: ctest -R 'MemoryLedger|session.(memory|sharing|neighbours)'.\n");
}

}  // namespace farcall::sharing
