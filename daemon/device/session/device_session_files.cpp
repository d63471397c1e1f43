// SPDX-License-Identifier: Apache-2.0

// Opens a session, and returns the attributes of the device and its port.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "daemon/base/endian.hpp"
#include "daemon/device/adapter/device_ports.hpp"
#include "daemon/device/adapter/log.hpp"
#include "daemon/device/session/device_session.hpp"
#include "daemon/engine/requests/level_settings.hpp"
#include "daemon/tenant_memory/process_memory.hpp"

namespace softhca::control {
namespace {

// Values of enum ibv_port_state and ibv_mtu.
constexpr std::uint32_t kPortDown = 1;
constexpr std::uint32_t kPortActive = 4;
constexpr std::uint32_t kMtu4096 = 5;
constexpr std::uint32_t kMaxMessage = 1u << 31;

/// Returns how a process kicks: by the settings of its level, else by those of its tenant. A
/// removed level has no settings.
configuration::KickChoice kick_of(const configuration::TenantConfig& tenant,
                                  const engine::Level* level) {
  const configuration::LevelConfig* own =
      level != nullptr ? engine::settings_of(tenant, *level) : nullptr;
  return own != nullptr && own->kick ? *own->kick : tenant.programs.kick;
}

}  // namespace

LevelQuery DeviceSession::level_query(const abi::HelloWithLevel& hello) const {
  LevelQuery query{.by_socket = socket_level_,
                   .uid = process().uid,
                   .groups = context_.peer().groups(),
                   .cgroup = {},
                   .name = {}};
  query.name = {hello.level, ::strnlen(hello.level, sizeof hello.level)};
  if (asks_for_cgroup(adapter_.settings(tenant()))) query.cgroup = context_.peer().cgroup();
  return query;
}

/// Returns the level of the process. Null: the tenant is not divided into levels. REQUIRES: the
/// tenant is not leaving.
Expected<engine::Level*> DeviceSession::find_level(const abi::HelloWithLevel& hello) {
  auto level = choose_level(adapter_.settings(tenant()), tenant(), level_query(hello));
  if (!level) refusal_ = level.error().message;
  return level;
}

/// Chooses the version of the protocol. Returns 0, or EPROTO with the body of the refusal: the
/// process greets unlike softhca's provider, or in versions that the daemon does not speak.
int DeviceSession::agree_on_version(std::uint64_t magic, abi::VersionRange provider, Reply& reply) {
  version_ = magic == abi::kSessionMagic ? abi::choose_version(adapter_.protocol, provider) : 0;
  if (version_ != 0) return 0;
  reply.write(adapter_.protocol);
  if (magic != abi::kSessionMagic) return EPROTO;
  char why[abi::kMismatchBytes];
  abi::explain_mismatch(adapter_.protocol, provider, why);
  refusal_ = why;
  return EPROTO;
}

/// Reads a HELLO. Returns 0, EPROTO (another version; its HELLO may have another length) or EINVAL.
int DeviceSession::read_hello(const RequestBody& body, abi::HelloWithDevice& hello, Reply& reply) {
  hello = {};
  abi::HelloRequest& first = hello.named.hello;
  if (!body.read(first, true)) return EINVAL;
  const abi::VersionRange provider = abi::stated_range(first.versions);
  if (const int error = agree_on_version(first.magic, provider, reply)) return error;
  return body.read(hello) || body.read(hello.named) || body.read(first) ? 0 : EINVAL;
}

int DeviceSession::hello(const RequestBody& body, Reply& reply) {
  abi::HelloWithDevice asked;
  const abi::HelloWithLevel& named = asked.named;
  if (const int error = read_hello(body, asked, reply)) return error;
  if (const std::size_t has = adapter_.devices(tenant()).size(); asked.device >= has) {
    refusal_ = "it asks for device " + std::to_string(asked.device) +
               ", counted from 0; the tenant has " + std::to_string(has);
    return context_.refuse(Error{refusal_, EINVAL});
  }
  context_.set_device_index(static_cast<std::uint8_t>(asked.device));
  if (tenant().control.leaving) return context_.refuse(ENODEV, "the tenant is being removed");
  if (!*descriptors_)
    return context_.refuse(EMFILE, "the tenant has too many descriptors (tenant.descriptors)");

  const auto level = find_level(named);
  if (!level) return context_.refuse(level.error());
  if (const int error = join_machine(context_)) return error;

  if (const int error = attachment_.charge()) return error;
  may_offer_memory_ = adapter_.settings(tenant()).programs.process_memory;
  record::Session kept{};
  kept.version = version_;
  kept.file = pds_.file()->number;
  kept.device = context_.device_index();
  kept.may_offer_memory = may_offer_memory_;
  return attachment_.open(*level, version_, kept, reply);
}

/// True if the engine accesses the process's memory itself.
bool DeviceSession::is_trusted() const {
  switch (adapter_.settings(tenant()).programs.trusted) {
    case configuration::Trusted::kNone:
      return false;
    case configuration::Trusted::kOwn:
      return (process().uid == ::geteuid() || process().uid == 0) &&
             context_.peer().is_in_our_pid_namespace();
    case configuration::Trusted::kAll:
      break;
  }
  return true;
}

/// Gives the process a way to offer its memory: the daemon itself could open that only with rights
/// over the process. A process without room for its end of the way asks again.
int DeviceSession::offer_memory(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  if (regions_.uses_process())
    return context_.refuse(EINVAL, "the context has regions of offered memory already");
  if (!may_offer_memory_)
    return context_.refuse(EOPNOTSUPP,
                           "only memory that can be shared: tenant.process_memory is "
                           "false");
  const bool in_machine = context_.machine() != nullptr;
  const bool by_proxy = context_.helpers() != nullptr && !is_trusted();
  const engine::MemoryReach reach =
      context_.on_engine(engine::ReachMemory{.tenant = context_.tenant(), .by_proxy = by_proxy});
  auto offered =
      in_machine ? offer_in_machine(context_) : context_.peer().offer_memory(reach, by_proxy);
  if (!offered) return context_.refuse(offered.error());
  configuration::Charge descriptor = regions_.has_process()
                                         ? context_.take(configuration::Kind::kDescriptors)
                                         : descriptors_->split(1);
  if (!descriptor) return EMFILE;  // take() has recorded why
  const auto account = std::make_shared<OfferedAccount>();
  account->descriptor = std::move(descriptor);
  account->memory = std::move(offered->memory);
  account->record = context_.write_object(
      records::Kind::kOfferedMemory,
      record::OfferedMemory{.key = context_.record_key(),
                            .socket = offered->kept,
                            .by_proxy = in_machine ? record::kInMachine : std::uint64_t{by_proxy}});
  regions_.set_process({account, account->memory.get()});
  if (in_machine)
    reply.write(abi::OfferMemoryReply{static_cast<std::uint32_t>(offered->kept), 0});
  else
    reply.give(std::move(offered->end));
  return 0;
}

int DeviceSession::query_device(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  const configuration::DeviceConfig& device = context_.device();
  const auto limit = [&](configuration::Kind kind) {
    constexpr std::uint64_t kMost = 0x7fffffff;  // limit of the fields of verbs
    return static_cast<std::uint32_t>(std::min(tenant().control.accounts.limit(kind), kMost));
  };
  abi::DeviceReply out{};
  device.kFirmware.copy(out.firmware, sizeof out.firmware - 1);
  out.node_guid = out.sys_image_guid =
      swap_bytes(adapter_.node_guid(tenant(), context_.device_index()));
  out.max_mr_size = tenant().control.accounts.limit(configuration::Kind::kRegisteredBytes);
  out.vendor_id = device.kVendorId;
  out.vendor_part_id = device.kPartId;
  out.hw_version = device.kHardwareVersion;
  out.max_qp = limit(configuration::Kind::kQueuePairs);
  out.max_qp_wr = device.kMaxQpWr;
  out.max_sge = out.max_srq_sge = device.kMaxSge;
  out.max_cq = limit(configuration::Kind::kCompletionQueues);
  out.max_cqe = cqs_.max_entries() - 1;
  out.max_mr = limit(configuration::Kind::kMemoryRegions);
  out.max_mw = limit(configuration::Kind::kMemoryWindows);
  out.capabilities = abi::kCanResizeSrq;
  if (may_offer_memory_) out.capabilities |= abi::kCanReachProcess;
  out.capabilities |= abi::kick_capability(static_cast<std::uint32_t>(
      kick_of(adapter_.settings(tenant()), attachment_.session()->level)));
  out.max_pd = limit(configuration::Kind::kProtectionDomains);
  out.max_ah = limit(configuration::Kind::kAddressHandles);
  out.max_srq = limit(configuration::Kind::kSharedReceiveQueues);
  out.max_srq_wr = device.kMaxSrqWr;
  out.max_rd_atomic = device.kMaxRdAtomic;
  out.max_inline = device.kMaxInline;
  out.completion_vectors = device.kCompletionVectors;
  out.ports = ports_of(tenant().addresses, context_.device_index());
  reply.write(out);
  return 0;
}

int DeviceSession::query_port(const RequestBody& body, Reply& reply) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  if (const int error = context_.check_port("port_num", request.handle)) return error;
  abi::PortReply out{};
  const std::uint8_t index = context_.device_index();
  const auto port = static_cast<std::uint8_t>(request.handle);
  const auto& rate = configuration::codes_of(adapter_.devices(tenant())[index].rate);
  out.state = adapter_.link_up(tenant().addresses, {index, port}) ? kPortActive : kPortDown;
  out.max_mtu = kMtu4096;
  out.active_mtu = mtu_code(context_.path_mtu(port));
  out.gid_entries = static_cast<std::uint32_t>(gid_table(tenant().addresses, index, port).size());
  out.max_message_bytes = kMaxMessage;
  out.active_speed = rate.speed;
  out.active_width = rate.width;
  reply.write(out);
  return 0;
}

void DeviceSession::report_link(std::uint8_t device, std::uint8_t port, bool up) {
  if (device != context_.device_index()) return;
  attachment_.raise(up ? engine::EventType::kPortActive : engine::EventType::kPortError, port);
}

void DeviceSession::report_addresses() {
  const std::uint8_t ports = ports_of(tenant().addresses, context_.device_index());
  for (std::uint8_t port = ports; port != 0; --port)
    attachment_.raise(engine::EventType::kGidChange, port);
}

}  // namespace softhca::control
