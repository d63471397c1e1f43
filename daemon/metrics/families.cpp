#include "daemon/metrics/families.hpp"

namespace softhca::metrics {

prometheus::ClientMetric& Families::add(const char* name, const char* help,
                                        prometheus::MetricType type, const Labels& labels) {
  prometheus::MetricFamily* family = nullptr;
  for (auto& candidate : families_)
    if (candidate.name == name) family = &candidate;
  if (family == nullptr) {
    families_.push_back({});
    family = &families_.back();
    family->name = name;
    family->help = help;
    family->type = type;
  }
  family->metric.emplace_back();
  prometheus::ClientMetric& metric = family->metric.back();
  for (const auto& [label, value] : labels) metric.label.push_back({label, value});
  return metric;
}

}  // namespace softhca::metrics
