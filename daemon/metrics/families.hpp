// Collects samples into Prometheus metric families by name.
#pragma once

#include <prometheus/metric_family.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace softhca::metrics {

using Labels = std::vector<std::pair<std::string, std::string>>;

class Families {
 public:
  void counter(const char* name, const char* help, const Labels& labels, double value) {
    add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
  }
  void gauge(const char* name, const char* help, const Labels& labels, double value) {
    add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
  }
  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& add(const char* name, const char* help, prometheus::MetricType type,
                                const Labels& labels);

  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace softhca::metrics
