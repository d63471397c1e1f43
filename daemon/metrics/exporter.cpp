#include "daemon/metrics/exporter.hpp"

#include <prometheus/exposer.h>

#include <exception>

#include "daemon/metrics/collector.hpp"

namespace softhca::metrics {

struct Exporter::Endpoint {
  std::shared_ptr<Collector> collector;
  prometheus::Exposer exposer;
};

Exporter::Exporter(std::unique_ptr<Endpoint> endpoint) : endpoint_(std::move(endpoint)) {}
Exporter::~Exporter() = default;

Expected<std::unique_ptr<Exporter>> Exporter::start(const std::string& address,
                                                    const Source& source) {
  if (address.empty()) return std::unique_ptr<Exporter>();
  constexpr std::size_t kThreads = 1;
  try {
    auto endpoint = std::unique_ptr<Endpoint>(
        new Endpoint{std::make_shared<Collector>(source), prometheus::Exposer(address, kThreads)});
    endpoint->exposer.RegisterCollectable(endpoint->collector);
    return std::unique_ptr<Exporter>(new Exporter(std::move(endpoint)));
  } catch (const std::exception& failure) {
    return Error{"metrics endpoint " + address + ": " + failure.what() +
                 ": choose another metrics.address, or \"\" for none"};
  }
}

}  // namespace softhca::metrics
