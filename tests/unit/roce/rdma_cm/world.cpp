// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/roce/rdma_cm/world.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "tests/sim/store_trap.hpp"

namespace softhca::management::rdma_cm {

Gid gid(const std::string& text) {
  in_addr ipv4;
  if (inet_pton(AF_INET, text.c_str(), &ipv4) == 1) return Gid::from_ipv4(ntohl(ipv4.s_addr));
  Gid ipv6;
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), ipv6.bytes.data()), 1) << text;
  return ipv6;
}

SocketAddress address(const std::string& text, std::uint16_t port) {
  const bool ipv6 = text.find(':') != std::string::npos;
  return {.family = static_cast<sa_family_t>(ipv6 ? AF_INET6 : AF_INET),
          .port = port,
          .address = gid(text)};
}

namespace {

/// How adapters end while all tests run.
enum class Ending : std::uint8_t {
  kNone,
  kAfterCalls,  ///< after every SOFTHCA_TEST_RESTARTS-th call
  kInCalls,     ///< at every SOFTHCA_TEST_CRASHES-th store of each call, and after it
};

unsigned interval() {
  static const unsigned value = [] {
    for (const char* const name : {"SOFTHCA_TEST_RESTARTS", "SOFTHCA_TEST_CRASHES"})
      if (const char* const text = std::getenv(name)) return static_cast<unsigned>(std::atoi(text));
    return 0u;
  }();
  return value;
}

Ending ending() {
  if (interval() == 0) return Ending::kNone;
  return std::getenv("SOFTHCA_TEST_CRASHES") != nullptr ? Ending::kInCalls : Ending::kAfterCalls;
}

}  // namespace

// --- World

void World::run() {
  while (!queue.empty()) {
    const Packet packet = queue.front();
    queue.pop_front();
    if (loses(packet)) continue;
    for (Host* const host : hosts) {
      if (!host->has(packet.path.remote)) continue;
      cm::Path path = packet.path;
      std::swap(path.local, path.remote);
      host->run(false, [&] { host->service->receive(packet.mad, path, Qpn(1), now); });
    }
  }
}

void World::advance(Duration duration) {
  const Time end = now + duration;
  run();
  for (;;) {
    Time next = kNever;
    for (Host* const host : hosts) next = std::min(next, host->service->next_deadline());
    if (next > end) break;
    now = std::max(now, next);
    for (Host* const host : hosts) host->run(false, [&] { host->service->expire(now); });
    run();
  }
  now = end;
}

// --- Host

Host::Host(World& at, const std::vector<std::string>& addresses, const RdmaCmLimits& limits)
    : world(at), guid(0x0200000000000001 + at.hosts.size()), random_(at.hosts.size()) {
  for (const std::string& text : addresses)
    own.push_back({.gid = gid(text), .index = static_cast<std::uint8_t>(own.size())});
  begin_life(limits);
  // The records are in memory that the first service has made: from the second one on, its stores
  // can be watched.
  EXPECT_TRUE(life->store.reserve());
  if (ending() != Ending::kNone) restart();
  world.hosts.push_back(this);
}

Host::~Host() { std::erase(world.hosts, this); }

/// The slots of records that are in use, by record and place: what of them outlives an adapter.
struct Host::Slots {
  explicit Slots(FakeKeeper& keeper) {
    const std::span<std::byte> memory = keeper.records();
    const auto* const slots = reinterpret_cast<const records::Slot*>(memory.data());
    for (std::size_t i = 1; i < memory.size() / sizeof(records::Slot); ++i)
      if (slots[i].state != 0) all[{slots[i].number, slots[i].place}] = slots[i].body;
  }
  std::map<std::pair<std::uint64_t, std::uint32_t>, decltype(records::Slot::body)> all;
};

void Host::begin_life(const RdmaCmLimits& limits) {
  life.reset();
  life = std::make_unique<Life>(keeper);
  life->state = std::make_unique<KeptState>(life->store, "tenant",
                                            [](const Error& why) { ADD_FAILURE() << why.message; });
  EXPECT_TRUE(life->store.adopt());
  life->service = std::make_unique<Service>(*this, limits);
  service = life->service.get();
  auto left = life->store.take_adopted();
  std::vector<std::pair<KeptState::Recorded, records::Record*>> recorded;
  for (records::Adopted& each : left)
    recorded.emplace_back(KeptState::read(each.body).value(), &each.record);
  std::ranges::sort(recorded, {},
                    [](const auto& each) { return std::pair(each.first.kind, each.first.number); });
  for (const auto& [each, record] : recorded) {
    life->state->adopt(each, std::move(*record));
    EXPECT_TRUE(service->restore(each.kind, each.number, each.state, world.now))
        << static_cast<int>(each.kind) << ", " << each.number;
  }
  for (auto& [channel, raised] : signals)
    if (service->has_events(channel) && raised == 0) ++raised;
  service->end_restoring(world.now);
  life->store.end_restoring();
}

void Host::restart() {
  const RdmaCmLimits limits = service->limits();
  const Slots before(keeper);
  begin_life(limits);
  EXPECT_EQ(Slots(keeper).all, before.all) << "nothing has changed";
}

std::uint64_t Host::committed() {
  return reinterpret_cast<const records::MemoryHeader*>(keeper.records().data())->committed;
}

/// Returns true if the adapter has ended at this store of the call.
bool Host::ends_in(const std::function<void()>& call, std::uint64_t store) {
  sim::StoreTrap trap;
  for (const auto& memory : life->keeping.given()) trap.watch(memory);
  return trap.run(call, [&](std::uint64_t at) { return at == store; });
}

void Host::run(bool is_repeated, const std::function<void()>& call) {
  if (ending() == Ending::kNone) return call();
  static std::uint64_t calls = 0;
  ++calls;
  if (ending() == Ending::kAfterCalls) {
    call();
    if (calls % interval() == 0) restart();
    return;
  }
  std::uint64_t before = committed();
  for (std::uint64_t store = 1 + calls % interval(); ends_in(call, store); store += interval()) {
    const bool is_recorded = committed() != before;
    begin_life(service->limits());
    if (!is_repeated && is_recorded) return;
    before = committed();
  }
  restart();
  if (is_repeated) call();
  restart();
}

bool Host::has(const Gid& gid) const {
  return std::ranges::any_of(own, [&](const TenantGid& one) { return one.gid == gid; });
}

std::optional<Gid> Host::source_for(const Gid& destination) const {
  for (const TenantGid& one : own)
    if (one.gid.is_ipv4() == destination.is_ipv4()) return one.gid;
  return std::nullopt;
}

void Host::resolve(const Gid&, const Gid& destination, ResolveCookie cookie) {
  asked.push_back(cookie);
  if (!neighbours_answer) return;
  for (const Host* const other : world.hosts)
    if (other->has(destination)) return service->resolved(cookie, true);
  service->resolved(cookie, false);
}

// --- Program

Program::Program(Host& at, const ChannelOwner& owner)
    : host(at), channel(at.service->open_channel(owner)) {}

void Program::close() {
  while (!host.service->close_channel(channel, host.world.now)) {
  }
  host.signals.erase(channel);
}

void Program::check_signal() {
  const auto before = host.signals[channel];
  EXPECT_TRUE(before == 0 || before == 1);
}

int Program::command(std::uint32_t number, std::span<const std::byte> body, ChannelId other) {
  ++tag_;
  int error = 0, first_error = 0;
  std::optional<ChannelReply> answered;
  host.run(true, [&] {
    error = host.service->command(channel,
                                  {.tag = tag_, .command = number, .other = other, .body = body},
                                  reply, host.world.now);
    if (!answered) {
      answered = reply;
      first_error = error;
      return;
    }
    EXPECT_EQ(error, first_error) << "of command " << number;
    EXPECT_EQ(reply.refusal, answered->refusal);
    if (error != 0) return;
    EXPECT_EQ(reply.drained, answered->drained);
    EXPECT_EQ(reply.bytes, answered->bytes);
    EXPECT_EQ(reply.body, answered->body);
  });
  if (reply.drained) --host.signals[number == RDMA_USER_CM_CMD_MIGRATE_ID ? other : channel];
  check_signal();
  rdma_ucm_create_id create{};
  const bool asks_for_ib =
      number == RDMA_USER_CM_CMD_CREATE_ID && read_body(body, create) && create.ps == RDMA_PS_IB;
  if (error != 0 && number != RDMA_USER_CM_CMD_GET_EVENT && !asks_for_ib) {
    EXPECT_NE(reply.refusal, "") << "command " << number << ", errno " << error;
  }
  return error;
}

int Program::create_id(std::uint16_t space, std::uint32_t& id, std::uint64_t uid) {
  rdma_ucm_create_id body{};
  body.ps = space;
  body.uid = uid;
  const int error = command(RDMA_USER_CM_CMD_CREATE_ID, body);
  if (error == 0) id = answer<rdma_ucm_create_id_resp>().id;
  return error;
}

std::uint32_t Program::create(PortSpace space) {
  std::uint32_t id = 0;
  EXPECT_EQ(create_id(static_cast<std::uint16_t>(space), id, kCreatedUid), 0);
  return id;
}

int Program::destroy(std::uint32_t id) {
  rdma_ucm_destroy_id body{};
  body.id = id;
  const int error = command(RDMA_USER_CM_CMD_DESTROY_ID, body);
  if (error != 0) return -error;
  return static_cast<int>(answer<rdma_ucm_destroy_id_resp>().events_reported);
}

int Program::bind(std::uint32_t id, const SocketAddress& at) {
  rdma_ucm_bind_ip body{};
  body.addr = to_sockaddr(at);
  body.id = id;
  return command(RDMA_USER_CM_CMD_BIND_IP, body);
}

int Program::listen(std::uint32_t id, std::uint32_t backlog) {
  return command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{.id = id, .backlog = backlog});
}

int Program::resolve_address(std::uint32_t id, const SocketAddress& to, const SocketAddress& from,
                             std::uint32_t timeout_ms) {
  rdma_ucm_resolve_ip body{};
  body.src_addr = to_sockaddr(from);
  body.dst_addr = to_sockaddr(to);
  body.id = id;
  body.timeout_ms = timeout_ms;
  return command(RDMA_USER_CM_CMD_RESOLVE_IP, body);
}

int Program::resolve_route(std::uint32_t id) {
  return command(RDMA_USER_CM_CMD_RESOLVE_ROUTE,
                 rdma_ucm_resolve_route{.id = id, .timeout_ms = 2000});
}

namespace {

void put(const std::string& data, rdma_ucm_conn_param& parameters) {
  parameters.valid = 1;
  if (data.empty()) return;
  std::memcpy(parameters.private_data, data.data(), data.size());
  parameters.private_data_len = static_cast<std::uint8_t>(data.size());
}

}  // namespace

int Program::connect(std::uint32_t id, const std::string& data, rdma_ucm_conn_param with) {
  rdma_ucm_connect body{};
  body.conn_param = with;
  put(data, body.conn_param);
  if (with.qp_num == 0) body.conn_param.qp_num = ++host.qpns;
  body.id = id;
  return command(RDMA_USER_CM_CMD_CONNECT, body);
}

int Program::accept(std::uint32_t id, const std::string& data, rdma_ucm_conn_param with) {
  rdma_ucm_accept body{};
  body.conn_param = with;
  put(data, body.conn_param);
  if (with.qp_num == 0) body.conn_param.qp_num = ++host.qpns;
  body.id = id;
  body.uid = kAcceptedUid;
  return command(RDMA_USER_CM_CMD_ACCEPT, body);
}

int Program::confirm(std::uint32_t id) {
  rdma_ucm_accept body{};
  body.id = id;
  return command(RDMA_USER_CM_CMD_ACCEPT, body);
}

int Program::reject(std::uint32_t id, const std::string& data, std::uint8_t reason) {
  rdma_ucm_reject body{};
  body.id = id;
  body.reason = reason;
  body.private_data_len = static_cast<std::uint8_t>(data.size());
  std::memcpy(body.private_data, data.data(), data.size());
  return command(RDMA_USER_CM_CMD_REJECT, body);
}

int Program::disconnect(std::uint32_t id) {
  return command(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{.id = id});
}

int Program::notify(std::uint32_t id, std::uint32_t event) {
  return command(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{.id = id, .event = event});
}

int Program::set_option(std::uint32_t id, std::uint32_t level, std::uint32_t name,
                        std::span<const std::byte> value) {
  rdma_ucm_set_option head{};
  head.id = id;
  head.level = level;
  head.optname = name;
  head.optlen = static_cast<std::uint32_t>(value.size());
  std::vector<std::byte> body(sizeof head + value.size());
  std::memcpy(body.data(), &head, sizeof head);
  std::ranges::copy(value, body.begin() + sizeof head);
  return command(RDMA_USER_CM_CMD_SET_OPTION, body);
}

int Program::query_route(std::uint32_t id, rdma_ucm_query_route_resp& route) {
  rdma_ucm_query body{};
  body.id = id;
  const int error = command(RDMA_USER_CM_CMD_QUERY_ROUTE, body);
  if (error == 0) route = answer<rdma_ucm_query_route_resp>();
  return error;
}

int Program::init_qp_attr(std::uint32_t id, std::uint32_t state, ib_uverbs_qp_attr& attributes) {
  rdma_ucm_init_qp_attr body{};
  body.id = id;
  body.qp_state = state;
  const int error = command(RDMA_USER_CM_CMD_INIT_QP_ATTR, body);
  if (error == 0) attributes = answer<ib_uverbs_qp_attr>();
  return error;
}

int Program::join(std::uint32_t id, const SocketAddress& group, std::uint32_t& membership,
                  std::uint64_t uid) {
  rdma_ucm_join_ip_mcast body{};
  body.uid = uid;
  body.addr = to_sockaddr(group);
  body.id = id;
  const int error = command(RDMA_USER_CM_CMD_JOIN_IP_MCAST, body);
  if (error == 0) membership = answer<rdma_ucm_create_id_resp>().id;
  return error;
}

int Program::leave(std::uint32_t membership) {
  rdma_ucm_destroy_id body{};
  body.id = membership;
  const int error = command(RDMA_USER_CM_CMD_LEAVE_MCAST, body);
  if (error != 0) return -error;
  return static_cast<int>(answer<rdma_ucm_destroy_id_resp>().events_reported);
}

int Program::migrate(Program& from, std::uint32_t id) {
  rdma_ucm_migrate_id body{};
  body.id = id;
  const int error =
      command(RDMA_USER_CM_CMD_MIGRATE_ID, std::as_bytes(std::span(&body, 1)), from.channel);
  from.check_signal();
  if (error != 0) return -error;
  return static_cast<int>(answer<rdma_ucm_migrate_resp>().events_reported);
}

std::optional<rdma_ucm_event_resp> Program::get_event() {
  const bool signalled = host.signals[channel] == 1;
  const int error = command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{});
  EXPECT_EQ(error, signalled ? 0 : EAGAIN) << "the signal tells whether there is an event";
  if (error != 0) return std::nullopt;
  return answer<rdma_ucm_event_resp>();
}

rdma_ucm_event_resp Program::expect(EventType type, int status) {
  const auto event = get_event();
  EXPECT_TRUE(event) << "no event, wanted " << static_cast<int>(type);
  if (!event) return {};
  EXPECT_EQ(event->event, static_cast<std::uint32_t>(type));
  EXPECT_EQ(static_cast<int>(event->status), status);
  return *event;
}

std::uint32_t Program::resolved(const SocketAddress& to, PortSpace space) {
  const std::uint32_t id = create(space);
  EXPECT_EQ(resolve_address(id, to), 0);
  EXPECT_EQ(expect(EventType::kAddrResolved).id, id);
  EXPECT_EQ(resolve_route(id), 0);
  EXPECT_EQ(expect(EventType::kRouteResolved).id, id);
  return id;
}

std::uint32_t Program::listening(const SocketAddress& at, PortSpace space, std::uint32_t backlog) {
  const std::uint32_t id = create(space);
  EXPECT_EQ(bind(id, at), 0);
  EXPECT_EQ(listen(id, backlog), 0);
  return id;
}

std::string data_of(const rdma_ucm_event_resp& event, bool datagram) {
  const auto* const from = datagram ? event.param.ud.private_data : event.param.conn.private_data;
  return {reinterpret_cast<const char*>(from)};
}

Connected establish(World& world, Program& client, Program& server, const SocketAddress& to) {
  Connected ends{};
  ends.active = client.resolved(to);
  rdma_ucm_conn_param parameters{};
  parameters.qp_num = 0x100 + ends.active;
  parameters.responder_resources = 3;
  parameters.initiator_depth = 5;
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 6;
  EXPECT_EQ(client.connect(ends.active, {}, parameters), 0);
  world.run();
  ends.passive = server.expect(EventType::kConnectRequest).id;
  parameters.qp_num = 0x200 + ends.passive;
  parameters.responder_resources = 5;
  parameters.initiator_depth = 3;
  EXPECT_EQ(server.accept(ends.passive, {}, parameters), 0);
  world.run();
  client.expect(EventType::kConnectResponse);
  EXPECT_EQ(client.confirm(ends.active), 0);
  world.run();
  server.expect(EventType::kEstablished);
  return ends;
}

}  // namespace softhca::management::rdma_cm
