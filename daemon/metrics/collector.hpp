// From the counters of the engine to metric families.
#pragma once

#include <prometheus/collectable.h>

#include <vector>

#include "daemon/metrics/exporter.hpp"

namespace softhca::metrics {

class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(const Source& source) : source_(source) {}
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  Source source_;
};

}  // namespace softhca::metrics
