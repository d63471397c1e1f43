// SPDX-License-Identifier: Apache-2.0

// A scrape as Prometheus does it: one HTTP request, the text parsed.
#include "daemon/operate/metrics/exporter.hpp"
#include "daemon/engine/engine.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "daemon/base/unique_fd.hpp"
#include "daemon/device/adapter/setup.hpp"
#include "daemon/frontend/unix/sockets/event_sender.hpp"
#include "daemon/port/memory_port.hpp"
#include "daemon/services/general_services.hpp"
#include "daemon/services/service_places.hpp"

namespace softhca::metrics {
namespace {

/// 127.0.0.1 or, with AF_INET6, ::1.
struct Loopback {
  Loopback(int family, std::uint16_t port) {
    if (family == AF_INET6) {
      v6.sin6_port = htons(port);
      v6.sin6_addr = in6addr_loopback;
    } else {
      v4.sin_port = htons(port);
      v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    any.sa_family = static_cast<sa_family_t>(family);
    length = family == AF_INET6 ? sizeof v6 : sizeof v4;
  }
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6{};
  };
  socklen_t length;
};

/// Returns a TCP port without a listener at the moment, or 0 if the host has no such addresses.
std::uint16_t free_port(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM, 0));
  Loopback address(family, 0);
  if (::bind(fd.get(), &address.any, address.length) != 0) return 0;
  EXPECT_EQ(::getsockname(fd.get(), &address.any, &address.length), 0);
  return ntohs(family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

UniqueFd connect_to(std::uint16_t port, int family = AF_INET) {
  UniqueFd fd(::socket(family, SOCK_STREAM, 0));
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const Loopback address(family, port);
  EXPECT_EQ(::connect(fd.get(), &address.any, address.length), 0);
  return fd;
}

std::string get(std::uint16_t port, const std::string& path, const std::string& method = "GET",
                int family = AF_INET, const std::string& headers = "") {
  const UniqueFd fd = connect_to(port, family);
  const std::string request =
      method + " " + path + " HTTP/1.0\r\nHost: localhost\r\n" + headers + "\r\n";
  EXPECT_EQ(::send(fd.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t got; (got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
    reply.append(buffer, static_cast<std::size_t>(got));
  return reply;
}

/// The text format: families announced once, each sample of the family before it.
/// Distributions come as several samples each.
std::string family_of(const std::string& sample, const std::string& type) {
  if (type != "histogram" && type != "summary") return sample;
  for (const std::string suffix : {"_bucket", "_sum", "_count"})
    if (sample.ends_with(suffix)) return sample.substr(0, sample.size() - suffix.size());
  return sample;
}

struct Scrape {
  explicit Scrape(const std::string& reply) {
    const auto body = reply.find("\r\n\r\n");
    EXPECT_NE(body, std::string::npos);
    std::istringstream in(reply.substr(body + 4));
    std::string family;
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string first, second, third, fourth;
      words >> first >> second >> third >> fourth;
      if (first == "#" && second == "TYPE") {
        family = third;
        EXPECT_TRUE(types.emplace(family, fourth).second) << family << " twice";
      } else if (first == "#") {
        EXPECT_EQ(second, "HELP");
        EXPECT_TRUE(helps.insert(third).second) << third << " twice";
      } else {
        const auto space = line.rfind(' ');
        const std::string name = line.substr(0, space);
        EXPECT_EQ(family_of(name.substr(0, name.find('{')), types[family]), family);
        EXPECT_TRUE(samples.emplace(name, std::stod(line.substr(space + 1))).second)
            << name << " twice";
      }
    }
  }
  /// The sample of a family with these labels, in any order; -1: there is none.
  double value(const std::string& family, const std::set<std::string>& labels) const {
    for (const auto& [name, value] : samples) {
      if (name.substr(0, name.find('{')) != family) continue;
      bool all = true;
      for (const std::string& label : labels) all &= name.find(label) != std::string::npos;
      if (all) return value;
    }
    return -1;
  }
  std::map<std::string, std::string> types;
  std::set<std::string> helps;
  std::map<std::string, double> samples;
};

class ExporterTest : public ::testing::Test {
 protected:
  ExporterTest() {
    auto binding = std::make_unique<engine::PortBinding>();
    binding->name = "wan";
    binding->port = std::move(port::MemoryPort::make_pair().first);
    binding->neighbours = std::make_unique<neighbour::Neighbours>(
        neighbour::Neighbours::Options{}, [](std::span<const std::byte>) {});
    engine.packets().add_port(std::move(binding));
    engine::TenantAllocationChange change;
    tenants = control::make_tenants(config, change);
    EXPECT_TRUE(engine::TenantAllocations(engine).change(change));
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port); }

  const configuration::Config config = configuration::default_config();
  control::EventSender events;
  engine::Engine engine{control::limits_of(config), events};
  engine::Worker worker{engine, {}};
  std::vector<std::unique_ptr<engine::Tenant>> tenants;
  QuotaPool vcbs{config.pools.vcbs};
  configuration::Accounts totals;
  std::vector<management::ConnectionFigures> connections;
  std::mutex tenants_changing;
  const std::unique_ptr<control::GeneralServices> general_services =
      std::move(*control::GeneralServices::open(worker, control::general_services_place(config)));
  const std::unique_ptr<control::GeneralServices> shared_datagrams =
      std::move(*control::GeneralServices::open(worker, control::shared_datagrams_place(config)));
  static ExportedSharedQp exported(control::GeneralServices& services) {
    return {services.counters(), services.tenant(), services.pool_counters(),
            [&services] { return services.clients(); }};
  }
  configuration::ReloadCounters reloads;
  const ExportedData source{engine.view(),
                            worker,
                            tenants,
                            vcbs,
                            totals,
                            connections,
                            tenants_changing,
                            exported(*general_services),
                            exported(*shared_datagrams),
                            reloads,
                            {"1.2.3", "a compiler", "its DPDK"},
                            std::chrono::system_clock::time_point(std::chrono::milliseconds(1500))};
  const std::uint16_t port = free_port(AF_INET);
};

TEST_F(ExporterTest, TellsWhoKnowsTheTokenOnly) {
  const std::string file = testing::TempDir() + "softhca-token-" + std::to_string(::getpid());
  EXPECT_FALSE(Exporter::start(address(), file, source)) << "the file does not exist";
  std::ofstream(file) << "\n";
  EXPECT_FALSE(Exporter::start(address(), file, source)) << "an empty token would be known to all";
  std::ofstream(file) << "se cret\nmore\n";
  const auto exporter = Exporter::start(address(), file, source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  const auto status = [&](const std::string& headers) {
    return get(port, "/metrics", "GET", AF_INET, headers).substr(0, 12);
  };
  EXPECT_EQ(status(""), "HTTP/1.1 401");
  for (const char* wrong :
       {"Bearer", "Bearer ", "Bearer se cre", "Bearer se cret2", "se cret", "Basic se cret"})
    EXPECT_EQ(status("Authorization: " + std::string(wrong) + "\r\n"), "HTTP/1.1 401") << wrong;
  EXPECT_NE(get(port, "/metrics").find("WWW-Authenticate: Bearer"), std::string::npos);
  EXPECT_EQ(status("Authorization: Bearer se cret\r\n"), "HTTP/1.1 200");

  std::ofstream(file) << "other\n";
  EXPECT_EQ(status("Authorization: Bearer se cret\r\n"), "HTTP/1.1 401");
  EXPECT_EQ(status("Authorization: Bearer other\r\n"), "HTTP/1.1 200");
  ::unlink(file.c_str());
  EXPECT_EQ(status("Authorization: Bearer other\r\n"), "HTTP/1.1 401");
  (*exporter)->set_credentials_file("");
  EXPECT_EQ(status(""), "HTTP/1.1 200");
}

TEST_F(ExporterTest, ShowsTheCountersAsTheyStand) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  tenants[1]->counters.commands_vcb.add(42);
  tenants[1]->counters.local_bytes.add(std::uint64_t{1} << 40);
  tenants[0]->counters.queue_pairs.add(3);
  const auto rnr = static_cast<std::size_t>(transport::Count::kRnrNakSent);
  tenants[0]->counters.transport[rnr].add(7);
  engine.ports()[0]->drops.frame[0].add(5);
  configuration::Accounts& accounts = tenants[1]->control.accounts;
  accounts.set_limits(config.tenants[1].limits);
  const auto held = accounts.take(configuration::Kind::kQueuePairs, 2);
  EXPECT_FALSE(accounts.take(configuration::Kind::kQueuePairs, 1 << 20));

  const std::string reply = get(port, "/metrics");
  EXPECT_EQ(reply.substr(0, 15), "HTTP/1.1 200 OK");
  const Scrape scrape(reply);
  const std::set<std::string> a{"tenant=\"a\""};
  const std::set<std::string> b{"tenant=\"b\""};
  EXPECT_EQ(scrape.value("softhca_commands_total", {"tenant=\"b\"", "way=\"vcb\""}), 42);
  EXPECT_EQ(scrape.value("softhca_commands_total", {"tenant=\"a\"", "way=\"vcb\""}), 0);
  EXPECT_EQ(scrape.value("softhca_local_bytes_total", b), 1099511627776.0);
  EXPECT_EQ(scrape.value("softhca_queue_pairs", a), 3);
  EXPECT_EQ(
      scrape.value("softhca_naks_sent_total", {"tenant=\"a\"", "kind=\"receiver_not_ready\""}), 7);
  EXPECT_EQ(scrape.value("softhca_pcbs_guaranteed", a), config.tenants[0].pcbs);
  EXPECT_EQ(scrape.value("softhca_port_dropped_packets_total",
                         {"port=\"wan\"", "reason=\"unknown_address\""}),
            5);

  const std::set<std::string> limited{"tenant=\"b\"", "resource=\"queue_pairs\""};
  EXPECT_EQ(scrape.value("softhca_tenant_limit", limited),
            static_cast<double>(config.tenants[1].limits[configuration::Kind::kQueuePairs]));
  EXPECT_EQ(scrape.value("softhca_tenant_in_use", limited), 2);
  EXPECT_EQ(scrape.value("softhca_tenant_high_water", limited), 2);
  EXPECT_EQ(scrape.value("softhca_tenant_refused_total",
                         {"tenant=\"b\"", "resource=\"queue_pairs\"", "by=\"tenant\""}),
            1);

  EXPECT_EQ(scrape.value("softhca_pool_size", {"pool=\"vcbs\""}), config.pools.vcbs);
  EXPECT_EQ(scrape.value("softhca_pool_size", {"pool=\"pcbs\""}),
            config.pools.pcbs - config.pools.dedicated_pcbs);
  EXPECT_EQ(scrape.value("softhca_dedicated_pcbs", {}), config.pools.dedicated_pcbs);
  EXPECT_EQ(scrape.value("softhca_doorbell_places", {}), config.doorbells.entries);
  // A row for each lane that there is, and none for rows of the table that are not in use.
  std::size_t lanes = 0;
  for (const auto& [name, value] : scrape.samples)
    lanes += name.rfind("softhca_kick_list_limit", 0) == 0;
  EXPECT_EQ(lanes, config.tenants[0].tvls.size() + config.tenants[1].tvls.size() + 2);

  tenants[1]->counters.commands_vcb.add();
  EXPECT_EQ(Scrape(get(port, "/metrics"))
                .value("softhca_commands_total", {"tenant=\"b\"", "way=\"vcb\""}),
            43);
}

TEST_F(ExporterTest, SaysWhatTheDaemonIs) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  reloads.in_force(std::chrono::milliseconds(2500));
  reloads.add(configuration::ReloadOutcome::kNotFree, std::chrono::milliseconds(3000));
  const Scrape scrape(get(port, "/metrics"));
  EXPECT_EQ(scrape.value("softhca_build_info",
                         {"version=\"1.2.3\"", "compiler=\"a compiler\"", "dpdk=\"its DPDK\""}),
            1);
  EXPECT_EQ(scrape.value("process_start_time_seconds", {}), 1.5);
  EXPECT_EQ(scrape.value("softhca_reloads_total", {"result=\"no_room\""}), 1);
  EXPECT_EQ(scrape.value("softhca_reloads_total", {"result=\"success\""}), 0);
  EXPECT_EQ(scrape.value("softhca_config_last_reload_successful", {}), 0);
  EXPECT_EQ(scrape.value("softhca_config_last_reload_success_timestamp_seconds", {}), 2.5);
  reloads.add(configuration::ReloadOutcome::kSuccess, std::chrono::milliseconds(4000));
  const Scrape after(get(port, "/metrics"));
  EXPECT_EQ(after.value("softhca_config_last_reload_successful", {}), 1);
  EXPECT_EQ(after.value("softhca_config_last_reload_success_timestamp_seconds", {}), 4);
}

TEST_F(ExporterTest, SaysWhatFailsAndWhetherPortsAreUp) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  tenants[0]->counters.completion.failed(engine::QpFailure::kRetryExceeded).add(3);
  auto& wan = dynamic_cast<port::MemoryPort&>(*engine.ports()[0]->port);
  const Scrape scrape(get(port, "/metrics"));
  const char* const family = "softhca_tenant_queue_pair_failures_total";
  EXPECT_EQ(scrape.value(family, {"tenant=\"a\"", "cause=\"retry_exceeded\""}), 3);
  EXPECT_EQ(scrape.value(family, {"tenant=\"a\"", "cause=\"remote_access\""}), 0);
  EXPECT_EQ(scrape.value(family, {"tenant=\"a\"", "cause=\"none\""}), -1);
  EXPECT_EQ(scrape.value("softhca_port_up", {"port=\"wan\""}), 1);
  wan.set_link(false);
  EXPECT_EQ(Scrape(get(port, "/metrics")).value("softhca_port_up", {"port=\"wan\""}), 0);
}

TEST_F(ExporterTest, FamiliesAreWellFormed) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  const Scrape scrape(get(port, "/metrics"));
  std::set<std::string> per_tenant;
  for (const auto& [name, value] : scrape.samples) {
    EXPECT_GE(value, 0) << name;
    const std::string family = name.substr(0, name.find('{'));
    if (name.find("tenant=\"a\"") != std::string::npos) per_tenant.insert(family);
  }
  EXPECT_GT(per_tenant.size(), 30u);
  for (const std::string& family : per_tenant)
    EXPECT_GE(scrape.value(family, {"tenant=\"b\""}), 0) << family;
  for (const auto& [family, type] : scrape.types) {
    if (family.rfind("softhca_", 0) != 0) continue;
    const bool total = family.size() > 6 && family.substr(family.size() - 6) == "_total";
    const std::set<std::string> without_total = {"gauge", "histogram", "summary"};
    EXPECT_TRUE(total ? type == "counter" : without_total.contains(type)) << family << ' ' << type;
    EXPECT_TRUE(scrape.helps.contains(family)) << family;
  }
}

TEST_F(ExporterTest, HalfRequestsDoNotKeepOthersOut) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  std::vector<UniqueFd> halves;
  for (int i = 0; i < 80; ++i) {  // more than it takes at once
    halves.push_back(connect_to(port));
    ASSERT_EQ(::send(halves.back().get(), "GET /me", 7, 0), 7);
  }
  EXPECT_NE(get(port, "/metrics").find("softhca_"), std::string::npos);
}

TEST_F(ExporterTest, MoreSlowClientsThanPlaces_TheOldestMakesWay) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  std::vector<UniqueFd> slow;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 64; ++i) {
      slow.push_back(connect_to(port));
      ASSERT_EQ(::send(slow.back().get(), "GET /me", 7, MSG_NOSIGNAL), 7);
    }
    EXPECT_NE(get(port, "/metrics").find("softhca_"), std::string::npos);
  }
  char byte = 0;
  EXPECT_EQ(::recv(slow.front().get(), &byte, 1, 0), 0) << "it was closed";
}

/// Each byte is a sign of life to a timeout of inactivity.
TEST_F(ExporterTest, RequestThatTricklesIn_IsEndedAtItsDeadline) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  const UniqueFd slow = connect_to(port);
  const std::string begin = "GET /metrics HTTP/1.1\r\nX: ";
  ASSERT_EQ(::send(slow.get(), begin.data(), begin.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(begin.size()));
  bool ended = false;
  for (int i = 0; i < 400 && !ended; ++i) {
    char byte = 0;
    ended = ::recv(slow.get(), &byte, 1, MSG_DONTWAIT) == 0 ||
            ::send(slow.get(), "a", 1, MSG_NOSIGNAL) != 1;
    ::usleep(50'000);
  }
  EXPECT_TRUE(ended);
}

TEST_F(ExporterTest, Finishes_WhenThoseWhoConnectedAreAnswered) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  get(port, "/metrics");
  const UniqueFd early = connect_to(port);
  get(port, "/metrics");  // the one before is accepted, too
  std::thread end([&] { (*exporter)->finish(std::chrono::minutes(1)); });
  const auto asks = [](const UniqueFd& fd) {
    const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    return ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(request.size());
  };
  EXPECT_TRUE(asks(early));
  end.join();
  char first[16] = {};
  EXPECT_EQ(::recv(early.get(), first, 15, MSG_WAITALL), 15);
  EXPECT_STREQ(first, "HTTP/1.1 200 OK");
  const UniqueFd late = connect_to(port);  // stays in the backlog
  EXPECT_TRUE(asks(late));
  char byte;
  EXPECT_EQ(::recv(late.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ExporterTest, Finishes_WithoutAnsweringWhoeverAsksNothing) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  const UniqueFd silent = connect_to(port);
  get(port, "/metrics");
  (*exporter)->finish(std::chrono::milliseconds(20));
  char byte;
  EXPECT_EQ(::recv(silent.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ExporterTest, UnixSocket_IsServedBesideTheAddress) {
  sockaddr_un path{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string name = testing::TempDir() + "softhca-metrics-" + std::to_string(::getpid());
  name.copy(path.sun_path, sizeof path.sun_path - 1);
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* const where = reinterpret_cast<const sockaddr*>(&path);
  ASSERT_EQ(::bind(listener.get(), where, sizeof path), 0);
  ASSERT_EQ(::listen(listener.get(), 8), 0);
  const auto exporter = Exporter::start("", "", source, std::move(listener));
  ASSERT_TRUE(exporter) << exporter.error().message;
  ASSERT_NE(*exporter, nullptr);
  const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::connect(client.get(), where, sizeof path), 0);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  ASSERT_EQ(::send(client.get(), request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t got; (got = ::recv(client.get(), buffer, sizeof buffer, 0)) > 0;)
    reply.append(buffer, static_cast<std::size_t>(got));
  ::unlink(name.c_str());
  EXPECT_NE(reply.find("\nsofthca_"), std::string::npos);
}

/// A tenant that opens clients with ever new numbers brings no new series.
TEST_F(ExporterTest, ClientsOfPrograms_AreCountedTogetherAndKeepWhatTheyCounted) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  const auto ignore = [](const engine::Datagram&) {};
  const auto no_news = [](const std::string&, const management::gsa::ShareChange&) {};
  const engine::Tenant& tenant = *tenants[0];
  std::size_t series = 0;
  for (std::uint32_t number = 1; number <= 4; ++number) {
    ASSERT_TRUE(shared_datagrams->add_client(
        tenant, number, {.name = "x" + std::to_string(number), .receive = ignore}));
    worker.await_step();
    shared_datagrams->tick(Time{}, no_news);
    const Scrape scrape(get(port, "/metrics"));
    std::size_t now = 0;
    for (const auto& [name, value] : scrape.samples) now += name.find("gsa_client") != name.npos;
    if (series == 0) series = now;
    EXPECT_EQ(now, series);
    EXPECT_GT(now, 0u);
    const std::set<std::string> of{"queue_pair=\"2\"", "tenant=\"a\"", "class=\"\""};
    EXPECT_EQ(scrape.value("softhca_gsa_client_asked", of),
              config.shared_datagrams.buffers_per_client);
    EXPECT_EQ(scrape.value("softhca_gsa_client_received_total", of), 0);
    shared_datagrams->remove_client(tenant, number);
  }
}

TEST_F(ExporterTest, ServesIpv6) {
  const std::uint16_t port6 = free_port(AF_INET6);
  if (port6 == 0) GTEST_SKIP() << "no IPv6 here";
  const auto exporter = Exporter::start("[::1]:" + std::to_string(port6), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  EXPECT_NE(get(port6, "/metrics", "GET", AF_INET6).find("\nsofthca_"), std::string::npos);
}

TEST_F(ExporterTest, OtherRequestsAreToldSo) {
  const auto exporter = Exporter::start(address(), "", source);
  ASSERT_TRUE(exporter) << exporter.error().message;
  EXPECT_EQ(get(port, "/").substr(0, 12), "HTTP/1.1 404");
  EXPECT_EQ(get(port, "/metrics", "POST").substr(0, 12), "HTTP/1.1 405");
  const std::string head = get(port, "/metrics", "HEAD");
  EXPECT_EQ(head.substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_NE(head.find("text/plain; version=0.0.4"), std::string::npos) << head;
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

TEST_F(ExporterTest, AddressesThatCannotBe) {
  const auto none = Exporter::start("", "", source);
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, nullptr);
  const auto first = Exporter::start(address(), "", source);
  ASSERT_TRUE(first);
  const auto second = Exporter::start(address(), "", source);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message,
            "metrics endpoint " + address() +
                ": Address already in use; choose another metrics.address, or \"\" for none");
  const auto elsewhere = Exporter::start("[2001:db8::1]:" + std::to_string(port), "", source);
  EXPECT_FALSE(elsewhere);
}

}  // namespace
}  // namespace softhca::metrics
