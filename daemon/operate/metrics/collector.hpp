// SPDX-License-Identifier: Apache-2.0

// Converts the engine's counters to metric families.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "daemon/operate/metrics/exporter.hpp"

namespace softhca::metrics {

class Collector {
 public:
  explicit Collector(const ExportedData& source) : source_(source) {}
  std::vector<prometheus::MetricFamily> collect() const;

 private:
  ExportedData source_;
};

}  // namespace softhca::metrics
