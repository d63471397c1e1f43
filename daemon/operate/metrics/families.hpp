// SPDX-License-Identifier: Apache-2.0

// Collects samples into Prometheus metric families by name.
#pragma once

#include <prometheus/metric_family.h>

#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/base/histogram.hpp"
#include "daemon/counters/counter_table.hpp"

namespace softhca::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

inline Labels with(Labels labels, const char* name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

class Families {
 public:
  void counter(const char* name, const char* help, const Labels& labels, double value) {
    add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
  }
  void gauge(const char* name, const char* help, const Labels& labels, double value) {
    add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
  }
  /// Adds the metrics of a table, with the values in `from`.
  template <class S, std::size_t size>
  void table(const counters::Row<S> (&rows)[size], const S& from, const Labels& labels) {
    for (const counters::Row<S>& row : rows) {
      if (row.metric == nullptr) continue;
      counters::for_each_value(row, from, [&](std::uint64_t count, const char* label) {
        const double value = static_cast<double>(count) * row.also.unit;
        const Labels all = label == nullptr ? labels : with(labels, row.also.label, label);
        if (row.is_counter())
          counter(row.metric, row.help, all, value);
        else
          gauge(row.metric, row.help, all, value);
      });
    }
  }
  /// Adds a histogram. The bucket limits go from `first` to `last` by factors of four. Values are
  /// multiplied by `unit`.
  template <unsigned step_bits>
  void histogram(const char* name, const char* help, const Labels& labels,
                 const LogHistogram<step_bits>& histogram, std::uint64_t first, std::uint64_t last,
                 double unit) {
    auto& out = add(name, help, prometheus::MetricType::Histogram, labels).histogram;
    for (std::uint64_t limit = first; limit <= last; limit *= 4)
      out.bucket.push_back({histogram.count_below(limit), static_cast<double>(limit) * unit});
    out.sample_count = histogram.count();
    out.bucket.push_back({out.sample_count, std::numeric_limits<double>::infinity()});
    out.sample_sum = static_cast<double>(histogram.sum()) * unit;
  }
  /// Adds a histogram of counters: `counts[i]` has the values up to `bounds[i]`, and above the
  /// bound before; the last one has those above all bounds.
  void histogram(const char* name, const char* help, std::span<const double> bounds,
                 std::span<const std::uint64_t> counts, double sum) {
    auto& out = add(name, help, prometheus::MetricType::Histogram, {}).histogram;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      out.sample_count += counts[i];
      out.bucket.push_back({out.sample_count, i < bounds.size()
                                                  ? bounds[i]
                                                  : std::numeric_limits<double>::infinity()});
    }
    out.sample_sum = sum;
  }
  /// Adds a summary with median, 99 % and 99.9 % since the start. Values are multiplied by `unit`.
  void summary(const char* name, const char* help, const Labels& labels, const Histogram& histogram,
               double unit);
  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& add(const char* name, const char* help, prometheus::MetricType type,
                                const Labels& labels);

  std::vector<prometheus::MetricFamily> families_;
  std::unordered_map<std::string_view, std::size_t> places_;  ///< by name; names are static texts
};

}  // namespace softhca::metrics
