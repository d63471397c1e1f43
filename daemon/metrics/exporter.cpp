#include "daemon/metrics/exporter.hpp"

#include <netdb.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "daemon/base/unique_fd.hpp"
#include "daemon/metrics/collector.hpp"

namespace softhca::metrics {

namespace {

/// The library does not tell why it could not listen, so the socket is asked. Empty when it can be
/// bound (now). `address` is like 127.0.0.1:9465 or [::1]:9465.
std::string why_not_bound(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return {};
  std::string host = address.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0) return {};
  std::string why;
  const UniqueFd probe(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;  // as the library does, so that connections that ended do not count
  ::setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(probe.get(), found->ai_addr, found->ai_addrlen) != 0) why = std::strerror(errno);
  ::freeaddrinfo(found);
  return why;
}

}  // namespace

struct Exporter::Endpoint {
  std::shared_ptr<Collector> collector;
  prometheus::Exposer exposer;
};

Exporter::Exporter(std::unique_ptr<Endpoint> endpoint) : endpoint_(std::move(endpoint)) {}
Exporter::~Exporter() = default;

Expected<std::unique_ptr<Exporter>> Exporter::start(const std::string& address,
                                                    const Source& source) {
  if (address.empty()) return std::unique_ptr<Exporter>();
  // One that sends half a request takes a thread until the time is over; the others still answer.
  const std::vector<std::string> options = {"listening_ports",    address, "num_threads", "4",
                                            "request_timeout_ms", "1000"};
  try {
    auto endpoint = std::unique_ptr<Endpoint>(
        new Endpoint{std::make_shared<Collector>(source), prometheus::Exposer(options)});
    endpoint->exposer.RegisterCollectable(endpoint->collector);
    return std::unique_ptr<Exporter>(new Exporter(std::move(endpoint)));
  } catch (const std::exception& failure) {
    const std::string why = why_not_bound(address);
    return Error{"metrics endpoint " + address + ": " + (why.empty() ? failure.what() : why) +
                 ": choose another metrics.address, or \"\" for none"};
  }
}

}  // namespace softhca::metrics
