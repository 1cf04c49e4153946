// SPDX-License-Identifier: Apache-2.0
#include "server/control_plane/metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "proto/printable.h"

namespace farcall::control_plane {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr int kMaxVgpus = 512;  // whose names clients choose: a monitor keeps each for weeks
constexpr double kNsPerSecond = 1e9, kMilliPerOne = 1000;

MetricFamily Family(const char* name, const char* help, MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

void Add(MetricFamily* family, Labels labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  for (ClientMetric::Label& label : metric.label) label.value = Printable(label.value);
  (family->type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family->metric.push_back(std::move(metric));
}

// A figure of each vGPU on each device.
struct VgpuFigure {
  const char *name, *help;
  MetricType type;
  std::function<double(const pb::VgpuDevice&)> value;
};

const std::vector<VgpuFigure>& VgpuFigures() {
  static const std::vector<VgpuFigure> figures = {
      {"farcall_vgpu_memory_used_bytes", "Device memory in use by the vGPU", MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return static_cast<double>(d.used_bytes()); }},
      {"farcall_vgpu_memory_charged_bytes",
       "Device memory that counts against the quota, unspent credit with it", MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return static_cast<double>(d.charged_bytes()); }},
      {"farcall_vgpu_memory_limit_bytes", "Quota of device memory", MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return static_cast<double>(d.quota_bytes()); }},
      {"farcall_vgpu_device_seconds_total", "Device time charged", MetricType::Counter,
       [](const pb::VgpuDevice& d) { return static_cast<double>(d.device_ns()) / kNsPerSecond; }},
      {"farcall_vgpu_debt_seconds", "Device time used beyond the limit, to be waited for",
       MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return static_cast<double>(d.debt_ns()) / kNsPerSecond; }},
      {"farcall_vgpu_share_wanted", "Part of the device due to it now", MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return d.share_wanted_milli() / kMilliPerOne; }},
      {"farcall_vgpu_share_got", "Part of the device it got over the last second",
       MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return d.share_got_milli() / kMilliPerOne; }},
      {"farcall_vgpu_queued_bytes", "Records that wait in the server", MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return static_cast<double>(d.queued_bytes()); }},
      {"farcall_vgpu_memory_swapped_bytes", "Charged, but not on the device now", MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return static_cast<double>(d.swapped_bytes()); }},
      {"farcall_vgpu_memory_overhead_bytes",
       "Contexts and machine code, by the driver's figure; 0: none, or not known",
       MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return static_cast<double>(d.overhead_bytes()); }},
      {"farcall_vgpu_memory_overhead_uncharged_bytes", "Of them, what the quota has no room for",
       MetricType::Gauge,
       [](const pb::VgpuDevice& d) {
         return static_cast<double>(d.overhead_bytes() -
                                    std::min(d.overhead_bytes(), d.overhead_charged_bytes()));
       }},
      // By the names of a common exporter, so that its dashboards show something.
      {"vGPU_device_memory_usage_in_bytes", "As farcall_vgpu_memory_used_bytes", MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return static_cast<double>(d.used_bytes()); }},
      {"vGPU_device_memory_limit_in_bytes", "As farcall_vgpu_memory_limit_bytes", MetricType::Gauge,
       [](const pb::VgpuDevice& d) { return static_cast<double>(d.quota_bytes()); }},
  };
  return figures;
}

void AddServer(const pb::ServerStatus& status, std::vector<MetricFamily>* families) {
  int sessions = 0;
  for (const pb::Vgpu& vgpu : status.vgpus()) sessions += vgpu.sessions_size();
  MetricFamily running = Family("farcall_sessions", "Sessions that run", MetricType::Gauge);
  Add(&running, {}, sessions);
  MetricFamily started =
      Family("farcall_sessions_started_total", "Sessions since the start", MetricType::Counter);
  Add(&started, {}, static_cast<double>(status.sessions_started()));
  MetricFamily memory =
      Family("farcall_device_memory_bytes", "The device's memory", MetricType::Gauge);
  MetricFamily charged = Family("farcall_device_memory_charged_bytes",
                                "Charged by all vGPUs together", MetricType::Gauge);
  MetricFamily busy = Family("farcall_device_busy_seconds_total",
                             "Time in which anything of any vGPU ran", MetricType::Counter);
  for (const pb::Device& device : status.devices()) {
    Labels labels = {{"device", std::to_string(device.index())}, {"uuid", device.uuid()}};
    Add(&busy, labels, static_cast<double>(device.busy_ns()) / kNsPerSecond);
    Add(&memory, labels, static_cast<double>(device.memory_bytes()));
    Add(&charged, labels, static_cast<double>(device.memory_charged_bytes()));
  }
  for (MetricFamily* family : {&running, &started, &memory, &charged, &busy})
    families->push_back(std::move(*family));
}

// Of a vGPU, on whatever devices.
void AddNetwork(const pb::ServerStatus& status, std::vector<MetricFamily>* families) {
  MetricFamily bytes = Family("farcall_vgpu_network_bytes_total",
                              "Bytes that its sessions received and sent", MetricType::Counter);
  MetricFamily limit = Family("farcall_vgpu_network_limit_bytes_per_second",
                              "Budget for both directions together; 0: none", MetricType::Gauge);
  MetricFamily waits =
      Family("farcall_vgpu_network_throttled_seconds_total",
             "Time with bytes to move and none left of the budget", MetricType::Counter);
  for (const pb::Vgpu& vgpu : status.vgpus()) {
    Labels labels = {{"vgpu", vgpu.id()}, {"owner", vgpu.owner()}};
    for (auto [direction, count] :
         {std::pair("in", vgpu.net_bytes_in()), std::pair("out", vgpu.net_bytes_out())}) {
      Labels with = labels;
      with.push_back({"direction", direction});
      Add(&bytes, std::move(with), static_cast<double>(count));
    }
    Add(&limit, labels, static_cast<double>(vgpu.net_bytes_per_s()));
    Add(&waits, labels, static_cast<double>(vgpu.net_waited_ns()) / kNsPerSecond);
  }
  for (MetricFamily* family : {&bytes, &limit, &waits}) families->push_back(std::move(*family));
}

// Of a server that swaps.
void AddSwap(const pb::ServerStatus& status, std::vector<MetricFamily>* families) {
  if (!status.has_swap()) return;
  const pb::SwapFigures& swap = status.swap();
  MetricFamily resident = Family("farcall_device_memory_resident_bytes",
                                 "Of what is charged, on the device", MetricType::Gauge);
  for (const pb::Device& device : status.devices())
    Add(&resident, {{"device", std::to_string(device.index())}, {"uuid", device.uuid()}},
        static_cast<double>(device.memory_resident_bytes()));
  families->push_back(std::move(resident));
  for (auto [name, help, value] :
       {std::tuple("farcall_swap_host_bytes", "Host memory for what is not on its device",
                   swap.host_bytes()),
        std::tuple("farcall_swap_host_used_bytes", "Of it, in use", swap.host_used_bytes())}) {
    MetricFamily family = Family(name, help, MetricType::Gauge);
    Add(&family, {}, static_cast<double>(value));
    families->push_back(std::move(family));
  }
  for (auto [name, help, out, in] :
       {std::tuple("farcall_swaps_total", "Sessions whose memory left the device or came back",
                   static_cast<double>(swap.outs()), static_cast<double>(swap.ins())),
        std::tuple("farcall_swap_bytes_total", "What moved with them",
                   static_cast<double>(swap.out_bytes()), static_cast<double>(swap.in_bytes())),
        std::tuple("farcall_swap_seconds_total", "Time that took",
                   static_cast<double>(swap.out_ns()) / kNsPerSecond,
                   static_cast<double>(swap.in_ns()) / kNsPerSecond)}) {
    MetricFamily family = Family(name, help, MetricType::Counter);
    Add(&family, {{"direction", "out"}}, out);
    Add(&family, {{"direction", "in"}}, in);
    families->push_back(std::move(family));
  }
}

}  // namespace

std::vector<MetricFamily> FamiliesOf(const pb::ServerStatus& whole) {
  std::vector<MetricFamily> families;
  pb::ServerStatus status = whole;
  MetricFamily left_out =
      Family("farcall_vgpus_left_out", "vGPUs without series of their own: there are too many",
             MetricType::Gauge);
  Add(&left_out, {}, std::max(0, status.vgpus_size() - kMaxVgpus));
  if (status.vgpus_size() > kMaxVgpus)
    status.mutable_vgpus()->DeleteSubrange(kMaxVgpus, status.vgpus_size() - kMaxVgpus);
  families.push_back(std::move(left_out));
  MetricFamily up = Family("farcall_up", "Whether the server answers", MetricType::Gauge);
  Add(&up, {{"version", status.version()}, {"kind", status.device_kind()}}, 1);
  families.push_back(std::move(up));
  AddServer(whole, &families);
  AddSwap(status, &families);
  auto each = [&](const std::function<void(const Labels&, const pb::VgpuDevice&)>& use) {
    for (const pb::Vgpu& vgpu : status.vgpus())
      for (const pb::VgpuDevice& device : vgpu.devices())
        use({{"vgpu", vgpu.id()},
             {"owner", vgpu.owner()},
             {"device", std::to_string(device.device())}},
            device);
  };
  for (const VgpuFigure& figure : VgpuFigures()) {
    MetricFamily family = Family(figure.name, figure.help, figure.type);
    each([&](const Labels& labels, const pb::VgpuDevice& device) {
      Add(&family, labels, figure.value(device));
    });
    families.push_back(std::move(family));
  }
  MetricFamily waits =
      Family("farcall_vgpu_throttled_seconds_total",
             "Time with work ready that did not run, by reason", MetricType::Counter);
  each([&](const Labels& labels, const pb::VgpuDevice& device) {
    for (const pb::Wait& wait : device.waits()) {
      Labels with = labels;
      with.push_back({"reason", wait.reason()});
      Add(&waits, std::move(with), static_cast<double>(wait.ns()) / kNsPerSecond);
    }
  });
  families.push_back(std::move(waits));
  AddNetwork(status, &families);
  return families;
}

std::vector<MetricFamily> Metrics::Collect() const {
  Result<pb::ServerStatus> status = supervisor_->Status();
  if (status.ok()) return FamiliesOf(*status);
  MetricFamily up = Family("farcall_up", "Whether the server answers", MetricType::Gauge);
  Add(&up, {}, 0);
  return {up};
}

}  // namespace farcall::control_plane
