// SPDX-License-Identifier: Apache-2.0

// Scrapes while what they show changes on other threads.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "daemon/counters/tenant_counters.hpp"
#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/metrics/collector.hpp"
#include "daemon/operate/metrics/families.hpp"
#include "daemon/operate/reload/reload.hpp"
#include "tests/folder.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::metrics {
namespace {

/// Does something again and again on a thread of its own.
class Meanwhile {
 public:
  template <class Work>
  explicit Meanwhile(Work&& work)
      : thread_([this, work] {
          while (!over_.load(std::memory_order_relaxed)) work();
        }) {}
  ~Meanwhile() {
    over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

double sum_of(const std::vector<prometheus::MetricFamily>& families, const std::string& name,
              const std::string& label_value) {
  double sum = 0;
  for (const prometheus::MetricFamily& family : families)
    for (const prometheus::ClientMetric& metric : family.metric)
      for (const prometheus::ClientMetric::Label& label : metric.label)
        if (family.name == name && label.value == label_value) sum += metric.counter.value;
  return sum;
}

TEST(Scrapes, RefusalsOfNamedReasonsAreNotAmongTheOthers) {
  engine::Tenant tenant;
  tenant.name = "a";
  Counter& refused = tenant.control.connections
                         .rejects_sent[static_cast<std::size_t>(wire::CmRejectReason::kConsumer)];
  const Meanwhile counting([&] { refused.add(); });
  for (int i = 0; i < 2000; ++i) {
    Families out;
    out.table(counters::kConnections, tenant.control.connections, {});
    ASSERT_EQ(sum_of(out.take(), "softhca_connection_rejects_sent_total", "other"), 0);
  }
}

ExportedSharedQp exported(control::GeneralServices& services) {
  return {services.counters(), services.tenant(), services.pool_counters(),
          [&services] { return services.clients(); }};
}

void expect_distinct(const std::vector<prometheus::MetricFamily>& families) {
  for (const prometheus::MetricFamily& family : families) {
    std::set<std::vector<prometheus::ClientMetric::Label>> seen;
    for (const prometheus::ClientMetric& metric : family.metric)
      EXPECT_TRUE(seen.insert(metric.label).second) << family.name;
  }
}

/// ThreadSanitizer looks on.
TEST(Scrapes, GoOnDuringReloads) {
  const control::Folder folder;
  configuration::Config config = control::small_config();
  config.daemon.runtime_dir = folder.path();
  control::Daemon daemon(config);
  control::Server server(daemon.adapter, *daemon.general_services, *daemon.shared_datagrams);
  ASSERT_TRUE(server.open());
  control::Reloader reloader(daemon.adapter, server, {}, {}, {});
  const Collector collector({daemon.engine.view(),
                             daemon.worker,
                             daemon.adapter.tenants,
                             daemon.adapter.vcbs,
                             daemon.adapter.totals,
                             daemon.adapter.connections,
                             daemon.adapter.tenants_changing,
                             exported(*daemon.general_services),
                             exported(*daemon.shared_datagrams),
                             daemon.adapter.reloads,
                             {},
                             {}});
  std::atomic<unsigned> scrapes{0};
  const Meanwhile scraping([&] {
    const auto families = collector.collect();
    EXPECT_FALSE(families.empty());
    expect_distinct(families);
    ++scrapes;
  });
  configuration::Config divided = config;
  divided.tenants[0].levels = {{.name = "high", .vcbs = 100, .pcbs = 200, .tvls = 2},
                               {.name = "low", .vcbs = 50, .pcbs = 100}};
  divided.tenants[0].levels[1].is_default = true;
  divided.tenants.pop_back();
  for (unsigned i = 0; i < 20 || (scrapes < 20 && i < 2000); ++i) {
    ASSERT_TRUE(reloader.put_into_force(i % 2 == 0 ? divided : config));
    reloader.tick();
  }
}

}  // namespace
}  // namespace softhca::metrics
