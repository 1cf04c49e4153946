// SPDX-License-Identifier: Apache-2.0
#include "cli/pool/apply/config_file.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <functional>
#include <map>
#include <stdexcept>
#include <string_view>

#include "cli/pool/base/bounds.h"
#include "cli/pool/base/flag_values.h"
#include "proto/printable.h"
#include "proto/text_file.h"
#include "settings/oversubscribe.h"

namespace farcall::cli {

namespace {

namespace pb = farcall::pool::v1;

// Anchors may make much of little.
constexpr size_t kMaxNodes = 200'000;

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void Throw(const YAML::Node& node, const std::string& what) {
  throw Fault("line " + std::to_string(node.Mark().line + 1) + ": " + what);
}

class Reader {
 public:
  explicit Reader(pb::Config* config) : config_(config) {}

  void Read(const YAML::Node& root) {
    Fields(root, "the file",
           {{"projects", [&](const YAML::Node& n) { Each(n, [&](auto& one) { Project(one); }); }},
            {"groups", [&](const YAML::Node& n) { Each(n, [&](auto& one) { Group(one); }); }},
            {"users", [&](const YAML::Node& n) { Each(n, [&](auto& one) { User(one); }); }},
            {"hosts", [&](const YAML::Node& n) { Each(n, [&](auto& one) { Host(one); }); }}});
  }

 private:
  using Setters = std::map<std::string, std::function<void(const YAML::Node&)>>;

  void Count(const YAML::Node& node) {
    if (++nodes_ > kMaxNodes) Throw(node, "more than 200000 values");
  }

  std::string Text(const YAML::Node& node) {
    Count(node);
    if (!node.IsScalar() && !node.IsNull()) Throw(node, "a text or number belongs here");
    return node.IsNull() ? "" : node.Scalar();
  }

  uint32_t Number(const YAML::Node& node) {
    const std::string text = Text(node);
    uint32_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
      Throw(node, "'" + Printable(text, 64) + "': a number from 0 belongs here");
    return number;
  }

  template <typename Use>
  void Each(const YAML::Node& node, Use use) {
    if (node.IsNull()) return;
    if (!node.IsSequence()) Throw(node, "a list belongs here");
    for (const YAML::Node& one : node) {
      Count(one);
      use(one);
    }
  }

  void Fields(const YAML::Node& node, const std::string& of, const Setters& setters) {
    if (!node.IsMap()) Throw(node, of + ": names with values belong here");
    for (const auto& field : node) {
      const std::string name = Text(field.first);
      auto setter = setters.find(name);
      if (setter != setters.end()) {
        setter->second(field.second);
        continue;
      }
      std::string known;
      for (const auto& [other, ignored] : setters) known += (known.empty() ? "" : ", ") + other;
      Throw(field.first, of + " has no '" + Printable(name, 64) + "': it has " + known);
    }
  }

  pb::ResourceBounds Bounds(const YAML::Node& node) {
    std::string text;
    auto add = [&](const char* name) {
      return [&, name](const YAML::Node& value) {
        text += (text.empty() ? "" : ",") + std::string(name) + "=" + Text(value);
      };
    };
    Fields(node, "a quota", {{"mem", add("mem")}, {"share", add("share")}, {"gpus", add("gpus")}});
    GivenBounds given;
    if (!text.empty() && !ParseBounds(text, &given))
      Throw(node, "'" + Printable(text, 64) + "': write {mem: 80GiB, share: 250%, gpus: 2}");
    return given.bounds;
  }

  void Project(const YAML::Node& node) {
    pb::Project* project = config_->add_projects();
    auto number = [&](void (pb::Project::*set)(uint32_t)) {
      return [this, project, set](const YAML::Node& value) { (project->*set)(Number(value)); };
    };
    Fields(node, "a project",
           {{"name", [&](const YAML::Node& n) { project->set_name(Text(n)); }},
            {"weight", number(&pb::Project::set_weight)},
            {"over_quota_weight", number(&pb::Project::set_over_quota_weight)},
            {"deserved", [&](const YAML::Node& n) { *project->mutable_deserved() = Bounds(n); }},
            {"limit", [&](const YAML::Node& n) { *project->mutable_limit() = Bounds(n); }},
            {"models",
             [&](const YAML::Node& n) {
               Each(n, [&](const YAML::Node& one) { Model(one, project->add_models()); });
             }},
            {"max_pending", number(&pb::Project::set_max_pending)},
            {"max_claims", number(&pb::Project::set_max_claims)},
            {"tenant_max_pending", number(&pb::Project::set_tenant_max_pending)},
            {"tenant_max_claims", number(&pb::Project::set_tenant_max_claims)}});
    if (project->name().empty()) Throw(node, "a project without a name");
  }

  void Model(const YAML::Node& node, pb::ModelBounds* model) {
    Fields(node, "a model",
           {{"model", [&](const YAML::Node& n) { model->set_model(Text(n)); }},
            {"deserved", [&](const YAML::Node& n) { *model->mutable_deserved() = Bounds(n); }},
            {"limit", [&](const YAML::Node& n) { *model->mutable_limit() = Bounds(n); }}});
  }

  void Group(const YAML::Node& node) {
    pb::Group* group = config_->add_groups();
    auto text = [&](void (*set)(pb::Group*, std::string)) {
      return [this, group, set](const YAML::Node& value) { set(group, Text(value)); };
    };
    auto list = [&](void (*add)(pb::Group*, std::string)) {
      return [this, group, add](const YAML::Node& values) {
        Each(values, [&](const YAML::Node& one) { add(group, Text(one)); });
      };
    };
    auto number = [&](void (pb::Group::*set)(uint32_t)) {
      return [this, group, set](const YAML::Node& value) { (group->*set)(Number(value)); };
    };
    Fields(
        node, "a group",
        {{"name", text([](pb::Group* g, std::string t) { g->set_name(std::move(t)); })},
         {"selector", text([](pb::Group* g, std::string t) { g->set_selector(std::move(t)); })},
         {"hosts", list([](pb::Group* g, std::string t) { g->add_hosts(std::move(t)); })},
         {"projects", list([](pb::Group* g, std::string t) { g->add_projects(std::move(t)); })},
         {"sequencer", text([](pb::Group* g, std::string t) { g->set_sequencer(std::move(t)); })},
         {"placer", text([](pb::Group* g, std::string t) { g->set_placer(std::move(t)); })},
         {"model_tflops", [&](const YAML::Node& n) { Tflops(n, group); }},
         {"oversubscribe",
          [&](const YAML::Node& n) {
            uint32_t milli = 0;
            if (!ParseOversubscribe(Text(n), &milli))
              Throw(n, "'" + Printable(Text(n), 64) + "': " + kOversubscribeForm);
            group->set_oversubscribe(milli / 1000.0);
          }},
         {"round_trips",
          [&](const YAML::Node& n) {
            Each(n, [&](const YAML::Node& one) { RoundTrip(one, group->add_round_trips()); });
          }},
         {"max_pending", number(&pb::Group::set_max_pending)},
         {"max_claims", number(&pb::Group::set_max_claims)}});
    if (group->name().empty()) Throw(node, "a group without a name");
  }

  // As {A100: 312}.
  void Tflops(const YAML::Node& node, pb::Group* group) {
    if (node.IsNull()) return;
    if (!node.IsMap()) Throw(node, "model_tflops: models with their TFLOPS belong here");
    for (const auto& one : node) {
      pb::ModelTflops* model = group->add_model_tflops();
      model->set_model(Text(one.first));
      double tflops = 0;
      if (!ReadTflops(Text(one.second), &tflops))
        Throw(one.second,
              "'" + Printable(Text(one.second), 64) + "': TFLOPS are 0.001 to 100000, as 312");
      model->set_tflops(tflops);
    }
  }

  void RoundTrip(const YAML::Node& node, pb::ZoneRoundTrip* trip) {
    Fields(node, "a round trip",
           {{"from", [&](const YAML::Node& n) { trip->set_from(Text(n)); }},
            {"to", [&](const YAML::Node& n) { trip->set_to(Text(n)); }},
            {"time", [&](const YAML::Node& n) {
               uint32_t us = 0;
               if (!ReadMicroseconds(Text(n), &us))
                 Throw(n, "'" + Printable(Text(n), 64) + "': write a time up to 10s, as 300us");
               trip->set_us(us);
             }}});
  }

  void User(const YAML::Node& node) {
    pb::User* user = config_->add_users();
    Fields(node, "a user",
           {{"name", [&](const YAML::Node& n) { user->set_name(Text(n)); }},
            {"machine",
             [&](const YAML::Node& n) {
               const std::string text = Text(n);
               if (text != "true" && text != "false") Throw(n, "machine: true or false");
               user->set_machine(text == "true");
             }},
            {"roles", [&](const YAML::Node& n) {
               Each(n, [&](const YAML::Node& one) {
                 pb::RoleBinding* role = user->add_roles();
                 Fields(one, "a role",
                        {{"role", [&](const YAML::Node& r) { role->set_role(Text(r)); }},
                         {"project", [&](const YAML::Node& p) { role->set_project(Text(p)); }}});
               });
             }}});
    if (user->name().empty()) Throw(node, "a user without a name");
  }

  void Host(const YAML::Node& node) {
    pb::HostLabels* host = config_->add_hosts();
    Fields(node, "a host",
           {{"name", [&](const YAML::Node& n) { host->set_name(Text(n)); }},
            {"labels", [&](const YAML::Node& n) {
               if (n.IsNull()) return;
               if (!n.IsMap()) Throw(n, "labels: names with values belong here");
               for (const auto& label : n)
                 (*host->mutable_labels())[Text(label.first)] = Text(label.second);
             }}});
    if (host->name().empty()) Throw(node, "a host without a name");
  }

  pb::Config* const config_;
  size_t nodes_ = 0;
};

}  // namespace

Status ReadConfigFile(const std::string& path, pb::Config* config) {
  Result<std::string> text = ReadTextFile(path);
  if (!text.ok()) return {text.status().code(), "'" + path + "': " + text.status().message()};
  if (!IsUtf8(*text)) return {Code::kInvalid, "'" + path + "' is no UTF-8"};
  try {
    Reader(config).Read(YAML::Load(*text));
  } catch (const Fault& fault) {
    return {Code::kInvalid, "'" + path + "' " + fault.what()};
  } catch (const YAML::Exception& error) {
    return {Code::kInvalid, "'" + path + "' line " + std::to_string(error.mark.line + 1) +
                                ": no YAML: " + error.msg};
  }
  return {};
}

}  // namespace farcall::cli
