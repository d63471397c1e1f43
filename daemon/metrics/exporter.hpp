// The Prometheus endpoint: every scrape reads the counters as they stand.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/engine/datagram_service.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/engine/worker.hpp"
#include "daemon/management/connection_figures.hpp"
#include "daemon/resource/reload_counters.hpp"

namespace softhca::metrics {

/// What is shown of the general services agent, or of the queue pair for programs.
struct GeneralServices {
  const engine::DatagramServiceCounters& counters;
  const engine::Tenant& tenant;  ///< what it is to the engine
  const management::gsa::PoolCounters& pool;
  std::function<std::vector<management::gsa::ClientView>()> clients;  ///< on any thread
};

/// What the daemon was built of.
struct BuildInfo {
  const char* version = "";
  const char* compiler = "";
  const char* dpdk = "";
};

/// What is exported. All of it outlives the exporter.
struct Source {
  const engine::Engine& engine;
  const engine::Worker& worker;
  const std::vector<std::unique_ptr<engine::Tenant>>& tenants;
  const QuotaPool& vcbs;
  const resource::Accounts& totals;  ///< of what tenants take as they ask for it
  const std::vector<management::ConnectionFigures>& connections;
  std::mutex& tenants_changing;  ///< held to change `tenants` or `connections`
  GeneralServices general_services;
  GeneralServices shared_datagrams;
  const resource::ReloadCounters& reloads;
  const engine::Faults& faults;
  BuildInfo build;
  std::chrono::system_clock::time_point started;  ///< the daemon
  /// Its table changes as `tenants` does. Null: nothing of it is shown.
  const engine::PeerAuthentication* authentication = nullptr;
  const Counter* dropped_log_lines = nullptr;  ///< null: none are
};

class Exporter {
 public:
  /// Listens at `address` ("127.0.0.1:9465"); an empty one is none. Null: nothing to listen at.
  /// `credentials_file`: whose first line a client has to give as bearer token (RFC 6750, section
  /// 2.1), read at each request; empty: none is needed. Errors: the address is taken or not ours,
  /// or the file has no such line. `unix_listener`: a listening Unix stream socket that is served
  /// as well, with places of its own; it may be shared with another exporter. Empty: none.
  static Expected<std::unique_ptr<Exporter>> start(const std::string& address,
                                                   const std::string& credentials_file,
                                                   const Source& source,
                                                   UniqueFd unix_listener = UniqueFd());
  ~Exporter();

  const std::string& address() const;
  /// From the next request on.
  void set_credentials_file(std::string file);

 private:
  struct Endpoint;
  explicit Exporter(std::unique_ptr<Endpoint> endpoint);
  std::unique_ptr<Endpoint> endpoint_;
};

/// Error: the file, if one is named, cannot be read, or its first line is empty.
Outcome check_credentials(const std::string& file);

}  // namespace softhca::metrics
