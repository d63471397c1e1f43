#include "daemon/metrics/families.hpp"

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

void Families::histogram(const char* name, const char* help, const Labels& labels,
                         const Histogram& histogram, std::uint64_t first, std::uint64_t last,
                         double unit) {
  auto& out = add(name, help, prometheus::MetricType::Histogram, labels).histogram;
  for (std::uint64_t limit = first; limit <= last; limit *= 4)
    out.bucket.push_back({histogram.count_below(limit), static_cast<double>(limit) * unit});
  out.sample_count = histogram.count();
  out.bucket.push_back({out.sample_count, std::numeric_limits<double>::infinity()});
  out.sample_sum = static_cast<double>(histogram.sum()) * unit;
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
