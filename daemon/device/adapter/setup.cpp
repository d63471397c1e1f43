// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/setup.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "abi/session.hpp"
#include "daemon/base/address_text.hpp"
#include "daemon/device/adapter/guid.hpp"
#include "daemon/device/adapter/levels.hpp"
#include "daemon/device/adapter/vcb_change.hpp"
#include "daemon/engine/datagrams/shared_qp.hpp"
#include "daemon/engine/packets/peer_table.hpp"
#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/port/dpdk/device_args.hpp"
#include "daemon/port/dpdk/eal.hpp"
#include "daemon/port/dpdk/open.hpp"
#include "daemon/port/failover_port.hpp"
#include "daemon/port/packet/packet_port.hpp"
#include "daemon/port/udp/udp_port.hpp"
#include "daemon/roce/wire/arp_nd.hpp"

namespace softhca::control {
namespace {

// TVLs of each queue pair of the daemon itself: one for its sends, and the dedicated TVL that every
// tenant has.
constexpr std::uint16_t kServiceTvls = 2;

Error at(const std::string& where, const Error& error) {
  return {where + ": " + error.message, error.code};
}

std::vector<std::string> pci_devices(const configuration::Config& config) {
  std::vector<std::string> out;
  for (const configuration::PortConfig& port : config.ports) {
    const auto args = port::parse_device(port.device);
    if (!port.device.empty() && args && args->is_pci()) out.push_back(args->name);
  }
  return out;
}

/// `kept`: the socket of an earlier port of this place. Empty: none.
Expected<std::unique_ptr<port::Port>> make_port(const configuration::PortConfig& config,
                                                UniqueFd kept) {
  const std::uint32_t mtu = config.mtu.value_or(0);
  if (config.socket)
    return port::UdpPort::open({.address = *config.socket, .mtu = mtu}, std::move(kept));
  if (!config.device.empty()) {
    const Gid first = config.addresses.empty() ? Gid{} : config.addresses.front().gid;
    return port::open_dpdk_port(
        {.device = config.device, .mtu = mtu, .mac = link_address(config.device, first)});
  }
  return port::PacketPort::open({.interface = config.interface, .mtu = mtu}, std::move(kept));
}

/// Returns the device of the port, as the operator has named it.
std::string place_of(const configuration::PortConfig& config) {
  if (config.socket) return "socket " + configuration::to_string(*config.socket);
  return config.device.empty() ? config.interface : config.device;
}

bool kernel_owns(const port::InterfaceState& state, const Gid& gid) {
  return std::any_of(state.addresses.begin(), state.addresses.end(),
                     [&](const auto& a) { return a.address == gid; });
}

/// Opens a link of a port, and adds to `keeping` what is kept of it.
Expected<std::unique_ptr<port::Port>> open_link(const configuration::PortConfig& config,
                                                KeptDescriptors& kept,
                                                std::vector<KeptDescriptor>& keeping) {
  constexpr auto kKind = records::Kind::kPort;
  const std::string place = place_of(config);
  auto port = make_port(config, kept.take_earlier(kKind, place));
  if (!port || !config.device.empty()) return port;  // each adapter opens DPDK's anew
  auto kept_now = kept.keep(kKind, place, (*port)->wait_fd());
  if (!kept_now) return kept_now.error();
  keeping.push_back(std::move(*kept_now));
  return port;
}

/// True if the port's interface or address is gone. An adapter that follows another goes on without
/// it, as the earlier one did.
bool is_gone(const Error& error) { return error.code == ENODEV || error.code == EADDRNOTAVAIL; }

Expected<std::unique_ptr<port::Port>> open_links(const configuration::PortConfig& config,
                                                 KeptDescriptors& kept,
                                                 std::vector<KeptDescriptor>& keeping) {
  const std::vector<std::string> interfaces = config.interfaces();
  port::FailoverPort::Links links;
  std::optional<Error> failed;
  const std::size_t count = std::max<std::size_t>(interfaces.size(), 1);
  for (std::size_t i = 0; i < count; ++i) {
    configuration::PortConfig one = config;
    if (!interfaces.empty()) one.interface = interfaces[i];
    auto link = open_link(one, kept, keeping);
    if (link && count == 1) return link;
    if (link) {
      links[i] = std::move(*link);
      continue;
    }
    const bool may_lack = kept.follows() && is_gone(link.error());
    if (!may_lack && (failed || count == 1)) return link.error();
    failed = link.error();
    spdlog::warn("port {}: {}; it does without until the daemon is upgraded or restarted",
                 config.name, failed->message);
  }
  return port::FailoverPort::join(std::move(links));
}

Outcome open_port(const configuration::PortConfig& config, PortId id, engine::Worker& worker,
                  KeptDescriptors& kept, std::vector<KeptDescriptor>& keeping) {
  auto port = open_links(config, kept, keeping);
  if (!port) return port.error();
  auto binding = std::make_unique<engine::PortBinding>();
  binding->id = id;
  binding->name = config.name;
  binding->vlan = config.vlan;
  binding->port = std::move(*port);
  engine::PortBinding* const raw = binding.get();
  binding->neighbours = std::make_unique<neighbour::Neighbours>(
      neighbour::Neighbours::Options{
          .mac = raw->port->mac(), .vlan = config.vlan, .by_kernel = config.socket.has_value()},
      [raw](std::span<const std::byte> bytes) {
        if (!raw->is_served()) return;
        port::Frame frame = raw->port->allocate();
        if (!frame) return;
        std::copy(bytes.begin(), bytes.end(), frame.data);
        frame.length = static_cast<std::uint32_t>(bytes.size());
        raw->port->transmit(frame);
      });
  spdlog::info("port {}: {} MTU {}", config.name, place_of(config), raw->port->mtu());
  worker.run(engine::AddPort{std::move(binding)});
  return {};
}

std::optional<PortId> port_of(const configuration::Config& config, const Gid& gid) {
  for (std::size_t i = 0; i < config.ports.size(); ++i)
    for (const configuration::InterfaceAddress& address : config.ports[i].addresses)
      if (address.gid == gid) return PortId(static_cast<std::uint8_t>(i));
  return std::nullopt;
}

std::map<Gid, MacAddress> static_neighbours_of(const configuration::PortConfig& config) {
  std::map<Gid, MacAddress> neighbours;
  for (const std::string& text : config.neighbours)
    if (const auto neighbour = configuration::parse_static_neighbour(text))
      neighbours.emplace(neighbour->gid, neighbour->mac);
  return neighbours;
}

}  // namespace

engine::EngineLimits limits_of(const configuration::Config& config) {
  const configuration::PoolsConfig& pools = config.pools;
  engine::EngineLimits limits;
  limits.vcbs = pools.sessions * abi::kMaxVcbsPerSession;
  // Beyond the pools: the PCBs for sends of the daemon's own queue pairs.
  limits.pcbs = pools.pcbs - pools.dedicated_pcbs + kOwnServices * engine::SharedQp::kSends;
  limits.dedicated_pcbs = pools.dedicated_pcbs;
  limits.tenants = static_cast<std::uint16_t>(pools.tenants + kOwnServices);
  limits.levels = configuration::kMaxLevels;
  // Twice the pool, as a removed TVL keeps its row until all its commands are done. Each tenant and
  // each level has a dedicated TVL besides.
  limits.tvls = static_cast<std::uint16_t>(2 * pools.tvls + pools.tenants + limits.levels +
                                           kOwnServices * kServiceTvls);
  limits.execution_credits = pools.execution_credits;
  limits.completion_credits = pools.completion_credits;
  limits.queue_pairs = pools.queue_pairs;
  limits.memory_regions = pools.memory_regions;
  limits.memory_windows = pools.memory_windows;
  limits.kept_packets = config.reliability.kept_packets;
  limits.doorbells = config.doorbells;
  return limits;
}

Outcome guard_addresses(const configuration::PortConfig& port,
                        const std::vector<configuration::InterfaceAddress>& addresses,
                        KeptDescriptors& kept, KernelGuards& guards) {
  if (addresses.empty()) return {};
  const std::vector<std::string> interfaces = port.interfaces();
  for (const std::string& interface : interfaces) {
    const auto state = port::read_interface(interface);
    // The other interface serves, or an earlier adapter has gone on without this one.
    if (!state && (interfaces.size() > 1 || (kept.follows() && is_gone(state.error())))) continue;
    if (!state) return at("port " + port.name, state.error());
    for (const configuration::InterfaceAddress& address : addresses) {
      if (!kernel_owns(*state, address.gid) || guards.contains(address.gid)) continue;
      constexpr auto kKind = records::Kind::kKernelGuard;
      const std::string place = address_text(address.gid) + "%" + interface;
      auto guard = port::guard_roce_port(address.gid, interface, kept.take_earlier(kKind, place));
      if (!guard) return at("port " + port.name, guard.error());
      auto keeping = kept.keep(kKind, place, guard->fd());
      if (!keeping) return at("port " + port.name, keeping.error());
      guards.emplace(address.gid, KernelGuard{std::move(*guard), std::move(*keeping)});
    }
  }
  return {};
}

Expected<KernelGuards> guard_addresses(const configuration::Config& config, KeptDescriptors& kept) {
  KernelGuards guards;
  for (const configuration::PortConfig& port : config.ports)
    if (auto guarded = guard_addresses(port, port.addresses, kept, guards); !guarded)
      return guarded.error();
  return guards;
}

Expected<std::vector<KeptDescriptor>> open_ports(const configuration::Config& config,
                                                 engine::Worker& worker, KeptDescriptors& kept) {
  if (std::any_of(config.ports.begin(), config.ports.end(),
                  [](const configuration::PortConfig& port) { return !port.device.empty(); })) {
    const auto cards = pci_devices(config);
    const auto eal = port::start_eal(
        {.pci_devices = cards, .log = [](std::string_view line) { spdlog::info("{}", line); }});
    if (!eal) return eal.error();
    if (!cards.empty() && !eal->huge_pages)
      spdlog::info(
          "fewer than 256 MiB of huge pages are free: packet buffers of cards are in small pages, "
          "of which processor and IOMMU look up more");
  }
  std::vector<KeptDescriptor> keeping;
  for (std::size_t i = 0; i < config.ports.size(); ++i) {
    const PortId id(static_cast<std::uint8_t>(i));
    if (auto opened = open_port(config.ports[i], id, worker, kept, keeping); !opened)
      return at("port " + config.ports[i].name, opened.error());
  }
  return keeping;
}

engine::PortChange change_of(const configuration::PortConfig& before,
                             const configuration::PortConfig& to,
                             const std::function<bool(const Gid&)>& is_guarded) {
  engine::PortChange change{.added = {},
                            .removed = {},
                            .gateway4 = to.gateway4.value_or(Gid{}),
                            .gateway6 = to.gateway6.value_or(Gid{}),
                            .neighbours = static_neighbours_of(to),
                            .announce = to.addresses != before.addresses};
  for (const configuration::InterfaceAddress& address : to.addresses) {
    const bool by_kernel = to.socket || is_guarded(address.gid);
    if (std::ranges::find(before.addresses, address) == before.addresses.end())
      change.added.push_back({address.gid, address.prefix, !by_kernel});
  }
  for (const configuration::InterfaceAddress& address : before.addresses)
    if (std::ranges::find(to.addresses, address.gid, &configuration::InterfaceAddress::gid) ==
        to.addresses.end())
      change.removed.push_back(address.gid);
  return change;
}

std::string interface_of(const configuration::PortConfig& port, const Gid& address) {
  if (!port.interface.empty()) return port.interfaces().front();
  const auto args = port::parse_device(port.device);
  const auto named = args ? args->option("iface") : std::nullopt;
  if (named && named->find('/') == std::string::npos) return *named;  // that of net_vhost is a path
  const auto found = port::interface_with(address);
  return found ? *found : std::string();
}

std::uint64_t identity_of(const configuration::Config& config, const engine::EngineView& engine) {
  std::vector<PortIdentity> ports;
  for (std::size_t i = 0; i < config.ports.size(); ++i) {
    const auto& addresses = config.ports[i].addresses;
    ports.push_back({.mac = engine.ports[i]->port->mac(),
                     .address = addresses.empty() ? Gid{} : addresses.front().gid});
  }
  return daemon_identity(config.daemon.runtime_dir, ports);
}

std::optional<TenantId> free_tenant_id(const std::vector<const engine::Tenant*>& tenants,
                                       const configuration::Config& config) {
  for (std::uint16_t id = 0; id < config.pools.tenants; ++id)
    if (std::none_of(tenants.begin(), tenants.end(),
                     [&](const engine::Tenant* tenant) { return tenant->id.value == id; }))
      return TenantId(id);
  return std::nullopt;
}

namespace {

/// Returns the name of the port's network. If the kernel has lost the address of a socket, the
/// socket is taken to be on the interface of the first one.
std::string network_of(const configuration::Config& config, PortId id) {
  const configuration::PortConfig& port = config.ports[id.value];
  if (!port.socket) return port.name;
  auto interface = port::interface_with(*port.socket);
  if (!interface)
    interface = port::interface_with(*std::ranges::find_if(config.ports, [](const auto& each) {
                                        return each.socket.has_value();
                                      })->socket);
  return "socket/" + (interface ? *interface : std::string());
}

}  // namespace

std::vector<engine::Tenant::Address> addresses_of(const configuration::Config& config,
                                                  const configuration::TenantConfig& tenant) {
  std::vector<engine::Tenant::Address> addresses;
  const auto devices = devices_of(tenant, config.device);
  for (std::size_t i = 0; i < devices.size(); ++i)
    for (const Gid& gid : devices[i].addresses)
      addresses.push_back({gid, port_of(config, gid), static_cast<std::uint8_t>(i)});
  number_ports(addresses, [&](PortId port) { return network_of(config, port); });
  return addresses;
}

std::unique_ptr<engine::Tenant> make_tenant(TenantId id, const configuration::Config& config,
                                            const configuration::TenantConfig& entry) {
  auto tenant = std::make_unique<engine::Tenant>();
  tenant->id = id;
  tenant->name = entry.name;
  tenant->control.settings = std::make_shared<const configuration::TenantConfig>(entry);
  tenant->addresses = addresses_of(config, entry);
  return tenant;
}

std::vector<std::unique_ptr<engine::Tenant>> make_tenants(const configuration::Config& config,
                                                          engine::TenantAllocationChange& change) {
  std::vector<std::unique_ptr<engine::Tenant>> tenants;
  for (const configuration::TenantConfig& entry : config.tenants) {
    const TenantId id(static_cast<std::uint16_t>(tenants.size()));
    auto& tenant = tenants.emplace_back(make_tenant(id, config, entry));
    change.added.push_back({tenant.get(), &entry});
    for (const configuration::LevelConfig& level : entry.levels)
      change.new_levels.push_back({tenant.get(), make_level(level), nullptr});
  }
  return tenants;
}

Outcome start(Adapter& adapter, const KernelGuards& guards) {
  const configuration::Config& config = adapter.config;
  engine::TenantAllocationChange change;
  auto tenants = make_tenants(config, change);
  for (const auto& tenant : tenants) tenant->control.accounts.set_whole(adapter.totals);
  if (auto given = VcbChange(adapter, tenants).apply(change); !given) return given;
  auto peers = engine::PeerTable::make(config.peers);
  if (!peers) return peers.error();
  engine::PutInForce put{.wanted = config,
                         .allocations = adapter.allocations,
                         .change = change,
                         .addresses = {},
                         .provisioners = {},
                         .ports = {},
                         .peers = std::move(*peers)};
  for (const configuration::PortConfig& port : config.ports)
    put.ports.push_back(
        change_of({}, port, [&](const Gid& address) { return guards.contains(address); }));
  if (auto done = adapter.worker.run(put); !done) return done;
  adapter.tenants = std::move(tenants);
  adapter.apply(config);
  return {};
}

}  // namespace softhca::control
