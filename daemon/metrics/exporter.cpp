#include "daemon/metrics/exporter.hpp"

#include <microhttpd.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

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
  if (status == MHD_HTTP_UNAUTHORIZED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

/// The first line of the file.
Expected<std::string> read_token(const std::string& file) {
  std::string token;
  errno = 0;
  std::ifstream in(file);
  if (!std::getline(in, token) || token.empty()) {
    const int code = errno != 0 ? errno : EINVAL;
    const char* why = errno != 0 ? std::strerror(errno) : "its first line is empty";
    return Error{"metrics.credentials_file " + file + ": " + why, code};
  }
  return token;
}

/// Takes as long whatever differs.
bool is_same(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  return difference == 0;
}

}  // namespace

struct Exporter::Endpoint {
  Endpoint(const Source& source, std::string at, std::string credentials)
      : collector(source), address(std::move(at)), credentials_file(std::move(credentials)) {}
  ~Endpoint() {
    if (server != nullptr) MHD_stop_daemon(server);
  }
  /// `authorization`: the header of a request, or null.
  bool lets_in(const char* authorization);
  static MHD_Result answer(void* endpoint, MHD_Connection* connection, const char* url,
                           const char* method, const char* version, const char* upload,
                           std::size_t* upload_size, void** request);

  Collector collector;
  const std::string address;
  std::mutex changing;  ///< guards credentials_file
  std::string credentials_file;
  MHD_Daemon* server = nullptr;
};

bool Exporter::Endpoint::lets_in(const char* authorization) {
  std::string file;
  {
    const std::lock_guard lock(changing);
    file = credentials_file;
  }
  if (file.empty()) return true;
  const auto token = read_token(file);
  return token && authorization != nullptr && is_same(authorization, "Bearer " + *token);
}

MHD_Result Exporter::Endpoint::answer(void* endpoint, MHD_Connection* connection, const char* url,
                                      const char* method, const char* /*version*/,
                                      const char* /*upload*/, std::size_t* /*upload_size*/,
                                      void** /*request*/) {
  auto& at = *static_cast<Endpoint*>(endpoint);
  const std::string_view verb = method;
  if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD)
    return reply(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is supported\n", "text/plain");
  if (std::string_view(url) != "/metrics")
    return reply(connection, MHD_HTTP_NOT_FOUND, "the metrics are at /metrics\n", "text/plain");
  if (!at.lets_in(
          MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION)))
    return reply(connection, MHD_HTTP_UNAUTHORIZED, "a bearer token is needed\n", "text/plain");
  return reply(connection, MHD_HTTP_OK,
               prometheus::TextSerializer().Serialize(at.collector.collect()),
               "text/plain; version=0.0.4; charset=utf-8");
}

Exporter::Exporter(std::unique_ptr<Endpoint> endpoint) : endpoint_(std::move(endpoint)) {}
Exporter::~Exporter() = default;
const std::string& Exporter::address() const { return endpoint_->address; }

void Exporter::set_credentials_file(std::string file) {
  const std::lock_guard lock(endpoint_->changing);
  endpoint_->credentials_file = std::move(file);
}

Outcome check_credentials(const std::string& file) {
  if (file.empty()) return {};
  const auto token = read_token(file);
  return token ? Outcome() : token.error();
}

Expected<std::unique_ptr<Exporter>> Exporter::start(const std::string& address,
                                                    const std::string& credentials_file,
                                                    const Source& source) {
  if (address.empty()) return std::unique_ptr<Exporter>();
  const auto failed = [&](const std::string& why, int code) {
    return Error{"metrics endpoint " + address + ": " + why +
                     ": choose another metrics.address, or \"\" for none",
                 code};
  };
  if (const auto readable = check_credentials(credentials_file); !readable) return readable.error();
  const auto where = resource::parse_listen_address(address);
  if (!where) return failed(std::strerror(EINVAL), EINVAL);
  auto listener = listen_at(*where);
  if (!listener) return failed(listener.error().message, listener.error().code);
  auto endpoint = std::make_unique<Endpoint>(source, address, credentials_file);
  // The server closes the socket, also where it cannot start.
  endpoint->server = MHD_start_daemon(
      MHD_USE_AUTO_INTERNAL_THREAD, 0, nullptr, nullptr, Endpoint::answer, endpoint.get(),
      MHD_OPTION_LISTEN_SOCKET, listener->release(), MHD_OPTION_CONNECTION_LIMIT, kMostConnections,
      MHD_OPTION_CONNECTION_TIMEOUT, kPatienceSeconds, MHD_OPTION_END);
  if (endpoint->server == nullptr) return failed("its thread cannot be started", errno);
  return std::unique_ptr<Exporter>(new Exporter(std::move(endpoint)));
}

}  // namespace softhca::metrics
