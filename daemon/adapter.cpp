// SPDX-License-Identifier: Apache-2.0

// The adapter, as a library that the keeper loads: the composition root.
#include <fcntl.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/config_loader.hpp"
#include "daemon/device/adapter/adjuster.hpp"
#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/device/adapter/event_report.hpp"
#include "daemon/device/adapter/log.hpp"
#include "daemon/device/adapter/setup.hpp"
#include "daemon/device/session/restore_sessions.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/engine/records/system_clock.hpp"
#include "daemon/engine/requests/restore_requests.hpp"
#include "daemon/engine/worker.hpp"
#include "daemon/frontend/unix/server/listeners.hpp"
#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/frontend/unix/sockets/descriptors.hpp"
#include "daemon/frontend/unix/sockets/event_sender.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"
#include "daemon/keeper/fault_signals.hpp"
#include "daemon/keeper/keeper_link.hpp"
#include "daemon/operate/admin/admin_restarts.hpp"
#include "daemon/operate/metrics/exporter.hpp"
#include "daemon/operate/reload/config_json.hpp"
#include "daemon/operate/reload/config_watch.hpp"
#include "daemon/operate/reload/reload.hpp"
#include "daemon/operate/reload/reload_state.hpp"
#include "daemon/options.hpp"
#include "daemon/services/general_services.hpp"
#include "daemon/services/service_places.hpp"

namespace softhca {
namespace {

constexpr int kExitConfig = 2;
constexpr int kExitSetup = 1;
constexpr std::chrono::milliseconds kForLastScrapes(100);  // of an adapter that retires

int fail(const Error& error, int code) {
  if (control::stderr_is_journal())
    spdlog::error("{}", error.message);
  else
    control::print_failure(error.message);
  sd_notifyf(0, "STATUS=%s\nERRNO=%d", error.message.c_str(), error.code);
  return code;
}

/// Blocks signals before any thread starts, so that all threads inherit the mask: the control
/// thread takes signals by signalfd.
void block_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // Signals that would end the daemon without a message, and leave its sockets behind.
  for (const int signal : {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGXFSZ})
    ::signal(signal, SIG_IGN);
}

engine::EngineLimits limits_of(const configuration::Config& config) {
  engine::EngineLimits limits = control::limits_of(config);
  std::random_device random;
  limits.qpn_seed = std::uint64_t{random()} << 32 | random() | 1;
  return limits;
}

/// "1 port", "2 ports".
std::string counted(std::size_t count, const char* thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

metrics::ExportedData source_of(control::Adapter& adapter,
                                control::GeneralServices& general_services,
                                control::GeneralServices& shared_datagrams,
                                const keeper::Restarts& restarts) {
  const auto exported = [](control::GeneralServices& services) {
    return metrics::ExportedSharedQp{.counters = services.counters(),
                                     .tenant = services.tenant(),
                                     .pool = services.pool_counters(),
                                     .clients = [&services] { return services.clients(); }};
  };
  return {.engine = adapter.engine,
          .worker = adapter.worker,
          .tenants = adapter.tenants,
          .vcbs = adapter.vcbs,
          .totals = adapter.totals,
          .connections = adapter.connections,
          .tenants_changing = adapter.tenants_changing,
          .general_services = exported(general_services),
          .shared_datagrams = exported(shared_datagrams),
          .reloads = adapter.reloads,
          .build = {.version = SOFTHCA_VERSION, .compiler = SOFTHCA_COMPILER, .dpdk = SOFTHCA_DPDK},
          .started = adapter.lineage.started.time,
          .dropped_log_lines = &control::dropped_log_lines(),
          .restarts = &restarts};
}

/// A Unix socket for the metrics beside their address, for programs that may open the admin socket.
/// Other users of the address cannot block it.
class MetricsSocket {
 public:
  MetricsSocket() = default;
  MetricsSocket(const MetricsSocket&) = delete;
  MetricsSocket& operator=(const MetricsSocket&) = delete;
  ~MetricsSocket() {
    if (listener_) ::unlink(path_.c_str());
  }
  void open(const configuration::Config& config, control::KeptDescriptors& kept) {
    path_ = config.daemon.runtime_dir + "/metrics.sock";
    const configuration::SocketConfig& socket = config.admin.socket;
    auto opened = control::take_up_or_listen(kept, path_, {socket.owner, socket.group, socket.mode},
                                             SOCK_STREAM);
    if (!opened)
      return spdlog::warn("the daemon serves no metrics on a Unix socket: {}",
                          opened.error().message);
    listener_ = std::move(opened->socket);
    kept_ = std::move(opened->kept);
  }
  /// Returns a duplicate of the listening socket; empty if it could not be opened.
  UniqueFd share() const { return UniqueFd(::fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0)); }

 private:
  std::string path_;
  UniqueFd listener_;
  control::KeptDescriptor kept_;
};

/// The metrics endpoint, of which the socket at its address outlives the adapter.
struct MetricsEndpoint {
  std::unique_ptr<metrics::Exporter> exporter;  ///< null: none
  control::KeptDescriptor kept;
};

Expected<MetricsEndpoint> start_metrics(const configuration::MetricsConfig& config,
                                        const MetricsSocket& socket,
                                        const metrics::ExportedData& source,
                                        control::KeptDescriptors& kept) {
  constexpr auto kKind = records::Kind::kMetricsAddress;
  MetricsEndpoint endpoint;
  auto exporter =
      metrics::Exporter::start(config.address, config.credentials_file, source, socket.share(),
                               kept.take_earlier(kKind, config.address));
  if (!exporter) return exporter.error();
  endpoint.exporter = std::move(*exporter);
  if (config.address.empty()) return endpoint;
  auto keeping = kept.keep(kKind, config.address, endpoint.exporter->listener());
  if (!keeping) return keeping.error();
  endpoint.kept = std::move(*keeping);
  return endpoint;
}

/// Opens the metrics endpoint in `endpoint`.
Outcome open_metrics(const configuration::Config& config, const metrics::ExportedData& source,
                     control::KeptDescriptors& kept, MetricsSocket& socket,
                     MetricsEndpoint& endpoint) {
  socket.open(config, kept);
  auto started = start_metrics(config.metrics, socket, source, kept);
  if (!started && !config.metrics.chosen) {
    // The default address is the same for the whole machine, on which several users may each run a
    // daemon.
    spdlog::warn("the daemon serves no metrics at an address: {}", started.error().message);
    started = start_metrics({.address = ""}, socket, source, kept);
  }
  if (!started) return started.error();
  endpoint = std::move(*started);
  return {};
}

/// Returns the function that moves the endpoint. All arguments must outlive it.
control::MoveMetrics move_metrics(MetricsEndpoint& endpoint, const MetricsSocket& socket,
                                  const metrics::ExportedData& source,
                                  control::KeptDescriptors& kept) {
  return [&](const configuration::MetricsConfig& to) -> Expected<control::ReplaceMetrics> {
    metrics::Exporter* const exporter = endpoint.exporter.get();
    if (exporter != nullptr && exporter->address() == to.address) {
      if (const auto readable = metrics::check_credentials(to.credentials_file); !readable)
        return readable.error();
      return control::ReplaceMetrics(
          [exporter, file = to.credentials_file] { exporter->set_credentials_file(file); });
    }
    auto moved = start_metrics(to, socket, source, kept);
    if (!moved) return moved.error();
    const auto next = std::make_shared<MetricsEndpoint>(std::move(*moved));
    return control::ReplaceMetrics([&endpoint, next] { std::swap(endpoint, *next); });
  };
}

/// Reloads when a file of the configuration has changed. If that is refused, it reloads again each
/// time a tenant that left has drained, since that tenant may have been the reason.
class WatchedFiles {
 public:
  explicit WatchedFiles(std::string config_file) : file_(std::move(config_file)), watch_({file_}) {}
  /// Has the next tick reload what was written while adapters changed.
  void expect(const configuration::Config& in_force, const configuration::ConfigLoader& loader) {
    const auto now = loader.load();
    missed_ = !now || control::to_json(*now) != control::to_json(in_force);
  }
  void tick(control::Reloader& reloader) {
    std::vector<std::string> files = {file_};
    for (const auto& peer : reloader.layers().file().peers)
      if (!peer.key_file.empty()) files.push_back(peer.key_file);
    const std::size_t draining = reloader.draining();
    const bool has_drained = draining < std::exchange(draining_, draining);
    if (watch_.changed(files) || std::exchange(missed_, false))
      spdlog::info("{} or a key file has changed: reloading", file_);
    else if (refused_ && has_drained)
      spdlog::info("a tenant has left: reloading");
    else
      return;
    refused_ = !reloader.reload();
  }

 private:
  std::string file_;
  control::ConfigWatch watch_;
  bool missed_ = false;       ///< a change before the first tick
  bool refused_ = false;      ///< the last reload
  std::size_t draining_ = 0;  ///< tenants, at the last tick
};

void connect(control::Server& server, control::Reloader& reloader, control::Adjuster& adjuster,
             engine::Worker& worker, std::optional<WatchedFiles>& watched) {
  server.on_reload([&] { reloader.reload(); });
  server.on_tick([&] {
    reloader.tick();
    adjuster.tick();
    // An engine that sleeps although there is something to do gives no sign of it. This thread then
    // waits, which the keeper sees.
    worker.await_step();
    if (watched) watched->tick(reloader);
  });
  control::add_reload_methods(server.admin_methods(), reloader);
  control::add_tenant_methods(server.admin_methods(), reloader);
  control::add_revision_methods(server.admin_methods(), reloader);
  server.on_own_requests([&](control::AdminMethods& methods, const engine::Tenant& tenant) {
    control::add_sub_allocation_methods(methods, reloader, tenant);
  });
}

/// What outlives this adapter, and what an earlier one left.
struct Outliving {
  explicit Outliving(keeper::KeeperLink& link) : keeper(link), records(&link) {}
  Outcome adopt() {
    if (auto adopted = records.adopt(); !adopted) return adopted;
    left = records.take_adopted();
    if (auto adopted = kept.adopt(left); !adopted) return adopted;
    auto state = control::read_state(kept);
    if (!state) return state.error();
    configuration = std::move(*state);
    return {};
  }
  /// Reports a failure, and returns the exit code. If the keeper starts another adapter then, this
  /// one ends here and destroys nothing: that would end what the next one takes up.
  int fail(const Error& error, int code = kExitSetup) {
    softhca::fail(error, code);
    if (!keeper.is_replaceable()) return code;
    log_thread.reset();
    std::_Exit(code);
  }

  keeper::KeeperLink& keeper;
  std::optional<control::LogThread> log_thread;
  records::RecordStore records;
  std::vector<records::Adopted> left;
  control::KeptDescriptors kept{&keeper, records};
  std::optional<control::ReloadState> configuration;
};

/// Returns the memory of the earlier engine, or new memory that the next one gets.
Expected<SealedMemory> engine_memory(Keeping& keeping, const engine::EngineLimits& limits) {
  using engine::DurableState;
  const DurableState::Sizes sizes = engine::durable_sizes(limits);
  const KeptId earlier = keeping.find(KeptRole::kEngine);
  auto memory = earlier != 0
                    ? SealedMemory::adopt(keeping, earlier)
                    : SealedMemory::create("softhca-engine", DurableState::bytes_for(sizes));
  if (!memory) return memory;
  if (earlier == 0) {
    const auto kept = memory->keep(&keeping, KeptRole::kEngine);
    return kept ? std::move(memory) : Expected<SealedMemory>(kept.error());
  }
  const auto left = DurableState::check({memory->base(), memory->bytes()});
  if (!left) return left.error();
  if (!(*left == sizes)) return Error{"the earlier engine has tables of other sizes", EINVAL};
  return memory;
}

/// Checks that the daemon may start, and makes its helper processes. REQUIRES: there is one thread.
Expected<std::shared_ptr<const control::HelperProcesses>> prepare(
    const configuration::Config& config, const control::KeptDescriptors& kept) {
  if (const auto raised = control::raise_descriptor_limit(); !raised) return raised.error();
  if (const auto free = control::check_free(config, kept); !free) return free.error();
  return control::HelperProcesses::start();
}

/// Goes on with the journal of an earlier adapter, and puts the configuration into force.
Outcome start(control::Adapter& adapter, Outliving& outliving, control::EventReport& report,
              const control::KernelGuards& guards) {
  adapter.journal.tell(
      [&](const control::JournalEntry& entry) { report.report(entry, control::now()); });
  if (auto kept = adapter.journal.keep(outliving.records, outliving.left); !kept) return kept;
  return control::start(adapter, guards);
}

/// Opens the sockets, and takes up the connections of an earlier adapter.
Outcome open(control::Server& server, control::Adapter& adapter, Outliving& outliving,
             const metrics::ExportedData& source, MetricsSocket& metrics_socket,
             MetricsEndpoint& endpoint) {
  if (auto opened = server.open(); !opened) return opened;
  if (auto opened = open_metrics(adapter.config, source, adapter.kept, metrics_socket, endpoint);
      !opened)
    return opened;
  const Subject culprit = outliving.keeper.culprit();
  adapter.culprit = control::connection_of(culprit, outliving.left);
  if (auto restored = server.restore(outliving.left); !restored) return restored;
  outliving.left.clear();
  adapter.worker.run(engine::EndRestoring{culprit});
  outliving.records.end_restoring();
  outliving.keeper.drop_rest();
  return {};
}

/// Without the keeper this adapter ends, too: no process would start the next one.
void take_order(keeper::KeeperLink& keeper, control::Server& server,
                control::AdminRestarts& restarts) {
  const auto order = keeper.take_order();
  if (!order) {
    spdlog::error("the keeper has gone: stopping");
    server.stop(control::Server::End::kOrderly);
  } else if (order->kind == keeper::OrderKind::kRefuseUpgrade) {
    spdlog::error("no upgrade: {}", order->text);
    restarts.refuse(order->text);
  } else if (order->kind == keeper::OrderKind::kRetire) {
    server.stop(control::Server::End::kRetire);
  }
}

/// Starts both threads' signs of life, and the engine.
Outcome start_turns(keeper::KeeperLink& keeper, control::Server& server, engine::Worker& worker,
                    control::AdminRestarts& restarts) {
  restarts.add_to(server.admin_methods());
  server.admin_view().show("restarts", [&restarts] { return restarts.show(); });
  auto followed = server.follow(keeper.control_pulse(), keeper.orders(),
                                [&] { take_order(keeper, server, restarts); });
  return followed ? worker.start() : followed;
}

/// Serves until the adapter ends. An adapter that retires destroys nothing: that would end what the
/// next one takes up.
int run(control::Server& server, control::Adapter& adapter, Outliving& outliving,
        const control::AdminRestarts& restarts, MetricsEndpoint& endpoint) {
  keeper::KeeperLink& keeper = outliving.keeper;
  const configuration::Config& config = adapter.config;
  spdlog::info("ready: {}, {}, runtime directory {}", counted(config.tenants.size(), "tenant"),
               counted(config.ports.size(), "port"), config.daemon.runtime_dir);
  keeper.ready();
  restarts.report();

  const auto ended = server.run();
  if (!ended) return outliving.fail(ended.error());
  if (*ended == control::Server::End::kRetire) {
    if (endpoint.exporter != nullptr) endpoint.exporter->finish(kForLastScrapes);
    adapter.worker.run(engine::RetireEngine{});
    adapter.worker.stop();
    keeper.retired();
  }
  sd_notify(0, "STOPPING=1");
  adapter.worker.stop();
  return 0;
}

/// Returns the identity of an earlier adapter: that of a new one changes with the link addresses of
/// its ports.
std::uint64_t identity_after(const Outliving& outliving, const configuration::Config& config,
                             const engine::EngineView& view) {
  const std::optional<control::ReloadState>& earlier = outliving.configuration;
  return earlier && earlier->identity != 0 ? earlier->identity : control::identity_of(config, view);
}

control::Lineage lineage_after(const std::optional<control::ReloadState>& earlier) {
  if (!earlier) return {.version = SOFTHCA_VERSION};
  return {
      .version = SOFTHCA_VERSION, .earlier_version = earlier->version, .started = earlier->started};
}

/// Runs the daemon. `layers`: the sources of `config`. `watched`: files to watch, if any.
int serve(const configuration::Config& config, configuration::ConfigLoader loader,
          control::Layers layers, std::optional<WatchedFiles> watched, const std::string& libraries,
          Outliving& outliving) {
  keeper::KeeperLink& keeper = outliving.keeper;
  const auto helpers = prepare(config, outliving.kept);
  if (!helpers) return outliving.fail(helpers.error());
  outliving.log_thread.emplace();
  control::EventSender events;
  const engine::EngineLimits limits = limits_of(config);
  const auto memory = engine_memory(keeper, limits);
  if (!memory) return outliving.fail(memory.error());
  engine::Engine engine(limits, events, {memory->base(), memory->bytes()});
  engine.clock().now = engine::monotonic_time();  // of what is restored
  engine::TenantAllocations allocations(engine);
  engine::Worker worker(engine, {.cpu = config.daemon.engine_cpu, .pulse = &keeper.engine_pulse()});
  const auto ports = control::open_ports(config, worker, outliving.kept);
  if (!ports) return outliving.fail(ports.error());
  auto guards = control::guard_addresses(config, outliving.kept);
  if (!guards) return outliving.fail(guards.error());
  control::Adapter adapter{.config = config,
                           .engine = engine.view(),
                           .worker = worker,
                           .allocations = allocations,
                           .vcbs = QuotaPool(config.pools.vcbs),
                           .helpers = *helpers,
                           .keeping = &keeper,
                           .records = &outliving.records,
                           .kept = std::move(outliving.kept),
                           .pulse = &keeper.control_pulse(),
                           .lineage = lineage_after(outliving.configuration),
                           .libraries = libraries,
                           .identity = identity_after(outliving, config, engine.view())};
  control::EventReport report;
  if (const auto started = start(adapter, outliving, report, *guards); !started)
    return outliving.fail(started.error());
  const auto general_services = control::GeneralServices::open(
      worker, control::general_services_place(config), config.general_services);
  if (!general_services) return outliving.fail(general_services.error());
  const auto shared_datagrams = control::GeneralServices::open(
      worker, control::shared_datagrams_place(config), config.shared_datagrams);
  if (!shared_datagrams) return outliving.fail(shared_datagrams.error());
  const metrics::ExportedData source =
      source_of(adapter, **general_services, **shared_datagrams, keeper.restarts());
  MetricsSocket metrics_socket;
  MetricsEndpoint endpoint;

  control::Server server(adapter, **general_services, **shared_datagrams);
  control::Reloader reloader(adapter, server, std::move(*guards), std::move(loader),
                             move_metrics(endpoint, metrics_socket, source, adapter.kept),
                             std::move(layers), std::move(outliving.configuration));
  control::Adjuster adjuster(adapter);
  connect(server, reloader, adjuster, worker, watched);
  const auto opened = open(server, adapter, outliving, source, metrics_socket, endpoint);
  if (!opened) return outliving.fail(opened.error());
  reloader.resume();
  control::AdminRestarts restarts(keeper, adapter);
  if (const auto started = start_turns(keeper, server, worker, restarts); !started)
    return outliving.fail(started.error());
  return run(server, adapter, outliving, restarts, endpoint);
}

int run(const keeper::Handover& handover, int argc, char** argv) {
  keeper::KeeperLink keeper(handover);
  keeper::show_fault_signals(keeper.engine_pulse(), keeper.control_pulse());
  const Options options = read_options(argc, argv);
  if (options.exit_code) return *options.exit_code;

  control::open_log(control::stderr_is_journal(), STDOUT_FILENO);
  const configuration::ConfigLoader loader(options.config_file, options.settings);
  std::optional<WatchedFiles> watched;
  if (options.watch_config) watched.emplace(options.config_file);  // before the file is read
  Outliving outliving(keeper);
  if (const auto adopted = outliving.adopt(); !adopted) return outliving.fail(adopted.error());
  const auto& earlier = outliving.configuration;
  if (earlier && watched) watched->expect(earlier->file, loader);
  auto config = earlier ? earlier->file : loader.load();
  if (!config) return outliving.fail(config.error(), kExitConfig);
  if (options.check_config) {
    std::printf("%s: good\n", loader.name().c_str());
    return 0;
  }
  control::Layers layers = earlier ? control::Layers(*earlier, earlier->in_force.daemon.state_dir)
                                   : control::Layers(*config, config->daemon.state_dir);
  const configuration::Config in_force =
      earlier ? control::with_leavers(*earlier) : layers.over(*config).in_force;
  spdlog::set_level(spdlog::level::from_str(in_force.daemon.log_level));
  block_signals();
  return serve(in_force, loader, std::move(layers), std::move(watched), options.libraries,
               outliving);
}

/// Checks that an adapter of this library can go on from what one keeps that still runs.
Outcome fits(const keeper::Handover& handover) {
  keeper::KeeperLink keeper(handover);
  if (auto readable = records::RecordStore::check_format(keeper); !readable) return readable;
  const KeptId state = keeper.find(KeptRole::kEngine, 0);
  if (state == 0) return {};
  const auto sizes = engine::DurableState::check(keeper.memory(state));
  return sizes ? Outcome() : Outcome(sizes.error());
}

}  // namespace
}  // namespace softhca

extern "C" [[gnu::visibility("default")]] bool softhca_adapter_fits(
    const softhca::keeper::Handover* handover, int, char**, char* why, std::size_t room) {
  if (handover->version != softhca::keeper::kHandoverVersion) {
    std::snprintf(why, room, "it needs another version of softhcad: restart the service");
    return false;
  }
  const softhca::Outcome fits = softhca::fits(*handover);
  if (!fits) std::snprintf(why, room, "%s", fits.error().message.c_str());
  return static_cast<bool>(fits);
}

extern "C" [[gnu::visibility("default")]] int softhca_adapter(
    const softhca::keeper::Handover* handover, int argc, char** argv) {
  if (handover->version == softhca::keeper::kHandoverVersion)
    return softhca::run(*handover, argc, argv);
  std::fprintf(stderr, "softhcad: the library of the adapter is of another version\n");
  return softhca::kExitSetup;
}
