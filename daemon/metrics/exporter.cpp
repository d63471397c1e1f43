#include "daemon/metrics/exporter.hpp"

#include <microhttpd.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "daemon/base/kernel_address.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/metrics/collector.hpp"
#include "daemon/resource/address.hpp"

namespace softhca::metrics {
namespace {

// One thread answers all. A client that sends half a request, or does not read the reply, holds one
// of the connections until the time is over.
constexpr unsigned kMostConnections = 64;
constexpr unsigned kPatienceSeconds = 2;
constexpr int kBacklog = 64;

Expected<UniqueFd> listen_at(const resource::ListenAddress& where) {
  const KernelAddress address = kernel_address(where.gid, where.port);
  UniqueFd fd(::socket(family_of(where.gid), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;  // connections that ended do not keep the address
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!fd || ::bind(fd.get(), address.get(), address.length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0)
    return Error{std::strerror(errno), errno};
  return fd;
}

MHD_Result reply(MHD_Connection* connection, unsigned status, std::string text, const char* type) {
  MHD_Response* response =
      MHD_create_response_from_buffer(text.size(), text.data(), MHD_RESPMEM_MUST_COPY);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

MHD_Result answer(void* collector, MHD_Connection* connection, const char* url, const char* method,
                  const char* /*version*/, const char* /*upload*/, std::size_t* /*upload_size*/,
                  void** /*request*/) {
  const std::string_view verb = method;
  if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD)
    return reply(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is supported\n", "text/plain");
  if (std::string_view(url) != "/metrics")
    return reply(connection, MHD_HTTP_NOT_FOUND, "the metrics are at /metrics\n", "text/plain");
  return reply(
      connection, MHD_HTTP_OK,
      prometheus::TextSerializer().Serialize(static_cast<const Collector*>(collector)->collect()),
      "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace

struct Exporter::Endpoint {
  explicit Endpoint(const Source& source) : collector(source) {}
  ~Endpoint() {
    if (server != nullptr) MHD_stop_daemon(server);
  }

  Collector collector;
  MHD_Daemon* server = nullptr;
};

Exporter::Exporter(std::unique_ptr<Endpoint> endpoint) : endpoint_(std::move(endpoint)) {}
Exporter::~Exporter() = default;

Expected<std::unique_ptr<Exporter>> Exporter::start(const std::string& address,
                                                    const Source& source) {
  if (address.empty()) return std::unique_ptr<Exporter>();
  const auto failed = [&](const std::string& why, int code) {
    return Error{"metrics endpoint " + address + ": " + why +
                     ": choose another metrics.address, or \"\" for none",
                 code};
  };
  const auto where = resource::parse_listen_address(address);
  if (!where) return failed(std::strerror(EINVAL), EINVAL);
  auto listener = listen_at(*where);
  if (!listener) return failed(listener.error().message, listener.error().code);
  auto endpoint = std::make_unique<Endpoint>(source);
  // The server closes the socket, also where it cannot start.
  endpoint->server = MHD_start_daemon(
      MHD_USE_AUTO_INTERNAL_THREAD, 0, nullptr, nullptr, answer, &endpoint->collector,
      MHD_OPTION_LISTEN_SOCKET, listener->release(), MHD_OPTION_CONNECTION_LIMIT, kMostConnections,
      MHD_OPTION_CONNECTION_TIMEOUT, kPatienceSeconds, MHD_OPTION_END);
  if (endpoint->server == nullptr) return failed("its thread cannot be started", errno);
  return std::unique_ptr<Exporter>(new Exporter(std::move(endpoint)));
}

}  // namespace softhca::metrics
