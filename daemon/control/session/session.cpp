#include "daemon/control/session/session.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace softhca::control {
namespace {

// Of one process: ring memory, and registered memory shared in place.
constexpr std::size_t kRingBudget = std::size_t{1} << 30;
constexpr std::size_t kSharedBudget = std::size_t{1} << 40;

/// Runs f(engine, object) for all of them on the engine's thread, a few at a time: in between it
/// serves others, however many one process has.
template <class T, class F>
void in_steps(engine::Worker& worker, const engine::Session& session,
              const std::vector<T*>& objects, F&& f) {
  constexpr std::size_t kStep = 4;
  for (std::size_t first = 0; first < objects.size(); first += kStep)
    worker.run_for(session, [&](engine::Engine& engine) {
      const std::size_t end = std::min(first + kStep, objects.size());
      for (std::size_t i = first; i < end; ++i) f(engine, *objects[i]);
    });
}

template <class T>
std::vector<T*> all_of(const HandleTable<T>& table) {
  std::vector<T*> objects;
  objects.reserve(table.size());
  table.for_each([&](std::uint32_t, T& object) { objects.push_back(&object); });
  return objects;
}

}  // namespace

Session::Session(Adapter& adapter, SharedObjects& shared, engine::Tenant& tenant, UniqueFd socket,
                 PeerIdentity peer, UniqueFd pidfd, resource::Charge descriptors)
    : adapter_(adapter),
      shared_(shared),
      tenant_(tenant),
      socket_(std::move(socket)),
      peer_(peer),
      pidfd_(std::move(pidfd)),
      descriptors_(std::move(descriptors)),
      segments_(kRingBudget),
      buffers_(kSharedBudget) {
  tenant_.accounts.add(*this);
}

Session::~Session() {
  tenant_.accounts.remove(*this);
  if (engine_session_) remove_from_engine();
  adapter_.give_back_vcbs(tenant_, vcbs_);
  forget_file();
}

Session::Holdings Session::holdings() const {
  return {.id = engine_session_ ? engine_session_->id.value : 0,
          .level = engine_session_ ? engine_session_->level : nullptr,
          .vcbs = vcbs_.count,
          .protection_domains = file_->pds.size(),
          .completion_queues = cqs_.size(),
          .shared_receive_queues = srqs_.size(),
          .memory_regions = file_->mrs.size(),
          .address_handles = ahs_.size(),
          .queue_pairs = qps_.size()};
}

void Session::remove_from_engine() {
  engine::Worker& worker = adapter_.worker;
  const engine::Session& session = *engine_session_;
  std::vector<Qp*> qps;
  for (const auto& [qpn, qp] : qps_) {
    if (qp->engine.sends())
      qps.push_back(qp.get());
    else
      let_go(qp, qp->request.user_handle);
  }
  opened_qps_.for_each(
      [&](std::uint32_t, const OpenedQp& opened) { let_go(opened.qp, opened.user_handle); });
  in_steps(worker, session, qps, [](engine::Engine& engine, Qp& qp) { engine.remove(qp.engine); });
  in_steps(worker, session, all_of(ahs_),
           [](engine::Engine& engine, Ah& ah) { engine.address_handles().remove(ah.handle); });
  // Those of XRC complete to a queue of the next kind, on behalf of targets that others hold.
  in_steps(worker, session, all_of(srqs_),
           [](engine::Engine& engine, Srq& srq) { engine.receive_queues().remove(srq.engine); });
  in_steps(worker, session, all_of(cqs_),
           [](engine::Engine& engine, Cq& cq) { engine.completion_events().remove(cq.engine); });
  in_steps(worker, session, all_of(windows_),
           [](engine::Engine& engine, Window& window) { engine.windows().erase(window.key); });
  if (file_.use_count() == 1) remove_regions();
  on_engine([&](engine::Engine& engine) {
    worker.unwatch(*engine_session_);
    engine.remove(*engine_session_);
  });
}

/// The last session with the file ends.
void Session::remove_regions() {
  std::vector<std::unique_ptr<memory::Region>> regions;  // to be unmapped by this thread
  in_steps(adapter_.worker, *engine_session_, all_of(file_->mrs),
           [&](engine::Engine& engine, Mr& mr) {
             regions.push_back(engine.keys().remove(mr.key));
             tenant_.counters.memory_regions.subtract();
             tenant_.counters.registered_bytes.subtract(mr.bytes.amount());
           });
}

bool Session::serve() {
  return serve_records(socket_.get(), [this](std::span<const std::byte> record) {
    // A process waits for each reply. Replies that pile up would hold descriptors in flight, of
    // which the system lets a user have only so many.
    if (has_unread(socket_.get()) || !answer(record)) return Served::kEnd;
    return channel_ ? Served::kEnough : Served::kNext;
  });
}

/// False: the peer breaks the protocol or does not take the answer.
bool Session::answer(std::span<const std::byte> record) {
  abi::RequestHeader header;
  if (record.size() < sizeof header) return false;
  std::memcpy(&header, record.data(), sizeof header);
  if (header.operation == static_cast<std::uint32_t>(abi::Operation::kOpenEventChannel))
    return ask_for_event_channel(header.tag, RequestBody(record.subspan(sizeof header)));
  if (header.operation == static_cast<std::uint32_t>(abi::Operation::kOpenDatagramClient))
    return ask_for_datagrams(header.tag, RequestBody(record.subspan(sizeof header)));
  const Handler handler = handler_of(header.operation);
  const bool hello = header.operation == static_cast<std::uint32_t>(abi::Operation::kHello);
  if (handler == nullptr || hello == greeted_) return false;

  Reply reply;
  const int error = (this->*handler)(RequestBody(record.subspan(sizeof header)), reply);
  const bool sent = send_reply(socket_.get(), header.tag, error, reply);
  if (error == 0 && sent)
    for (const std::uint32_t segment : announced_) segments_.announced(segment);
  announced_.clear();
  reply_fd_.reset();
  async_peer_.reset();
  session_memory_.close_fd();
  return sent;
}

bool Session::ask_for_event_channel(std::uint32_t tag, const RequestBody& body) {
  abi::HelloRequest request;
  abi::HelloWithLevel named{};
  if (body.read(named))
    request = named.hello;
  else if (!body.read(request))
    return false;
  if (greeted_ || request.magic != abi::kSessionMagic || request.version != abi::kAbiVersion)
    return false;
  channel_ = {.operation = abi::Operation::kOpenEventChannel, .tag = tag};
  channel_->refusal = tenant_.leaving ? ENODEV : 0;
  if (tenant_.leaving) return true;
  const auto level = find_level(named);
  if (!level)
    channel_->refusal = level.error().code;
  else if (*level != nullptr)
    channel_->level = (*level)->name;
  return true;
}

bool Session::ask_for_datagrams(std::uint32_t tag, const RequestBody& body) {
  abi::OpenDatagramClientRequest request;
  if (!body.read(request) || greeted_ || request.magic != abi::kSessionMagic ||
      request.version != abi::kAbiVersion)
    return false;
  channel_ = {.operation = abi::Operation::kOpenDatagramClient, .tag = tag, .datagrams = request};
  channel_->refusal = tenant_.leaving ? ENODEV : 0;
  return true;
}

std::optional<ChannelRequest> Session::become_channel() {
  if (!channel_) return std::nullopt;
  channel_->socket = std::move(socket_);
  channel_->peer = peer_;
  channel_->descriptors = tenant_.accounts.take(Kind::kDescriptors, TenantChannel::kDescriptors);
  return std::move(channel_);
}

Session::Handler Session::handler_of(std::uint32_t operation) {
  switch (static_cast<abi::Operation>(operation)) {
    case abi::Operation::kHello:
      return &Session::hello;
    case abi::Operation::kQueryDevice:
      return &Session::query_device;
    case abi::Operation::kQueryPort:
      return &Session::query_port;
    case abi::Operation::kAllocPd:
      return &Session::alloc_pd;
    case abi::Operation::kDeallocPd:
      return &Session::dealloc_pd;
    case abi::Operation::kAllocShared:
      return &Session::alloc_shared;
    case abi::Operation::kFreeShared:
      return &Session::free_shared;
    case abi::Operation::kRegisterMr:
      return &Session::register_mr;
    case abi::Operation::kDeregisterMr:
      return &Session::deregister_mr;
    case abi::Operation::kCreateChannel:
      return &Session::create_channel;
    case abi::Operation::kCreateCq:
      return &Session::create_cq;
    case abi::Operation::kResizeCq:
      return &Session::resize_cq;
    case abi::Operation::kDestroyCq:
      return &Session::destroy_cq;
    case abi::Operation::kCreateSrq:
      return &Session::create_srq;
    case abi::Operation::kModifySrq:
      return &Session::modify_srq;
    case abi::Operation::kQuerySrq:
      return &Session::query_srq;
    case abi::Operation::kDestroySrq:
      return &Session::destroy_srq;
    case abi::Operation::kCreateQp:
      return &Session::create_qp;
    case abi::Operation::kModifyQp:
      return &Session::modify_qp;
    case abi::Operation::kQueryQp:
      return &Session::query_qp;
    case abi::Operation::kDestroyQp:
      return &Session::destroy_qp;
    case abi::Operation::kCreateAh:
      return &Session::create_ah;
    case abi::Operation::kDestroyAh:
      return &Session::destroy_ah;
    case abi::Operation::kReregisterMr:
      return &Session::reregister_mr;
    case abi::Operation::kAllocWindow:
      return &Session::alloc_window;
    case abi::Operation::kDeallocWindow:
      return &Session::dealloc_window;
    case abi::Operation::kOpenXrcDomain:
      return &Session::open_xrc_domain;
    case abi::Operation::kCloseXrcDomain:
      return &Session::close_xrc_domain;
    case abi::Operation::kOpenQp:
      return &Session::open_qp;
    case abi::Operation::kCloseQp:
      return &Session::close_qp;
    case abi::Operation::kModifyCq:
      return &Session::modify_cq;
    case abi::Operation::kAllocNullMr:
      return &Session::alloc_null_mr;
    case abi::Operation::kAttachMulticast:
      return &Session::attach_multicast;
    case abi::Operation::kDetachMulticast:
      return &Session::detach_multicast;
    case abi::Operation::kOpenEventChannel:
    case abi::Operation::kConnectionCommand:
    case abi::Operation::kOpenDatagramClient:
    case abi::Operation::kSetDatagramBuffers:
    case abi::Operation::kSendDatagram:
    case abi::Operation::kReceiveDatagram:
      break;  // of channels
    case abi::Operation::kShareContext:
      return &Session::share_context;
    case abi::Operation::kJoinContext:
      return &Session::join_context;
    case abi::Operation::kImportPd:
      return &Session::import_pd;
    case abi::Operation::kImportMr:
      return &Session::import_mr;
  }
  return nullptr;
}

}  // namespace softhca::control
