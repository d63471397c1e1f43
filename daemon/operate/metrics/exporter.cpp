// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/metrics/exporter.hpp"

#include <microhttpd.h>
#include <poll.h>
#include <prometheus/text_serializer.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "daemon/base/kernel_address.hpp"
#include "daemon/base/small_file.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/configuration/address.hpp"
#include "daemon/operate/metrics/collector.hpp"

namespace softhca::metrics {
namespace {

using Clock = std::chrono::steady_clock;

// One thread serves all connections. A client that sends half a request, or does not read the
// reply, keeps its connection until its time limit, or until a new connection needs the slot.
constexpr std::size_t kMostConnections = 64;  // per listener
constexpr int kAcceptsAtOnce = 16;
constexpr std::chrono::seconds kForRequest(2);  // from accept to the last header
constexpr std::chrono::seconds kForReply(10);   // from the last header to the end of the reply
constexpr std::chrono::milliseconds kLook(250);
constexpr int kBacklog = 128;

Expected<UniqueFd> listen_at(const configuration::ListenAddress& where) {
  const KernelAddress address = kernel_address(where.gid, where.port);
  UniqueFd fd(::socket(family_of(where.gid), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;  // connections in TIME-WAIT do not block the address
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

/// Returns the first line of the file.
Expected<std::string> read_token(const std::string& file) {
  constexpr std::size_t kLongest = 65536;
  const auto text = read_small_file(file, kLongest);
  std::string token = text ? text->substr(0, text->find('\n')) : "";
  if (!token.empty()) return token;
  const Error why = text ? Error{"its first line is empty", EINVAL} : text.error();
  return Error{"metrics.credentials_file " + file + ": " + why.message, why.code};
}

/// Compares in a time that does not depend on where the texts differ.
bool is_same(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i)
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  return difference == 0;
}

}  // namespace

struct Exporter::Endpoint {
  Endpoint(const ExportedData& source, std::string at, std::string credentials)
      : collector(source), address(std::move(at)), credentials_file(std::move(credentials)) {}
  ~Endpoint() {
    const std::uint64_t one = 1;
    if (thread.joinable() && ::write(stop.get(), &one, sizeof one) == sizeof one) thread.join();
    if (server != nullptr) MHD_stop_daemon(server);
  }
  bool start();

  /// True if the request has the right bearer token, or needs none. `authorization`: the header of
  /// the request, or null.
  bool lets_in(const char* authorization);
  static MHD_Result answer(void* endpoint, MHD_Connection* connection, const char* url,
                           const char* method, const char* version, const char* upload,
                           std::size_t* upload_size, void** request);
  static void completed(void* endpoint, MHD_Connection* connection, void** request,
                        MHD_RequestTerminationCode code);
  static void notified(void* endpoint, MHD_Connection* connection, void** context,
                       MHD_ConnectionNotificationCode code);

  // --- the thread
  struct Open {
    std::size_t listener = 0;
    Clock::time_point since;   ///< time of accept, or of the last header
    bool has_request = false;  ///< the request is complete, and the reply has not ended
    bool shut_down = false;

    bool overdue(Clock::time_point now) const {
      return now - since >= (has_request ? kForReply : kForRequest);
    }
  };
  void run();
  void accept(std::size_t listener);
  void make_room(std::size_t listener);
  void end_overdue();
  void set_state(MHD_Connection* connection, bool has_request);

  Collector collector;
  const std::string address;
  std::mutex changing;  ///< guards credentials_file
  std::string credentials_file;
  /// At the address and at the Unix socket; either may be empty.
  std::array<UniqueFd, 2> listeners;
  UniqueFd stop{::eventfd(0, EFD_CLOEXEC)};
  MHD_Daemon* server = nullptr;
  std::map<int, Open> open;  ///< by descriptor
  std::thread thread;
};

bool Exporter::Endpoint::start() {
  // The endpoint's thread accepts and limits the connections, so the server never reaches its own
  // limit.
  constexpr unsigned kLimit = 4 * (kMostConnections + kAcceptsAtOnce);
  server =
      MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, nullptr, nullptr, answer, this,
                       MHD_OPTION_CONNECTION_LIMIT, kLimit, MHD_OPTION_NOTIFY_COMPLETED, completed,
                       this, MHD_OPTION_NOTIFY_CONNECTION, notified, this, MHD_OPTION_END);
  if (server == nullptr || !stop) return false;
  thread = std::thread([this] { run(); });
  ::pthread_setname_np(thread.native_handle(), "softhca-metrics");
  return true;
}

void Exporter::Endpoint::run() {
  const int requests = MHD_get_daemon_info(server, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
  for (;;) {
    std::array<pollfd, 4> watched{{{.fd = stop.get(), .events = POLLIN, .revents = 0},
                                   {.fd = requests, .events = POLLIN, .revents = 0},
                                   {.fd = listeners[0].get(), .events = POLLIN, .revents = 0},
                                   {.fd = listeners[1].get(), .events = POLLIN, .revents = 0}}};
    MHD_UNSIGNED_LONG_LONG due = 0;
    std::int64_t wait = open.empty() ? -1 : kLook.count();
    if (MHD_get_timeout(server, &due) == MHD_YES &&
        (wait < 0 || static_cast<std::int64_t>(due) < wait))
      wait = static_cast<std::int64_t>(due);
    ::poll(watched.data(), watched.size(), static_cast<int>(wait));
    if (watched[0].revents != 0) return;
    for (std::size_t i = 0; i < listeners.size(); ++i)
      if (watched[2 + i].revents != 0) accept(i);
    MHD_run(server);
    end_overdue();
  }
}

void Exporter::Endpoint::accept(std::size_t listener) {
  for (int n = 0; n < kAcceptsAtOnce; ++n) {
    sockaddr_storage from{};
    socklen_t length = sizeof from;
    auto* const address_of = reinterpret_cast<sockaddr*>(&from);
    const int fd =
        ::accept4(listeners[listener].get(), address_of, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      // The daemon has no free descriptor, and the listener stays readable. A short sleep avoids a
      // busy loop, and does not delay open connections for long.
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(kLook / 10);
      return;
    }
    make_room(listener);
    open[fd] = {.listener = listener, .since = Clock::now()};
    // The server closed it.
    if (MHD_add_connection(server, fd, address_of, length) != MHD_YES) open.erase(fd);
  }
}

/// Shuts down a connection if the listener has too many: the oldest without a complete request, or
/// else the oldest.
void Exporter::Endpoint::make_room(std::size_t listener) {
  std::size_t connections = 0;
  std::map<int, Open>::value_type* oldest = nullptr;
  for (auto& it : open) {
    if (it.second.listener != listener || it.second.shut_down) continue;
    ++connections;
    const auto age = [](const Open& of) { return std::pair(of.has_request, of.since); };
    if (oldest == nullptr || age(it.second) < age(oldest->second)) oldest = &it;
  }
  if (connections < kMostConnections) return;
  ::shutdown(oldest->first, SHUT_RDWR);  // the server closes it
  oldest->second.shut_down = true;
}

void Exporter::Endpoint::end_overdue() {
  const Clock::time_point now = Clock::now();
  for (auto& [fd, connection] : open) {
    if (connection.shut_down || !connection.overdue(now)) continue;
    ::shutdown(fd, SHUT_RDWR);
    connection.shut_down = true;
  }
}

namespace {

int descriptor_of(MHD_Connection* connection) {
  return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

}  // namespace

void Exporter::Endpoint::set_state(MHD_Connection* connection, bool has_request) {
  const auto found = open.find(descriptor_of(connection));
  if (found == open.end()) return;
  found->second.has_request = has_request;
  found->second.since = Clock::now();
}

void Exporter::Endpoint::completed(void* endpoint, MHD_Connection* connection, void** /*request*/,
                                   MHD_RequestTerminationCode /*code*/) {
  static_cast<Endpoint*>(endpoint)->set_state(connection, false);
}

void Exporter::Endpoint::notified(void* endpoint, MHD_Connection* connection, void** /*context*/,
                                  MHD_ConnectionNotificationCode code) {
  if (code == MHD_CONNECTION_NOTIFY_CLOSED)
    static_cast<Endpoint*>(endpoint)->open.erase(descriptor_of(connection));
}

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
  at.set_state(connection, true);
  const std::string_view verb = method;
  if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD)
    return reply(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is supported\n", "text/plain");
  if (std::string_view(url) != "/metrics")
    return reply(connection, MHD_HTTP_NOT_FOUND, "no such path; the metrics are at /metrics\n",
                 "text/plain");
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
int Exporter::listener() const { return endpoint_->listeners[0].get(); }

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
                                                    const ExportedData& source,
                                                    UniqueFd unix_listener, UniqueFd kept) {
  if (address.empty() && !unix_listener) return std::unique_ptr<Exporter>();
  const auto failed = [&](const std::string& why, int code) {
    return Error{"metrics endpoint " + address + ": " + why +
                     "; choose another metrics.address, or \"\" for none",
                 code};
  };
  if (const auto readable = check_credentials(credentials_file); !readable) return readable.error();
  auto endpoint = std::make_unique<Endpoint>(source, address, credentials_file);
  if (!address.empty()) {
    const auto where = configuration::parse_listen_address(address);
    if (!where) return failed(std::strerror(EINVAL), EINVAL);
    auto listener = kept ? std::move(kept) : listen_at(*where);
    if (!listener) return failed(listener.error().message, listener.error().code);
    endpoint->listeners[0] = std::move(*listener);
  }
  endpoint->listeners[1] = std::move(unix_listener);
  if (!endpoint->start()) return failed("its thread cannot be started", errno);
  return std::unique_ptr<Exporter>(new Exporter(std::move(endpoint)));
}

}  // namespace softhca::metrics
