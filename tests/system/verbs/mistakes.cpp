// SPDX-License-Identifier: Apache-2.0

// Two programs that make the mistakes of docs/mistakes.md, one after the other, each with queue
// pairs of its own. Both go through the same functions, step by step. What belongs to one side
// happens in that program only; its result goes to both. The near side sends. It prints a line for
// each mistake, with what both sides have seen.
//   NAME QPN STATUS VENDOR_ERR STATE PEER-QPN PEER-STATUS PEER-VENDOR_ERR PEER-STATE
// A status of -1: that side has no completion. Then both wait until the standard input of the near
// side ends, with the queue pairs that remain.
//
// usage: mistakes DEVICE PORT                  the far side
//        mistakes DEVICE PORT ADDRESS OTHER    the near side; OTHER: the address of another tenant
//        mistakes DEVICE peer                  the process that ends, for the far side
#include <sys/mman.h>
#include <sys/wait.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/system/meeting.hpp"
#include "tests/system/programs.hpp"

namespace {

constexpr std::size_t kPage = 4096;
constexpr int kAllRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
constexpr std::uint32_t kQkey = 0x1234;
constexpr std::uint8_t kSoon = 14;           // timeout of 67 ms, for a peer that does not answer
constexpr std::uint32_t kNobody = 0x123456;  // a queue pair number that no queue pair has

enum Side { kNear, kFar };
struct Barrier;

/// The device of this side, and how it reaches the other.
struct World {
  Side side = kNear;
  int socket = -1;
  const Barrier* barrier = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_pd* other_pd = nullptr;
  ibv_gid gids[2]{};       // of this side
  ibv_gid peer_gids[2]{};  // of the other
  ibv_gid other_gid{};     // neither of which has it, or the near one's own

  /// Returns, on both sides, what `make` returns on one.
  template <class Make>
  auto get(Side at, Make&& make) const {
    decltype(make()) mine{};
    if (side == at) mine = make();
    const auto theirs = exchange(socket, mine);
    return side == at ? mine : theirs;
  }
  template <class Act>
  void on(Side at, Act&& act) const {
    get(at, [&] {
      act();
      return 0;
    });
  }
};

/// A page of memory of one side, with a region that covers it.
struct Memory {
  const World& world;
  Side side;
  struct Region {
    std::uint64_t address;
    ibv_mr* mr;
    std::uint32_t lkey, rkey;
  } region;

  Memory(const World& of, Side at, int access = kAllRights, bool in_other_domain = false)
      : world(of), side(at) {
    region = world.get(side, [&] {
      void* const page =
          mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      ibv_mr* const mr =
          ibv_reg_mr(in_other_domain ? world.other_pd : world.pd, page, kPage, access);
      expect(mr != nullptr, "registering memory");
      return Region{reinterpret_cast<std::uintptr_t>(page), mr, mr->lkey, mr->rkey};
    });
  }
  std::uint64_t address() const { return region.address; }
  std::uint32_t rkey() const { return region.rkey; }
  ibv_sge entry(std::uint32_t length = 8, std::uint64_t offset = 0) const {
    return {address() + offset, length, region.lkey};
  }
  /// Ends the region. Its keys stay in the returned entry.
  ibv_sge deregistered() const {
    world.on(side, [&] { expect(ibv_dereg_mr(region.mr) == 0, "deregistering memory"); });
    return entry();
  }
};

/// How a queue pair is connected.
struct Terms {
  std::uint32_t destination = 0;  // 0: the other of the pair
  unsigned access = kAllRights & ~(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  std::uint8_t reads_out = 1;
  std::uint8_t reads_in = 1;
  std::uint32_t sq_psn = 0;
  std::uint32_t rq_psn = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint8_t timeout = 20;  // so long that it ends nothing, also on a busy machine
  std::uint8_t rnr_retry = 1;
  const ibv_gid* gid = nullptr;  // of the other; null: that of its first address
  std::uint8_t gid_index = 0;    // of this side
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

void to_rtr(const World& world, ibv_qp* qp, const Terms& terms) {
  const bool reliable = qp->qp_type == IBV_QPT_RC;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = terms.mtu;
  attr.dest_qp_num = terms.destination;
  attr.rq_psn = terms.rq_psn;
  attr.max_dest_rd_atomic = terms.reads_in;
  attr.min_rnr_timer = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = terms.gid != nullptr ? *terms.gid : world.peer_gids[0];
  attr.ah_attr.grh.sgid_index = terms.gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  expect(
      ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)) == 0,
      "to RTR");
}

/// With few retries.
void to_rts(ibv_qp* qp, const Terms& terms) {
  const bool reliable = qp->qp_type == IBV_QPT_RC;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = terms.sq_psn;
  attr.timeout = terms.timeout;
  attr.retry_cnt = 1;
  attr.rnr_retry = terms.rnr_retry;
  attr.max_rd_atomic = terms.reads_out;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_SQ_PSN |
                           (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                           IBV_QP_MAX_QP_RD_ATOMIC
                                     : 0)) == 0,
         "to RTS");
}

struct Polled {
  bool completed;
  ibv_wc wc;
};

/// A queue pair of one side with a completion queue of its own.
struct End {
  const World* world;
  Side side;
  struct Handles {
    ibv_cq* cq;
    ibv_qp* qp;
    ibv_qp_type type;
    std::uint32_t number;
  } handles{};

  End(const World& of, Side at, ibv_qp_type type = IBV_QPT_RC, bool with_srq = false)
      : world(&of), side(at) {
    handles = world->get(side, [&] {
      ibv_cq* const cq = ibv_create_cq(world->context, 16, nullptr, nullptr, 0);
      ibv_srq_init_attr srq{nullptr, {4, 4, 0}};
      ibv_qp_init_attr init{};
      init.send_cq = init.recv_cq = cq;
      init.srq = with_srq ? ibv_create_srq(world->pd, &srq) : nullptr;
      init.qp_type = type;
      init.cap = {4, 4, 4, 4, 64};
      ibv_qp* const qp = ibv_create_qp(world->pd, &init);
      expect(cq != nullptr && qp != nullptr, "making a queue pair");
      return Handles{cq, qp, type, qp->qp_num};
    });
  }
  std::uint32_t number() const { return handles.number; }
  void receive(ibv_sge entry) const {
    world->on(side, [&] {
      ibv_recv_wr wr{};
      wr.sg_list = &entry;
      wr.num_sge = 1;
      ibv_recv_wr* bad = nullptr;
      expect(ibv_post_recv(handles.qp, &wr, &bad) == 0, "posting a receive");
    });
  }
  /// Posts a signalled work request.
  void post(std::vector<ibv_sge> entries, ibv_wr_opcode opcode, ibv_send_wr wr = {}) const {
    wr.sg_list = entries.data();
    wr.num_sge = static_cast<int>(entries.size());
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    world->on(side, [&] {
      ibv_send_wr* bad = nullptr;
      expect(ibv_post_send(handles.qp, &wr, &bad) == 0, "posting");
    });
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
    return world->get(side, [&] {
      ibv_wc wc{};
      const std::time_t end = std::time(nullptr) + kPatience;
      int got = 0;
      while ((got = ibv_poll_cq(handles.cq, 1, &wc)) == 0 && std::time(nullptr) < end)
        sched_yield();
      expect(got == 1, "no completion");
      return wc;
    });
  }
  /// Returns the first completion that is there and not that of a flushed receive.
  Polled poll() const {
    return world->get(side, [&] {
      Polled polled{};
      while (!polled.completed && ibv_poll_cq(handles.cq, 1, &polled.wc) == 1)
        polled.completed = polled.wc.status != IBV_WC_WR_FLUSH_ERR;
      return polled;
    });
  }
  void expect_success() const { expect(wait().status == IBV_WC_SUCCESS, "what must succeed"); }
  ibv_qp_state state() const {
    return world->get(side, [&] {
      ibv_qp_attr attr{};
      ibv_qp_init_attr init{};
      expect(ibv_query_qp(handles.qp, &attr, IBV_QP_STATE, &init) == 0, "the state");
      return attr.qp_state;
    });
  }
  void modify(ibv_qp_state to) const {
    world->on(side, [&] {
      ibv_qp_attr attr{};
      attr.qp_state = to;
      expect(ibv_modify_qp(handles.qp, &attr, IBV_QP_STATE) == 0, "to a state");
    });
  }
  /// From RESET or INIT to RTR, or on to RTS.
  void connect(const Terms& terms, ibv_qp_state to = IBV_QPS_RTS) const {
    world->on(side, [&] {
      to_init(handles.qp, terms);
      if (to == IBV_QPS_INIT) return;
      to_rtr(*world, handles.qp, terms);
      if (to == IBV_QPS_RTS) to_rts(handles.qp, terms);
    });
  }
};

struct Pair {
  End near, far;

  explicit Pair(const World& world, ibv_qp_type type = IBV_QPT_RC)
      : near(world, kNear, type), far(world, kFar, type) {}
  Pair(End one, End other) : near(one), far(other) {}
  /// Connects both, on the terms of each, the far one up to this state.
  Pair& join(Terms near_terms = {}, Terms far_terms = {}, ibv_qp_state far_state = IBV_QPS_RTS) {
    if (near_terms.destination == 0) near_terms.destination = far.number();
    if (far_terms.destination == 0) far_terms.destination = near.number();
    far.connect(far_terms, far_state);
    near.connect(near_terms);
    return *this;
  }
};

/// What one end of a mistake has seen.
struct EndSeen {
  std::uint32_t number = 0;
  int status = -1;
  std::uint32_t vendor_err = 0;
  int state = -1;

  EndSeen() = default;
  EndSeen(const End& end, bool completed, const ibv_wc& wc)
      : number(end.number()),
        status(completed ? static_cast<int>(wc.status) : -1),
        vendor_err(completed ? wc.vendor_err : 0),
        state(end.state()) {}
  void print() const { std::printf(" %u %d 0x%03x %d", number, status, vendor_err, state); }
};
struct Seen {
  EndSeen near, far;
};

void print(const char* name, const Seen& seen) {
  std::printf("%s", name);
  seen.near.print();
  seen.far.print();
  std::puts("");
  std::fflush(stdout);
}

bool is_refusal(ibv_wc_status status) {
  return status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR ||
         status == IBV_WC_REM_OP_ERR;
}

/// Sends messages that arrive after all that were sent before them.
struct Barrier {
  Pair pair;
  Memory own, theirs;

  explicit Barrier(const World& world) : pair(world), own(world, kNear), theirs(world, kFar) {
    pair.join();
  }
  void pass() const {
    pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), theirs.address(), theirs.rkey());
    pair.near.expect_success();
  }
};

/// The far end once all messages to it have been handled.
EndSeen far_sees(const World& world, const Pair& pair, const ibv_wc* near_wc) {
  world.barrier->pass();
  if (near_wc != nullptr && is_refusal(near_wc->status)) {
    const std::time_t end = std::time(nullptr) + kPatience;
    while (pair.far.state() != IBV_QPS_ERR)
      expect(std::time(nullptr) < end, "a peer that refused does not fail");
  }
  const auto [completed, wc] = pair.far.poll();
  return EndSeen(pair.far, completed, wc);
}

Seen both_see(const World& world, const Pair& pair) {
  const ibv_wc wc = pair.near.wait();
  return {EndSeen(pair.near, true, wc), far_sees(world, pair, &wc)};
}

/// What the near end sees of a peer that is gone.
Seen near_sees(const End& near) {
  const ibv_wc wc = near.wait();
  return {EndSeen(near, true, wc), {}};
}

/// A write by a fresh connection.
Seen write(const World& world, std::uint64_t address, std::uint32_t key, Terms far_terms = {}) {
  Pair pair(world);
  pair.join({}, far_terms);
  const Memory own(world, kNear);
  pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), address, key);
  return both_see(world, pair);
}

/// A send of these entries over this connection, to a receive that is long enough.
Seen send(const World& world, const Pair& pair, std::vector<ibv_sge> entries) {
  const Memory theirs(world, kFar);
  pair.far.receive(theirs.entry(kPage));
  pair.near.post(std::move(entries), IBV_WR_SEND);
  return both_see(world, pair);
}

Seen send(const World& world, std::vector<ibv_sge> entries) {
  Pair pair(world);
  return send(world, pair.join(), std::move(entries));
}

/// A send of so many bytes by a fresh connection on these terms.
Seen send_on(const World& world, const Terms& near, const Terms& far, std::uint32_t bytes = 8,
             ibv_qp_type type = IBV_QPT_RC) {
  Pair pair(world, type);
  pair.join(near, far);
  const Memory own(world, kNear);
  return send(world, pair, {own.entry(bytes)});
}

// --- keys of the peer's memory

Seen wrong_rkey(const World& world) {
  const Memory theirs(world, kFar);
  return write(world, theirs.address(), theirs.rkey() ^ 0x40000000);
}

Seen deregistered_rkey(const World& world) {
  const Memory theirs(world, kFar);
  theirs.deregistered();
  return write(world, theirs.address(), theirs.rkey());
}

Seen out_of_bounds(const World& world) {
  const Memory theirs(world, kFar);
  return write(world, theirs.address() + kPage - 7, theirs.rkey());
}

Seen wrong_address(const World& world) {
  const Memory theirs(world, kFar);
  return write(world, theirs.address() - 64, theirs.rkey());
}

Seen no_remote_write(const World& world) {
  const Memory theirs(world, kFar, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  return write(world, theirs.address(), theirs.rkey());
}

Seen no_queue_pair_write(const World& world) {
  const Memory theirs(world, kFar);
  return write(world, theirs.address(), theirs.rkey(), {.access = IBV_ACCESS_REMOTE_READ});
}

Seen other_domain(const World& world) {
  const Memory theirs(world, kFar, kAllRights, true);
  return write(world, theirs.address(), theirs.rkey());
}

/// A request of 8 bytes over this connection, on memory with these rights.
Seen reach(const World& world, const Pair& pair, ibv_wr_opcode opcode, int access = kAllRights,
           std::uint64_t offset = 0) {
  const Memory own(world, kNear), theirs(world, kFar, access);
  pair.near.reach(opcode, own.entry(), theirs.address() + offset, theirs.rkey());
  return both_see(world, pair);
}

Seen read_wrong_rkey(const World& world) {
  Pair pair(world);
  pair.join();
  const Memory own(world, kNear), theirs(world, kFar);
  pair.near.reach(IBV_WR_RDMA_READ, own.entry(), theirs.address(), theirs.rkey() ^ 0x40000000);
  return both_see(world, pair);
}

Seen unaligned_atomic(const World& world) {
  Pair pair(world);
  return reach(world, pair.join(), IBV_WR_ATOMIC_FETCH_AND_ADD, kAllRights, 4);
}

Seen no_remote_atomic(const World& world) {
  Pair pair(world);
  return reach(world, pair.join(), IBV_WR_ATOMIC_FETCH_AND_ADD,
               kAllRights & ~IBV_ACCESS_REMOTE_ATOMIC);
}

/// The region stays, its pages are gone.
void unmap(const Memory& memory) {
  memory.world.on(memory.side, [&] {
    expect(munmap(reinterpret_cast<void*>(memory.address()), kPage) == 0, "unmapping");
  });
}

Seen unmapped_rkey(const World& world) {
  const Memory theirs(world, kFar);
  unmap(theirs);
  return write(world, theirs.address(), theirs.rkey());
}

// --- memory windows

struct BoundWindow {
  Pair pair;
  Memory theirs;
  struct Window {
    ibv_mw* mw;
    std::uint32_t key;
  } window;

  explicit BoundWindow(const World& world) : pair(world), theirs(world, kFar) {
    pair.join();
    window = world.get(kFar, [&] {
      ibv_mw* const made = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
      expect(made != nullptr, "making a memory window");
      return Window{made, ibv_inc_rkey(made->rkey)};
    });
    ibv_send_wr wr{};
    wr.bind_mw.mw = window.mw;
    wr.bind_mw.rkey = window.key;
    wr.bind_mw.bind_info = {theirs.region.mr, theirs.address(), kPage, IBV_ACCESS_REMOTE_WRITE};
    pair.far.post({}, IBV_WR_BIND_MW, wr);
    pair.far.expect_success();
  }
};

Seen invalidated_window(const World& world) {
  const BoundWindow bound(world);
  ibv_send_wr wr{};
  wr.invalidate_rkey = bound.window.key;
  bound.pair.far.post({}, IBV_WR_LOCAL_INV, wr);
  bound.pair.far.expect_success();
  const Memory own(world, kNear);
  bound.pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), bound.theirs.address(), bound.window.key);
  return both_see(world, bound.pair);
}

Seen window_of_another(const World& world) {
  const BoundWindow bound(world);
  return write(world, bound.theirs.address(), bound.window.key);
}

Seen bind_without_right(const World& world) {
  Pair pair(world);
  pair.join();
  const Memory memory(world, kNear, IBV_ACCESS_LOCAL_WRITE);
  ibv_send_wr wr{};
  if (world.side == kNear) {
    ibv_mw* const window = ibv_alloc_mw(world.pd, IBV_MW_TYPE_2);
    wr.bind_mw.mw = window;
    wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
    wr.bind_mw.bind_info = {memory.region.mr, memory.address(), kPage, IBV_ACCESS_REMOTE_READ};
  }
  pair.near.post({}, IBV_WR_BIND_MW, wr);
  return both_see(world, pair);
}

Seen invalidates_region(const World& world) {
  Pair pair(world);
  pair.join();
  const Memory own(world, kNear), theirs(world, kFar);
  pair.far.receive(theirs.entry(kPage));
  ibv_send_wr wr{};
  wr.invalidate_rkey = theirs.rkey();
  pair.near.post({own.entry()}, IBV_WR_SEND_WITH_INV, wr);
  return both_see(world, pair);
}

// --- memory of the work request

Seen wrong_lkey(const World& world) {
  const Memory own(world, kNear);
  ibv_sge wrong = own.entry();
  wrong.lkey ^= 0x40000000;
  return send(world, {own.entry(), wrong});
}

Seen deregistered_lkey(const World& world) {
  const Memory own(world, kNear);
  return send(world, {own.deregistered()});
}

Seen entry_too_long(const World& world) {
  const Memory own(world, kNear);
  return send(world, {own.entry(8, kPage - 7)});
}

Seen lkey_of_other_domain(const World& world) {
  const Memory own(world, kNear, kAllRights, true);
  return send(world, {own.entry()});
}

Seen unmapped_lkey(const World& world) {
  const Memory own(world, kNear);
  unmap(own);
  return send(world, {own.entry()});
}

Seen read_into_read_only(const World& world) {
  Pair pair(world);
  pair.join();
  const Memory own(world, kNear, 0), theirs(world, kFar);
  pair.near.reach(IBV_WR_RDMA_READ, own.entry(), theirs.address(), theirs.rkey());
  return both_see(world, pair);
}

Seen short_atomic(const World& world) {
  Pair pair(world);
  pair.join();
  const Memory own(world, kNear), theirs(world, kFar);
  pair.near.reach(IBV_WR_ATOMIC_FETCH_AND_ADD, own.entry(4), theirs.address(), theirs.rkey());
  return both_see(world, pair);
}

// --- receives

/// A send of 64 bytes to a receive with this entry.
Seen send_to(const World& world, ibv_sge entry, ibv_qp_type type = IBV_QPT_RC) {
  Pair pair(world, type);
  pair.join();
  const Memory own(world, kNear);
  pair.far.receive(entry);
  pair.near.post({own.entry(64)}, IBV_WR_SEND);
  return both_see(world, pair);
}

Seen receive_too_short(const World& world) { return send_to(world, Memory(world, kFar).entry(32)); }

Seen receive_with_wrong_lkey(const World& world) {
  ibv_sge wrong = Memory(world, kFar).entry(64);
  wrong.lkey ^= 0x40000000;
  return send_to(world, wrong);
}

Seen unmapped_receive(const World& world) {
  const Memory theirs(world, kFar);
  unmap(theirs);
  return send_to(world, theirs.entry(64));
}

/// A send to a peer that posts no receive.
Seen send_without_receive(const World& world, const Pair& pair) {
  const Memory own(world, kNear);
  pair.near.post({own.entry(64)}, IBV_WR_SEND);
  return both_see(world, pair);
}

Seen no_receive(const World& world) {
  Pair pair(world);
  return send_without_receive(world, pair.join());
}

Seen no_shared_receive(const World& world) {
  Pair pair(End(world, kNear), End(world, kFar, IBV_QPT_RC, true));
  return send_without_receive(world, pair.join());
}

/// The receive is posted when the message has been refused at least once.
Seen late_receive(const World& world) {
  Pair pair(world);
  pair.join({.rnr_retry = 7});
  const Memory own(world, kNear), theirs(world, kFar);
  pair.near.post({own.entry(64)}, IBV_WR_SEND);
  world.barrier->pass();
  pair.far.receive(theirs.entry(64));
  return both_see(world, pair);
}

// --- connections

Seen write_over(const World& world, const Pair& pair) {
  return reach(world, pair, IBV_WR_RDMA_WRITE);
}

Seen write_on(const World& world, const Terms& near, const Terms& far = {},
              ibv_qp_state far_state = IBV_QPS_RTS) {
  Pair pair(world);
  return write_over(world, pair.join(near, far, far_state));
}

Seen wrong_number(const World& world) {
  return write_on(world, {.destination = kNobody, .timeout = kSoon});
}
Seen not_ready(const World& world) { return write_on(world, {.timeout = kSoon}, {}, IBV_QPS_INIT); }
Seen receives_only(const World& world) { return write_on(world, {}, {}, IBV_QPS_RTR); }
Seen connected_elsewhere(const World& world) {
  return write_on(world, {.timeout = kSoon}, {.destination = kNobody});
}
Seen no_such_address(const World& world) {
  ibv_gid gid = world.peer_gids[0];
  gid.raw[15] = 99;
  return write_on(world, {.timeout = kSoon, .gid = &gid});
}
Seen address_of_another(const World& world) {
  return write_on(world, {.timeout = kSoon, .gid = &world.other_gid});
}
Seen other_address(const World& world) {
  return write_on(world, {.timeout = kSoon}, {.gid = &world.peer_gids[1], .gid_index = 1});
}

/// A peer in this state.
Seen moved(const World& world, ibv_qp_state state) {
  Pair pair(world);
  pair.join({.timeout = kSoon});
  pair.far.modify(state);
  return write_over(world, pair);
}
Seen failed_peer(const World& world) { return moved(world, IBV_QPS_ERR); }
Seen reset_peer(const World& world) { return moved(world, IBV_QPS_RESET); }

Seen destroyed_queue_pair(const World& world) {
  Pair pair(world);
  pair.join({.timeout = kSoon});
  const Memory own(world, kNear), theirs(world, kFar);
  world.on(kFar,
           [&] { expect(ibv_destroy_qp(pair.far.handles.qp) == 0, "destroying a queue pair"); });
  pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), theirs.address(), theirs.rkey());
  return near_sees(pair.near);
}

Seen other_type(const World& world) {
  Pair pair(End(world, kNear), End(world, kFar, IBV_QPT_UC));
  return write_over(world, pair.join({.timeout = kSoon}));
}

/// Without a timeout a message waits for ever: longer than another one for its timeouts.
Seen no_timeout(const World& world) {
  Pair pair(world);
  pair.join({.destination = kNobody, .timeout = 0});
  const Memory own(world, kNear), theirs(world, kFar);
  pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), theirs.address(), theirs.rkey());
  Pair other(world);
  other.join({.destination = kNobody, .timeout = kSoon});
  other.near.reach(IBV_WR_RDMA_WRITE, own.entry(), theirs.address(), theirs.rkey());
  expect(other.near.wait().status == IBV_WC_RETRY_EXC_ERR, "what has a timeout must fail");
  const auto [completed, wc] = pair.near.poll();
  return {EndSeen(pair.near, completed, wc), far_sees(world, pair, nullptr)};
}

// --- packet sequence numbers and path MTUs

Seen psn_too_high(const World& world) {
  return send_on(world, {.sq_psn = 10, .timeout = kSoon}, {});
}
Seen psn_too_low(const World& world) { return send_on(world, {.timeout = kSoon}, {.rq_psn = 10}); }
/// The peer takes the only packet for one that it has executed.
Seen psn_low_by_one(const World& world) { return send_on(world, {}, {.rq_psn = 1}); }
Seen psn_low_in_message(const World& world) { return send_on(world, {}, {.rq_psn = 1}, 2048); }

/// The peer was reset and connected again on the same terms, this side was not.
Seen peer_reconnected(const World& world) {
  Pair pair(world);
  pair.join({.timeout = kSoon});
  const Memory own(world, kNear), theirs(world, kFar);
  pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), theirs.address(), theirs.rkey());
  pair.near.expect_success();
  pair.far.modify(IBV_QPS_RESET);
  pair.far.connect({.destination = pair.near.number()});
  return write_over(world, pair);
}

Seen mtu_larger(const World& world) { return send_on(world, {.mtu = IBV_MTU_2048}, {}, 1500); }
Seen mtu_larger_short(const World& world) {
  return send_on(world, {.mtu = IBV_MTU_2048}, {}, 1024);
}
Seen mtu_smaller(const World& world) { return send_on(world, {}, {.mtu = IBV_MTU_2048}, 1500); }
Seen mtu_smaller_short(const World& world) {
  return send_on(world, {}, {.mtu = IBV_MTU_2048}, 1024);
}
Seen mtu_of_read(const World& world) {
  Pair pair(world);
  pair.join({.mtu = IBV_MTU_2048});
  const Memory own(world, kNear), theirs(world, kFar);
  pair.near.reach(IBV_WR_RDMA_READ, own.entry(1500), theirs.address(), theirs.rkey());
  return both_see(world, pair);
}

Seen no_memory(const World& world) {
  Pair pair(world);
  pair.join();
  pair.near.post({}, IBV_WR_RDMA_WRITE);
  return both_see(world, pair);
}

// --- reads and atomics at once

Seen no_reads_in(const World& world) {
  Pair pair(world);
  return reach(world, pair.join({}, {.reads_in = 0}), IBV_WR_RDMA_READ);
}
/// The key counts before the number of reads.
Seen no_reads_in_wrong_key(const World& world, ibv_wr_opcode opcode) {
  Pair pair(world);
  pair.join({}, {.reads_in = 0});
  const Memory own(world, kNear), theirs(world, kFar);
  pair.near.reach(opcode, own.entry(), theirs.address(), theirs.rkey() ^ 0x40000000);
  return both_see(world, pair);
}
Seen no_reads_in_wrong_rkey(const World& world) {
  return no_reads_in_wrong_key(world, IBV_WR_RDMA_READ);
}
Seen no_atomics_in_wrong_rkey(const World& world) {
  return no_reads_in_wrong_key(world, IBV_WR_ATOMIC_FETCH_AND_ADD);
}
Seen no_reads_out(const World& world) {
  Pair pair(world);
  return reach(world, pair.join({.reads_out = 0}), IBV_WR_RDMA_READ);
}
Seen no_atomics_in(const World& world) {
  Pair pair(world);
  return reach(world, pair.join({}, {.reads_in = 0}), IBV_WR_ATOMIC_FETCH_AND_ADD);
}
Seen no_atomics_out(const World& world) {
  Pair pair(world);
  return reach(world, pair.join({.reads_out = 0}), IBV_WR_ATOMIC_FETCH_AND_ADD);
}

/// The process that ends, see peer_process().
struct Child {
  int to[2], from[2];
  pid_t pid;
};

Child start_peer(char** arguments) {
  Child child{};
  expect(pipe(child.to) == 0 && pipe(child.from) == 0, "pipes");
  child.pid = fork();
  if (child.pid != 0) return child;
  dup2(child.to[0], STDIN_FILENO);
  dup2(child.from[1], STDOUT_FILENO);
  close(child.to[1]);
  std::string word = "peer";
  char* const of_peer[] = {arguments[0], arguments[1], word.data(), nullptr};
  execv("/proc/self/exe", of_peer);
  _exit(1);
}

/// What the process that ends must know of its peer.
struct PeerOf {
  std::uint32_t number;
  ibv_gid gid;
};

Seen ended_process(const World& world, char** arguments) {
  const End near(world, kNear);
  const Memory own(world, kNear);
  Child child{};
  const std::uint32_t number = world.get(kFar, [&] {
    child = start_peer(arguments);
    const PeerOf peer{near.number(), world.peer_gids[0]};
    std::uint32_t of_child = 0;
    expect(::write(child.to[1], &peer, sizeof peer) == sizeof peer, "telling the peer");
    expect(read(child.from[0], &of_child, sizeof of_child) == sizeof of_child, "its number");
    return of_child;
  });
  near.connect({.destination = number, .timeout = kSoon, .rnr_retry = 7});
  world.on(kFar, [&] {
    close(child.to[1]);
    expect(waitpid(child.pid, nullptr, 0) == child.pid, "the peer's end");
  });
  // A send: it waits for a receive until the daemon has noticed.
  near.post({own.entry()}, IBV_WR_SEND);
  return near_sees(near);
}

/// A process with a connected queue pair, until its standard input ends.
void peer_process(World& world) {
  PeerOf peer{};
  expect(read(STDIN_FILENO, &peer, sizeof peer) == sizeof peer, "the number of the other");
  world.peer_gids[0] = peer.gid;
  ibv_cq* const cq = ibv_create_cq(world.context, 1, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {1, 1, 1, 1, 0};
  ibv_qp* const qp = ibv_create_qp(world.pd, &init);
  expect(qp != nullptr, "making a queue pair");
  const Terms terms{.destination = peer.number};
  to_init(qp, terms);
  to_rtr(world, qp, terms);
  to_rts(qp, terms);
  expect(::write(STDOUT_FILENO, &qp->qp_num, 4) == 4, "telling the number");
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

// --- services that drop messages

Seen unreliable_wrong_rkey(const World& world) {
  Pair pair(world, IBV_QPT_UC);
  pair.join();
  const Memory own(world, kNear), theirs(world, kFar);
  pair.near.reach(IBV_WR_RDMA_WRITE, own.entry(), theirs.address(), theirs.rkey() ^ 0x40000000);
  return both_see(world, pair);
}

Seen unreliable_receive_too_short(const World& world) {
  return send_to(world, Memory(world, kFar).entry(32), IBV_QPT_UC);
}

Seen unreliable_psn_too_high(const World& world) {
  return send_on(world, {.sq_psn = 10}, {}, 8, IBV_QPT_UC);
}
Seen unreliable_psn_too_low(const World& world) {
  return send_on(world, {}, {.rq_psn = 10}, 8, IBV_QPT_UC);
}
Seen unreliable_mtu_larger(const World& world) {
  return send_on(world, {.mtu = IBV_MTU_2048}, {}, 1500, IBV_QPT_UC);
}

ibv_ah* address_handle(const World& world, ibv_pd* pd) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = world.peer_gids[0];
  attr.grh.hop_limit = 64;
  ibv_ah* const ah = ibv_create_ah(pd, &attr);
  expect(ah != nullptr, "making an address handle");
  return ah;
}

/// What is wrong with a datagram.
struct Datagram {
  std::uint32_t length = 8;
  std::uint32_t destination = 0;  // 0: the other of the pair
  std::uint32_t qkey = kQkey;
  bool in_other_domain = false;
  std::uint32_t beyond_number = 0;       // bits of `remote_qpn` beyond the 24 of a number
  std::uint32_t receive_key_change = 0;  // bits that are wrong in the key of the receive
};

Seen datagram(const World& world, const Datagram& sent) {
  Pair pair(world, IBV_QPT_UD);
  for (const End* end : {&pair.near, &pair.far})
    world.on(end->side, [&] { bring_up_datagrams(end->handles.qp, kQkey); });
  const Memory own(world, kNear), theirs(world, kFar);
  ibv_sge receive = theirs.entry(64);
  receive.lkey ^= sent.receive_key_change;
  pair.far.receive(receive);
  ibv_send_wr wr{};
  if (world.side == kNear)
    wr.wr.ud.ah = address_handle(world, sent.in_other_domain ? world.other_pd : world.pd);
  wr.wr.ud.remote_qpn =
      (sent.destination != 0 ? sent.destination : pair.far.number()) | sent.beyond_number;
  wr.wr.ud.remote_qkey = sent.qkey;
  pair.near.post({own.entry(sent.length)}, IBV_WR_SEND, wr);
  return both_see(world, pair);
}

Seen datagram_receive_too_short(const World& world) { return datagram(world, {.length = 64}); }
Seen datagram_to_nobody(const World& world) { return datagram(world, {.destination = kNobody}); }
Seen datagram_number_of_more_bits(const World& world) {
  return datagram(world, {.beyond_number = 0x3000000});
}
Seen datagram_receive_with_wrong_lkey(const World& world) {
  return datagram(world, {.receive_key_change = 0x40000000});
}
Seen datagram_with_wrong_qkey(const World& world) { return datagram(world, {.qkey = kQkey + 1}); }
Seen address_handle_of_other_domain(const World& world) {
  return datagram(world, {.in_other_domain = true});
}

const std::pair<const char*, Seen (*)(const World&)> kMistakes[] = {
    {"wrong-rkey", wrong_rkey},
    {"deregistered-rkey", deregistered_rkey},
    {"out-of-bounds", out_of_bounds},
    {"wrong-address", wrong_address},
    {"no-remote-write", no_remote_write},
    {"no-queue-pair-write", no_queue_pair_write},
    {"other-domain", other_domain},
    {"unmapped-rkey", unmapped_rkey},
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
    {"unmapped-lkey", unmapped_lkey},
    {"read-into-read-only", read_into_read_only},
    {"short-atomic", short_atomic},
    {"no-memory", no_memory},
    {"receive-too-short", receive_too_short},
    {"receive-wrong-lkey", receive_with_wrong_lkey},
    {"unmapped-receive", unmapped_receive},
    {"no-receive", no_receive},
    {"no-shared-receive", no_shared_receive},
    {"late-receive", late_receive},
    {"wrong-number", wrong_number},
    {"no-such-address", no_such_address},
    {"address-of-another", address_of_another},
    {"other-address", other_address},
    {"destroyed", destroyed_queue_pair},
    {"not-ready", not_ready},
    {"receives-only", receives_only},
    {"failed-peer", failed_peer},
    {"reset-peer", reset_peer},
    {"connected-elsewhere", connected_elsewhere},
    {"other-type", other_type},
    {"no-timeout", no_timeout},
    {"psn-too-high", psn_too_high},
    {"psn-too-low", psn_too_low},
    {"psn-low-by-one", psn_low_by_one},
    {"psn-low-in-message", psn_low_in_message},
    {"peer-reconnected", peer_reconnected},
    {"mtu-larger", mtu_larger},
    {"mtu-larger-short", mtu_larger_short},
    {"mtu-smaller", mtu_smaller},
    {"mtu-smaller-short", mtu_smaller_short},
    {"mtu-of-read", mtu_of_read},
    {"no-reads-in", no_reads_in},
    {"no-reads-in-wrong-rkey", no_reads_in_wrong_rkey},
    {"no-reads-out", no_reads_out},
    {"no-atomics-in", no_atomics_in},
    {"no-atomics-in-wrong-rkey", no_atomics_in_wrong_rkey},
    {"no-atomics-out", no_atomics_out},
    {"uc-wrong-rkey", unreliable_wrong_rkey},
    {"uc-receive-too-short", unreliable_receive_too_short},
    {"uc-psn-too-high", unreliable_psn_too_high},
    {"uc-psn-too-low", unreliable_psn_too_low},
    {"uc-mtu-larger", unreliable_mtu_larger},
    {"ud-receive-too-short", datagram_receive_too_short},
    {"ud-receive-wrong-lkey", datagram_receive_with_wrong_lkey},
    {"ud-wrong-number", datagram_to_nobody},
    {"ud-number-of-more-bits", datagram_number_of_more_bits},
    {"ud-wrong-qkey", datagram_with_wrong_qkey},
    {"ud-other-domain", address_handle_of_other_domain},
};

/// The two sides learn each other's addresses. `other` is needed on the near side.
void meet(World& world, int port, const char* address, const char* other) {
  world.side = address != nullptr ? kNear : kFar;
  world.socket = connected_socket(port, address);
  for (int i = 0; i < 2; ++i) world.peer_gids[i] = exchange(world.socket, world.gids[i]);
  if (world.side != kNear) return;
  world.other_gid.raw[10] = world.other_gid.raw[11] = 0xff;
  expect(inet_pton(AF_INET, other, &world.other_gid.raw[12]) == 1, "the other address");
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 3 || argc == 5, "usage: mistakes DEVICE {peer | PORT [ADDRESS OTHER]}");
  World world;
  world.context = open_device(argv[1]);
  for (int i = 0; i < 2; ++i)
    expect(ibv_query_gid(world.context, 1, i, &world.gids[i]) == 0, "a GID");
  world.pd = ibv_alloc_pd(world.context);
  world.other_pd = ibv_alloc_pd(world.context);
  expect(world.pd != nullptr && world.other_pd != nullptr, "making protection domains");
  if (std::string_view(argv[2]) == "peer") return peer_process(world), 0;
  meet(world, std::atoi(argv[2]), argc > 3 ? argv[3] : nullptr, argc > 4 ? argv[4] : nullptr);
  const Barrier barrier(world);
  world.barrier = &barrier;
  const Seen ended = ended_process(world, argv);
  if (world.side == kNear) print("process-ended", ended);
  for (const auto& [name, make] : kMistakes) {
    const Seen seen = make(world);
    if (world.side == kNear) print(name, seen);
  }
  world.on(kNear, [] {
    std::puts("all");
    std::fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
  });
  return 0;
}
