// SPDX-License-Identifier: Apache-2.0

// A program that makes the mistakes of docs/mistakes.md, one after the other, each with queue pairs
// of its own. It prints a line for each:
//   NAME QPN STATUS VENDOR_ERR PEER-QPN PEER-STATUS PEER-VENDOR_ERR
// A status of -1: that side has no completion. Then it waits until its standard input ends, with
// the queue pairs that remain.
//
// usage: mistakes DEVICE GID-INDEX
//        mistakes DEVICE GID-INDEX peer                     the process that ends, for itself
//        mistakes DEVICE GID-INDEX tenants PORT [ADDRESS]   mistakes of a client towards a server
#include <sys/mman.h>
#include <sys/wait.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/system/meeting.hpp"
#include "tests/system/programs.hpp"

namespace {

constexpr std::size_t kPage = 4096;
constexpr int kAllRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
constexpr std::uint32_t kQkey = 0x1234;
constexpr std::uint32_t kNobody = 0x123456;  // a queue pair number that no queue pair has

/// The device, and how queue pairs find each other.
struct World {
  ibv_context* context;
  ibv_pd* pd;
  ibv_pd* other_pd;
  ibv_gid gid;
  int gid_index;
};

/// A page of memory with a region that covers it.
struct Memory {
  std::byte* bytes;
  ibv_mr* mr;

  Memory(ibv_pd* pd, int access = kAllRights)
      : bytes(static_cast<std::byte*>(
            mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        mr(ibv_reg_mr(pd, bytes, kPage, access)) {
    expect(mr != nullptr, "registering memory");
  }
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(bytes); }
  ibv_sge entry(std::uint32_t length = 8, std::uint64_t offset = 0) const {
    return {address() + offset, length, mr->lkey};
  }
  /// Ends the region. Its keys stay in the returned entry.
  ibv_sge deregistered() {
    const ibv_sge entry = this->entry();
    expect(ibv_dereg_mr(mr) == 0, "deregistering memory");
    return entry;
  }
};

/// How a queue pair is connected.
struct Terms {
  std::uint32_t destination = 0;  // 0: the other of the pair
  unsigned access = kAllRights & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  std::uint8_t reads_out = 1;
  std::uint8_t reads_in = 1;
};

void to_init(ibv_qp* qp, const Terms& terms) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = terms.access;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "to INIT");
}

/// From INIT to RTS, with few and short retries.
void connect(const World& world, ibv_qp* qp, const Terms& terms, const ibv_gid& gid) {
  const bool reliable = qp->qp_type == IBV_QPT_RC;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = terms.destination;
  attr.max_dest_rd_atomic = terms.reads_in;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(world.gid_index);
  attr.ah_attr.grh.hop_limit = 64;
  expect(
      ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)) == 0,
      "to RTR");
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 10;  // 4.2 ms
  attr.retry_cnt = attr.rnr_retry = 1;
  attr.max_rd_atomic = terms.reads_out;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_SQ_PSN |
                           (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                           IBV_QP_MAX_QP_RD_ATOMIC
                                     : 0)) == 0,
         "to RTS");
}

/// A queue pair with a completion queue of its own.
struct End {
  ibv_cq* cq;
  ibv_qp* qp;

  explicit End(const World& world, ibv_qp_type type = IBV_QPT_RC)
      : cq(ibv_create_cq(world.context, 16, nullptr, nullptr, 0)) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = type;
    init.cap = {4, 4, 4, 4, 64};
    qp = ibv_create_qp(world.pd, &init);
    expect(cq != nullptr && qp != nullptr, "making a queue pair");
  }
  void receive(ibv_sge entry) const {
    ibv_recv_wr wr{};
    wr.sg_list = &entry;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    expect(ibv_post_recv(qp, &wr, &bad) == 0, "posting a receive");
  }
  /// Posts a signalled work request.
  void post(std::vector<ibv_sge> entries, ibv_wr_opcode opcode, ibv_send_wr wr = {}) const {
    wr.sg_list = entries.data();
    wr.num_sge = static_cast<int>(entries.size());
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    expect(ibv_post_send(qp, &wr, &bad) == 0, "posting");
  }
  /// Posts a request on memory of the peer.
  void reach(ibv_wr_opcode opcode, ibv_sge local, std::uint64_t address, std::uint32_t key) const {
    ibv_send_wr wr{};
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      wr.wr.atomic.remote_addr = address;
      wr.wr.atomic.rkey = key;
    } else {
      wr.wr.rdma.remote_addr = address;
      wr.wr.rdma.rkey = key;
    }
    post({local}, opcode, wr);
  }
  ibv_wc wait() const {
    ibv_wc wc{};
    const std::time_t end = std::time(nullptr) + kPatience;
    int got = 0;
    while ((got = ibv_poll_cq(cq, 1, &wc)) == 0 && std::time(nullptr) < end) sched_yield();
    expect(got == 1, "no completion");
    return wc;
  }
  void expect_success() const { expect(wait().status == IBV_WC_SUCCESS, "what must succeed"); }
};

struct Pair {
  End near, far;

  explicit Pair(const World& world, ibv_qp_type type = IBV_QPT_RC)
      : near(world, type), far(world, type) {}
  /// Connects both, on the terms of each.
  Pair& join(const World& world, Terms near_terms = {}, Terms far_terms = {}) {
    if (near_terms.destination == 0) near_terms.destination = far.qp->qp_num;
    if (far_terms.destination == 0) far_terms.destination = near.qp->qp_num;
    to_init(near.qp, near_terms);
    to_init(far.qp, far_terms);
    connect(world, far.qp, far_terms, world.gid);
    connect(world, near.qp, near_terms, world.gid);
    return *this;
  }
};

std::string side(const ibv_qp* qp, const ibv_wc* wc) {
  char text[64];
  std::snprintf(text, sizeof text, "%u %d 0x%03x", qp->qp_num,
                wc == nullptr ? -1 : static_cast<int>(wc->status),
                wc == nullptr ? 0 : wc->vendor_err);
  return text;
}

/// What the two ends of a mistake have seen.
struct Seen {
  const ibv_qp* near;
  ibv_wc near_wc{};
  const ibv_qp* far = nullptr;
  ibv_wc far_wc{};
  bool near_completed = true;
  bool far_completed = false;
};

void print(const char* name, const Seen& seen) {
  static ibv_qp none{};
  std::printf(
      "%s %s %s\n", name, side(seen.near, seen.near_completed ? &seen.near_wc : nullptr).c_str(),
      side(seen.far != nullptr ? seen.far : &none, seen.far_completed ? &seen.far_wc : nullptr)
          .c_str());
  std::fflush(stdout);
}

Seen sender_sees(const Pair& pair) {
  return {.near = pair.near.qp, .near_wc = pair.near.wait(), .far = pair.far.qp};
}

Seen both_see(const Pair& pair) {
  Seen seen = sender_sees(pair);
  seen.far_wc = pair.far.wait();
  seen.far_completed = true;
  return seen;
}

/// A write by a fresh connection.
Seen write(const World& world, std::uint64_t address, std::uint32_t key, Terms far_terms = {}) {
  Pair pair(world);
  pair.join(world, {}, far_terms);
  const Memory own(world.pd);
  pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), address, key);
  return sender_sees(pair);
}

/// A send of these entries by a fresh connection, to a receive that is long enough.
Seen send(const World& world, std::vector<ibv_sge> entries) {
  Pair pair(world);
  pair.join(world);
  const Memory theirs(world.pd);
  pair.far.receive(theirs.entry(kPage));
  pair.near.post(std::move(entries), IBV_WR_SEND);
  return sender_sees(pair);
}

// --- keys of the peer's memory

Seen wrong_rkey(const World& world) {
  const Memory theirs(world.pd);
  return write(world, theirs.address(), theirs.mr->rkey ^ 0x40000000);
}

Seen deregistered_rkey(const World& world) {
  Memory theirs(world.pd);
  const std::uint32_t key = theirs.mr->rkey;
  theirs.deregistered();
  return write(world, theirs.address(), key);
}

Seen out_of_bounds(const World& world) {
  const Memory theirs(world.pd);
  return write(world, theirs.address() + kPage - 7, theirs.mr->rkey);
}

Seen wrong_address(const World& world) {
  const Memory theirs(world.pd);
  return write(world, theirs.address() - 64, theirs.mr->rkey);
}

Seen no_remote_write(const World& world) {
  const Memory theirs(world.pd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  return write(world, theirs.address(), theirs.mr->rkey);
}

Seen no_queue_pair_write(const World& world) {
  const Memory theirs(world.pd);
  return write(world, theirs.address(), theirs.mr->rkey, {.access = IBV_ACCESS_REMOTE_READ});
}

Seen other_domain(const World& world) {
  const Memory theirs(world.other_pd);
  return write(world, theirs.address(), theirs.mr->rkey);
}

Seen read_wrong_rkey(const World& world) {
  Pair pair(world);
  pair.join(world);
  const Memory own(world.pd);
  pair.near.reach(IBV_WR_RDMA_READ, own.entry(), own.address(), own.mr->rkey ^ 0x40000000);
  return sender_sees(pair);
}

Seen atomic(const World& world, int access, std::uint64_t offset) {
  Pair pair(world);
  pair.join(world);
  const Memory own(world.pd);
  const Memory theirs(world.pd, access);
  pair.near.reach(IBV_WR_ATOMIC_FETCH_AND_ADD, own.entry(), theirs.address() + offset,
                  theirs.mr->rkey);
  return sender_sees(pair);
}

Seen unaligned_atomic(const World& world) { return atomic(world, kAllRights, 4); }
Seen no_remote_atomic(const World& world) {
  return atomic(world, kAllRights & ~IBV_ACCESS_REMOTE_ATOMIC, 0);
}

// --- memory windows

struct BoundWindow {
  Pair pair;
  Memory theirs;
  ibv_mw* window;
  std::uint32_t key;

  explicit BoundWindow(const World& world) : pair(world), theirs(world.pd) {
    pair.join(world);
    window = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
    expect(window != nullptr, "making a memory window");
    key = ibv_inc_rkey(window->rkey);
    bind(pair.far, theirs.mr);
    pair.far.expect_success();
  }
  void bind(const End& end, ibv_mr* mr) const {
    ibv_send_wr wr{};
    wr.bind_mw.mw = window;
    wr.bind_mw.rkey = key;
    wr.bind_mw.bind_info.mr = mr;
    wr.bind_mw.bind_info.addr = theirs.address();
    wr.bind_mw.bind_info.length = kPage;
    wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
    end.post({}, IBV_WR_BIND_MW, wr);
  }
};

Seen invalidated_window(const World& world) {
  const BoundWindow bound(world);
  ibv_send_wr wr{};
  wr.invalidate_rkey = bound.key;
  bound.pair.far.post({}, IBV_WR_LOCAL_INV, wr);
  bound.pair.far.expect_success();
  const Memory own(world.pd);
  bound.pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), bound.theirs.address(), bound.key);
  return sender_sees(bound.pair);
}

Seen window_of_another(const World& world) {
  const BoundWindow bound(world);
  return write(world, bound.theirs.address(), bound.key);
}

Seen bind_without_right(const World& world) {
  Pair pair(world);
  pair.join(world);
  const Memory memory(world.pd, IBV_ACCESS_LOCAL_WRITE);
  ibv_mw* const window = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
  ibv_send_wr wr{};
  wr.bind_mw.mw = window;
  wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
  wr.bind_mw.bind_info = {memory.mr, memory.address(), kPage, IBV_ACCESS_REMOTE_READ};
  pair.near.post({}, IBV_WR_BIND_MW, wr);
  return sender_sees(pair);
}

Seen invalidates_region(const World& world) {
  Pair pair(world);
  pair.join(world);
  const Memory own(world.pd);
  pair.far.receive(own.entry(kPage));
  ibv_send_wr wr{};
  wr.invalidate_rkey = own.mr->rkey;
  pair.near.post({own.entry()}, IBV_WR_SEND_WITH_INV, wr);
  return sender_sees(pair);
}

// --- memory of the work request

Seen wrong_lkey(const World& world) {
  const Memory own(world.pd);
  ibv_sge wrong = own.entry();
  wrong.lkey ^= 0x40000000;
  return send(world, {own.entry(), wrong});
}

Seen deregistered_lkey(const World& world) {
  Memory own(world.pd);
  return send(world, {own.deregistered()});
}

Seen entry_too_long(const World& world) {
  const Memory own(world.pd);
  return send(world, {own.entry(8, kPage - 7)});
}

Seen lkey_of_other_domain(const World& world) {
  const Memory own(world.other_pd);
  return send(world, {own.entry()});
}

Seen read_into_read_only(const World& world) {
  Pair pair(world);
  pair.join(world);
  const Memory own(world.pd, 0);
  const Memory theirs(world.pd);
  pair.near.reach(IBV_WR_RDMA_READ, own.entry(), theirs.address(), theirs.mr->rkey);
  return sender_sees(pair);
}

Seen short_atomic(const World& world) {
  Pair pair(world);
  pair.join(world);
  const Memory own(world.pd);
  pair.near.reach(IBV_WR_ATOMIC_FETCH_AND_ADD, own.entry(4), own.address(), own.mr->rkey);
  return sender_sees(pair);
}

// --- receives

Seen receive_too_short(const World& world) {
  Pair pair(world);
  pair.join(world);
  const Memory own(world.pd);
  pair.far.receive(own.entry(32));
  pair.near.post({own.entry(64)}, IBV_WR_SEND);
  return both_see(pair);
}

Seen receive_with_wrong_lkey(const World& world) {
  Pair pair(world);
  pair.join(world);
  const Memory own(world.pd);
  ibv_sge wrong = own.entry(64);
  wrong.lkey ^= 0x40000000;
  pair.far.receive(wrong);
  pair.near.post({own.entry(64)}, IBV_WR_SEND);
  return both_see(pair);
}

Seen no_receive(const World& world) {
  Pair pair(world);
  pair.join(world);
  const Memory own(world.pd);
  pair.near.post({own.entry(64)}, IBV_WR_SEND);
  return sender_sees(pair);
}

// --- connections

Seen write_to(const World& world, const Pair& pair) {
  const Memory own(world.pd);
  pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), own.address(), own.mr->rkey);
  return sender_sees(pair);
}

Seen wrong_number(const World& world) {
  Pair pair(world);
  return write_to(world, pair.join(world, {.destination = kNobody}));
}

Seen destroyed_queue_pair(const World& world) {
  Pair pair(world);
  pair.join(world);
  expect(ibv_destroy_qp(pair.far.qp) == 0, "destroying a queue pair");
  const Memory own(world.pd);
  pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), own.address(), own.mr->rkey);
  return {.near = pair.near.qp, .near_wc = pair.near.wait()};
}

Seen not_ready(const World& world) {
  Pair pair(world);
  Terms terms{.destination = pair.far.qp->qp_num};
  to_init(pair.far.qp, {});
  to_init(pair.near.qp, terms);
  connect(world, pair.near.qp, terms, world.gid);
  return write_to(world, pair);
}

Seen connected_elsewhere(const World& world) {
  Pair pair(world);
  return write_to(world, pair.join(world, {}, {.destination = kNobody}));
}

Seen other_type(const World& world) {
  Pair pair(world);
  pair.far = End(world, IBV_QPT_UC);
  return write_to(world, pair.join(world));
}

Seen no_reads_in(const World& world) {
  Pair pair(world);
  pair.join(world, {}, {.reads_in = 0});
  const Memory own(world.pd);
  pair.near.reach(IBV_WR_RDMA_READ, own.entry(), own.address(), own.mr->rkey);
  return sender_sees(pair);
}

Seen no_reads_out(const World& world) {
  Pair pair(world);
  pair.join(world, {.reads_out = 0});
  const Memory own(world.pd);
  pair.near.reach(IBV_WR_RDMA_READ, own.entry(), own.address(), own.mr->rkey);
  return sender_sees(pair);
}

/// The process that ends, see peer_process().
struct Child {
  int to[2], from[2];
  pid_t pid;
};

Child start_peer() {
  Child child{};
  expect(pipe(child.to) == 0 && pipe(child.from) == 0, "pipes");
  child.pid = fork();
  if (child.pid != 0) return child;
  dup2(child.to[0], STDIN_FILENO);
  dup2(child.from[1], STDOUT_FILENO);
  close(child.to[1]);
  return child;
}

Seen ended_process(const World& world, char** arguments) {
  Pair pair(world);
  Child child = start_peer();
  if (child.pid == 0) {
    std::string word = "peer";
    char* const of_peer[] = {arguments[0], arguments[1], arguments[2], word.data(), nullptr};
    execv("/proc/self/exe", of_peer);
    _exit(1);
  }
  std::uint32_t qpn = pair.near.qp->qp_num;
  expect(::write(child.to[1], &qpn, sizeof qpn) == sizeof qpn, "telling the peer");
  expect(read(child.from[0], &qpn, sizeof qpn) == sizeof qpn, "the peer's number");
  const Terms terms{.destination = qpn};
  to_init(pair.near.qp, terms);
  connect(world, pair.near.qp, terms, world.gid);
  close(child.to[1]);
  expect(waitpid(child.pid, nullptr, 0) == child.pid, "the peer's end");
  const Memory own(world.pd);
  pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), own.address(), own.mr->rkey);
  return {.near = pair.near.qp, .near_wc = pair.near.wait()};
}

/// A process with a connected queue pair, until its standard input ends.
void peer_process(const World& world) {
  const End end(world);
  Terms terms;
  expect(read(STDIN_FILENO, &terms.destination, 4) == 4, "the number of the other");
  to_init(end.qp, terms);
  connect(world, end.qp, terms, world.gid);
  expect(::write(STDOUT_FILENO, &end.qp->qp_num, 4) == 4, "telling the number");
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

// --- services that drop messages

Seen unreliable_wrong_rkey(const World& world) {
  Pair pair(world, IBV_QPT_UC);
  pair.join(world);
  const Memory own(world.pd);
  pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), own.address(), own.mr->rkey ^ 0x40000000);
  return sender_sees(pair);
}

Seen unreliable_receive_too_short(const World& world) {
  Pair pair(world, IBV_QPT_UC);
  pair.join(world);
  const Memory own(world.pd);
  pair.far.receive(own.entry(32));
  pair.near.post({own.entry(64)}, IBV_WR_SEND);
  return sender_sees(pair);
}

ibv_ah* address_handle(const World& world) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = world.gid;
  attr.grh.sgid_index = static_cast<std::uint8_t>(world.gid_index);
  attr.grh.hop_limit = 64;
  ibv_ah* const ah = ibv_create_ah(world.pd, &attr);
  expect(ah != nullptr, "making an address handle");
  return ah;
}

Seen datagram(const World& world, std::uint32_t length, bool handle_destroyed) {
  Pair pair(world, IBV_QPT_UD);
  bring_up_datagrams(pair.near.qp, kQkey);
  bring_up_datagrams(pair.far.qp, kQkey);
  const Memory own(world.pd);
  pair.far.receive(own.entry(64));
  ibv_ah* const ah = address_handle(world);
  ibv_send_wr wr{};
  wr.wr.ud.ah = ah;
  wr.wr.ud.remote_qpn = pair.far.qp->qp_num;
  wr.wr.ud.remote_qkey = kQkey;
  if (handle_destroyed) {
    const World other{world.context, world.other_pd, world.other_pd, world.gid, world.gid_index};
    wr.wr.ud.ah = address_handle(other);
  }
  pair.near.post({own.entry(length)}, IBV_WR_SEND, wr);
  return sender_sees(pair);
}

Seen datagram_receive_too_short(const World& world) { return datagram(world, 64, false); }
Seen address_handle_of_other_domain(const World& world) { return datagram(world, 8, true); }

// --- a peer of another tenant

struct Hello {
  ibv_gid gid;
  std::uint32_t qpns[3];
  std::uint64_t address;
  std::uint32_t rkey;
};

void tenants(const World& world, int port, const char* address) {
  const End ends[3] = {End(world), End(world), End(world)};
  const Memory own(world.pd, IBV_ACCESS_LOCAL_WRITE);
  Hello mine{.gid = world.gid, .qpns = {}, .address = own.address(), .rkey = own.mr->rkey};
  for (int i = 0; i < 3; ++i) mine.qpns[i] = ends[i].qp->qp_num;
  const int socket = connected_socket(port, address);
  const Hello theirs = exchange(socket, mine);
  const bool client = address != nullptr;
  for (int i = 0; i < 3; ++i) {
    const Terms terms{.destination = i == 2 && client ? kNobody : theirs.qpns[i]};
    to_init(ends[i].qp, terms);
    connect(world, ends[i].qp, terms, theirs.gid);
  }
  if (!client) ends[1].receive(own.entry(32));
  exchange(socket, 0);
  if (client) {
    ends[0].reach(IBV_WR_RDMA_WRITE, own.entry(), theirs.address, theirs.rkey);
    ends[1].post({own.entry(64)}, IBV_WR_SEND);
    ends[2].reach(IBV_WR_RDMA_WRITE, own.entry(), theirs.address, theirs.rkey);
    const char* const names[] = {"tenant-access", "tenant-receive", "tenant-number"};
    for (int i = 0; i < 3; ++i) {
      const Seen seen{.near = ends[i].qp, .near_wc = ends[i].wait()};
      std::printf("%s %s %u -1 0x000\n", names[i], side(seen.near, &seen.near_wc).c_str(),
                  i == 2 ? 0 : theirs.qpns[i]);
    }
  }
  exchange(socket, 0);
}

const std::pair<const char*, Seen (*)(const World&)> kMistakes[] = {
    {"wrong-rkey", wrong_rkey},
    {"deregistered-rkey", deregistered_rkey},
    {"out-of-bounds", out_of_bounds},
    {"wrong-address", wrong_address},
    {"no-remote-write", no_remote_write},
    {"no-queue-pair-write", no_queue_pair_write},
    {"other-domain", other_domain},
    {"read-wrong-rkey", read_wrong_rkey},
    {"unaligned-atomic", unaligned_atomic},
    {"no-remote-atomic", no_remote_atomic},
    {"invalidated-window", invalidated_window},
    {"window-of-another", window_of_another},
    {"bind-without-right", bind_without_right},
    {"invalidates-region", invalidates_region},
    {"wrong-lkey", wrong_lkey},
    {"deregistered-lkey", deregistered_lkey},
    {"entry-too-long", entry_too_long},
    {"lkey-other-domain", lkey_of_other_domain},
    {"read-into-read-only", read_into_read_only},
    {"short-atomic", short_atomic},
    {"receive-too-short", receive_too_short},
    {"receive-wrong-lkey", receive_with_wrong_lkey},
    {"no-receive", no_receive},
    {"wrong-number", wrong_number},
    {"destroyed", destroyed_queue_pair},
    {"not-ready", not_ready},
    {"connected-elsewhere", connected_elsewhere},
    {"other-type", other_type},
    {"no-reads-in", no_reads_in},
    {"no-reads-out", no_reads_out},
    {"uc-wrong-rkey", unreliable_wrong_rkey},
    {"uc-receive-too-short", unreliable_receive_too_short},
    {"ud-receive-too-short", datagram_receive_too_short},
    {"ud-other-domain", address_handle_of_other_domain},
};

}  // namespace

int main(int argc, char** argv) {
  expect(argc >= 3, "usage: mistakes DEVICE GID-INDEX [peer | tenants PORT [ADDRESS]]");
  World world{};
  world.context = open_device(argv[1]);
  world.gid_index = std::atoi(argv[2]);
  expect(ibv_query_gid(world.context, 1, world.gid_index, &world.gid) == 0, "the GID");
  world.pd = ibv_alloc_pd(world.context);
  world.other_pd = ibv_alloc_pd(world.context);
  expect(world.pd != nullptr && world.other_pd != nullptr, "making protection domains");
  const std::string mode = argc > 3 ? argv[3] : "";
  if (mode == "peer") return peer_process(world), 0;
  if (mode == "tenants") return tenants(world, std::atoi(argv[4]), argc > 5 ? argv[5] : nullptr), 0;
  print("process-ended", ended_process(world, argv));
  for (const auto& [name, make] : kMistakes) print(name, make(world));
  std::puts("all");
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
