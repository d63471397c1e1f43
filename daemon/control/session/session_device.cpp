// Opening a session; what the device and its port look like; protection domains.
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/endian.hpp"
#include "daemon/control/session/session.hpp"

namespace softhca::control {
namespace {

// Values of enum ibv_port_state, ibv_mtu, and of the speed and width codes of ibv_port_attr.
constexpr std::uint32_t kPortDown = 1;
constexpr std::uint32_t kPortActive = 4;
constexpr std::uint32_t kMtu4096 = 5;
constexpr std::uint32_t kSpeedEdr = 32;
constexpr std::uint32_t kWidth4x = 2;
constexpr std::uint32_t kMaxMessage = 1u << 31;

}  // namespace

LevelQuery Session::level_query(const abi::HelloWithLevel& hello) const {
  LevelQuery query{.by_socket = socket_level_, .uid = peer_.uid, .groups = {peer_.gid}, .name = {}};
  query.name = {hello.level, ::strnlen(hello.level, sizeof hello.level)};
  gid_t groups[256];
  socklen_t bytes = sizeof groups;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) == 0)
    query.groups.insert(query.groups.end(), groups, groups + bytes / sizeof(gid_t));
  return query;
}

/// Null: the tenant is not divided. REQUIRES: the tenant is not leaving.
Expected<engine::Level*> Session::find_level(const abi::HelloWithLevel& hello) const {
  auto level = choose_level(adapter_.settings(tenant_), tenant_, level_query(hello));
  if (!level)
    spdlog::warn("tenant {}: process {} {}", tenant_.name, peer_.pid, level.error().message);
  return level;
}

int Session::hello(const RequestBody& body, Reply& reply) {
  abi::HelloRequest request;
  abi::HelloWithLevel named{};
  if (body.read(named))
    request = named.hello;
  else if (!body.read(request))
    return EINVAL;
  if (request.magic != abi::kSessionMagic || request.version != abi::kAbiVersion) return EPROTO;
  if (tenant_.leaving) return ENODEV;
  if (!descriptors_) return EMFILE;

  const auto level = find_level(named);
  if (!level) return level.error().code;

  session_ = {};
  session_ = take(Kind::kSessions);
  if (!session_) return ENOMEM;
  session_mapping_ = {};
  session_mapping_ = take(Kind::kMappings);
  if (!session_mapping_) return ENOMEM;
  const resource::TenantConfig& tenant = adapter_.settings(tenant_);
  if (tenant.process_memory && process_ == nullptr)
    if (const int error = open_process_memory()) return error;
  // Of an attempt that failed further on.
  adapter_.give_back_vcbs(tenant_, std::exchange(vcbs_, {}));
  // Without VCBs a process works through doorbells alone.
  vcbs_ = adapter_.take_vcbs(tenant_, *level,
                             std::min(tenant.vcbs_per_process, abi::kMaxVcbsPerSession));

  auto memory = SealedMemory::create("softhca-session", abi::session_bytes(vcbs_.count));
  if (!memory) return memory.error().code;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  async_ = UniqueFd(ends[0]);
  async_peer_ = UniqueFd(ends[1]);
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return errno;

  session_memory_ = std::move(*memory);
  shm::SessionView::format(session_memory_.base(), vcbs_.count);
  engine_session_ = std::make_unique<engine::Session>(
      SessionId(adapter_.next_session++), tenant_,
      shm::SessionView(session_memory_.base(), vcbs_.count), vcbs_.first);
  engine_session_->process = static_cast<std::uint32_t>(peer_.pid);
  engine_session_->level = *level;
  engine_session_->async_fd = async_.get();
  engine_session_->wake_fd = wake_.get();
  adapter_.worker.run([this](engine::Engine& engine) {
    engine.install(*engine_session_);
    adapter_.worker.watch(*engine_session_);
  });
  greeted_ = true;

  reply.write(abi::HelloReply{.vcbs = vcbs_.count,
                              .session = engine_session_->id.value,
                              .daemon_pid = static_cast<std::uint32_t>(::getpid()),
                              .reserved = 0});
  reply.attach(session_memory_.fd());
  reply.attach(wake_.get());
  reply.attach(async_peer_.get());
  spdlog::debug("tenant {}: process {} (uid {}) opened session {}", tenant_.name, peer_.pid,
                peer_.uid, engine_session_->id.value);
  return 0;
}

/// Without it a session can register shared memory only.
int Session::open_process_memory() {
  const auto process = memory::ProcessMemory::open(peer_.pid, peer_.uid, pidfd_.get());
  if (process) {
    // Regions may outlive the session, where others share them.
    struct Account {
      Charge descriptor;
      std::shared_ptr<memory::ProcessMemory> memory;
    };
    const auto account = std::make_shared<Account>();
    account->descriptor = descriptors_.split(1);
    account->memory = *process;
    process_ = {account, account->memory.get()};
    return 0;
  }
  if (process.error().code != EPERM && process.error().code != EACCES) return process.error().code;
  spdlog::debug("tenant {}: memory that cannot be shared is not available: {}", tenant_.name,
                process.error().message);
  return 0;
}

int Session::query_device(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  const resource::DeviceConfig& device = adapter_.config.device;
  const auto limit = [&](Kind kind) {
    constexpr std::uint64_t kMost = 0x7fffffff;  // what verbs has room for
    return static_cast<std::uint32_t>(std::min(tenant_.accounts.limit(kind), kMost));
  };
  abi::DeviceReply out{};
  device.firmware.copy(out.firmware, sizeof out.firmware - 1);
  out.node_guid = out.sys_image_guid = swap_bytes(adapter_.node_guid(tenant_));
  out.max_mr_size = tenant_.accounts.limit(Kind::kRegisteredBytes);
  out.vendor_id = device.vendor_id;
  out.vendor_part_id = device.part_id;
  out.hw_version = device.hardware_version;
  out.max_qp = limit(Kind::kQueuePairs);
  out.max_qp_wr = device.max_qp_wr;
  out.max_sge = out.max_srq_sge = device.max_sge;
  out.max_cq = limit(Kind::kCompletionQueues);
  out.max_cqe = device.max_cqe - 1;
  out.max_mr = limit(Kind::kMemoryRegions);
  out.max_mw = limit(Kind::kMemoryWindows);
  if (process_ != nullptr) out.capabilities |= abi::kCanReachProcess;
  out.max_pd = limit(Kind::kProtectionDomains);
  out.max_ah = limit(Kind::kAddressHandles);
  out.max_srq = limit(Kind::kSharedReceiveQueues);
  out.max_srq_wr = device.max_srq_wr;
  out.max_rd_atomic = device.max_rd_atomic;
  out.max_inline = device.max_inline;
  out.completion_vectors = device.completion_vectors;
  reply.write(out);
  return 0;
}

int Session::query_port(const RequestBody& body, Reply& reply) {
  abi::HandleBody request;
  if (!body.read(request) || request.handle != 1) return EINVAL;
  abi::PortReply out{};
  out.state = adapter_.link_up(tenant_) ? kPortActive : kPortDown;
  out.max_mtu = kMtu4096;
  out.active_mtu = mtu_code(adapter_.path_mtu(tenant_));
  out.gid_entries = static_cast<std::uint32_t>(tenant_.addresses.size());
  out.max_message_bytes = kMaxMessage;
  out.active_speed = kSpeedEdr;
  out.active_width = kWidth4x;
  reply.write(out);
  return 0;
}

void Session::report_link(bool up) {
  if (!engine_session_) return;
  constexpr std::uint64_t kPort = 1;
  adapter_.worker.run([&](engine::Engine& engine) {
    engine.async_events().raise(
        *engine_session_, kPort,
        up ? engine::EventType::kPortActive : engine::EventType::kPortError);
  });
}

void Session::report_addresses() {
  if (!engine_session_) return;
  constexpr std::uint64_t kPort = 1;
  adapter_.worker.run([&](engine::Engine& engine) {
    engine.async_events().raise(*engine_session_, kPort, engine::EventType::kGidChange);
  });
}

int Session::alloc_pd(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  auto pd = std::make_unique<Pd>();
  pd->charge = take(Kind::kProtectionDomains);
  if (!pd->charge) return ENOMEM;
  pd->id = memory::PdId(shared_.next_pd++);
  reply.write(abi::HandleBody{file_->pds.add(std::move(pd)), 0});
  return 0;
}

int Session::dealloc_pd(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const Pd* pd = file_->pds.find(request.handle);
  if (pd == nullptr) return EINVAL;
  if (pd->users != 0) return EBUSY;
  file_->pds.remove(request.handle);
  return 0;
}

}  // namespace softhca::control
