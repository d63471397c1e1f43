// SPDX-License-Identifier: Apache-2.0

// The Prometheus endpoint. Every scrape reads the current counters.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/configuration/resource_manager/reload_counters.hpp"
#include "daemon/engine/datagrams/shared_qp.hpp"
#include "daemon/engine/view.hpp"
#include "daemon/engine/worker.hpp"
#include "daemon/keeper/handover.hpp"
#include "daemon/roce/rdma_cm/connection_figures.hpp"

namespace softhca::metrics {

/// The exported data of the general services agent, or of the queue pair for programs.
struct ExportedSharedQp {
  const engine::SharedQpCounters& counters;
  const engine::Tenant& tenant;  ///< the engine's tenant for the queue pair
  const management::gsa::PoolCounters& pool;
  std::function<std::vector<management::gsa::ClientView>()> clients;  ///< callable on any thread
};

/// The versions that the daemon was built from.
struct BuildInfo {
  const char* version = "";
  const char* compiler = "";
  const char* dpdk = "";
};

/// The exported data. All of it outlives the exporter.
struct ExportedData {
  engine::EngineView engine;
  const engine::Worker& worker;
  const std::vector<std::unique_ptr<engine::Tenant>>& tenants;
  const QuotaPool& vcbs;
  const configuration::Accounts& totals;  ///< of objects that tenants take on request
  const std::vector<management::ConnectionFigures>& connections;
  std::mutex& tenants_changing;  ///< guards `tenants` and `connections`
  ExportedSharedQp general_services;
  ExportedSharedQp shared_datagrams;
  const configuration::ReloadCounters& reloads;
  BuildInfo build;
  std::chrono::system_clock::time_point started;  ///< start of the daemon
  const Counter* dropped_log_lines = nullptr;     ///< null: not exported
  const keeper::Restarts* restarts = nullptr;     ///< likewise
};

class Exporter {
 public:
  /// Listens at `address` ("127.0.0.1:9465"; empty: at no address). Returns null if there is
  /// nothing to listen at.
  /// `credentials_file`: a client has to send the first line of this file as bearer token (RFC
  /// 6750, section 2.1). The exporter reads the file at each request. Empty: no token is needed.
  /// `unix_listener`: a listening Unix stream socket that the exporter serves as well, with
  /// connection slots of its own. Another exporter may share it. Empty: none.
  /// `kept`: a socket that listens at the address already. Empty: none.
  /// Errors: the address is in use or not a local one, or the file has no such line.
  static Expected<std::unique_ptr<Exporter>> start(const std::string& address,
                                                   const std::string& credentials_file,
                                                   const ExportedData& source,
                                                   UniqueFd unix_listener = UniqueFd(),
                                                   UniqueFd kept = UniqueFd());
  ~Exporter();

  const std::string& address() const;
  /// Returns the socket that listens at the address. Negative: none does.
  int listener() const;
  /// Takes effect at the next request.
  void set_credentials_file(std::string file);

 private:
  struct Endpoint;
  explicit Exporter(std::unique_ptr<Endpoint> endpoint);
  std::unique_ptr<Endpoint> endpoint_;
};

/// Returns an error if a file is named, and cannot be read or has an empty first line.
Outcome check_credentials(const std::string& file);

}  // namespace softhca::metrics
