// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/metrics/families.hpp"

#include <limits>

namespace softhca::metrics {

prometheus::ClientMetric& Families::add(const char* name, const char* help,
                                        prometheus::MetricType type, const Labels& labels) {
  const auto [place, is_new] = places_.try_emplace(name, families_.size());
  if (is_new) families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
  prometheus::ClientMetric& metric = families_[place->second].metric.emplace_back();
  for (const auto& [label, value] : labels) metric.label.push_back({label, value});
  return metric;
}

void Families::summary(const char* name, const char* help, const Labels& labels,
                       const Histogram& histogram, double unit) {
  auto& out = add(name, help, prometheus::MetricType::Summary, labels).summary;
  for (const double quantile : {0.5, 0.99, 0.999})
    out.quantile.push_back({quantile, unit * static_cast<double>(histogram.quantile(quantile))});
  out.sample_count = histogram.count();
  out.sample_sum = unit * static_cast<double>(histogram.sum());
}

}  // namespace softhca::metrics
