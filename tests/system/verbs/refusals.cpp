// SPDX-License-Identifier: Apache-2.0

// A program that makes calls which are refused: the second table of docs/mistakes.md. Each is made
// on a device opened anew, so that the limit of events of one device context does not hide any. It
// prints a line for each:
//   NAME RESULT ERRNO SENTENCE
// RESULT: what the call returned, an errno value by its name, NULL, or a number. SENTENCE: the one
// line that the provider wrote to standard error.
//
// usage: refusals DEVICE GID-INDEX ADDRESS
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <string>
#include <vector>

#include "tests/system/programs.hpp"

namespace {

constexpr std::size_t kPage = 4096;

/// The device, opened for one mistake, and objects for it.
struct World {
  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_gid gid;
  int gid_index;
  const char* address;  // of the tenant
};

/// What a call returned.
struct Returned {
  std::string text;
  int error;  // errno after it
};

Returned pointer(const void* object) { return {object == nullptr ? "NULL" : "an object", errno}; }
Returned number(int value) {
  const int error = errno;
  const char* const name = value > 0 ? strerrorname_np(value) : nullptr;
  return {name != nullptr ? name : std::to_string(value), error};
}

/// Runs a call, and keeps what it writes to standard error from the output of this program.
template <class Call>
void attempt(const char* name, Call&& call) {
  const int before = dup(STDERR_FILENO);
  const int lines = memfd_create("lines", 0);
  expect(before >= 0 && lines >= 0, "files");
  dup2(lines, STDERR_FILENO);
  errno = 0;
  const Returned returned = call();
  dup2(before, STDERR_FILENO);
  char text[2048] = "";
  const ssize_t got = pread(lines, text, sizeof text - 1, 0);
  close(lines);
  close(before);
  std::string said(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  expect(!said.empty() && said.find('\n') == said.size() - 1, name);  // one line
  said.pop_back();
  const char* const error = strerrorname_np(returned.error);
  std::printf("%s %s %s %s\n", name, returned.text.c_str(), error != nullptr ? error : "0",
              said.c_str());
  std::fflush(stdout);
}

ibv_qp_init_attr usual(const World& world, ibv_qp_type type = IBV_QPT_RC) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = world.cq;
  init.qp_type = type;
  init.cap = {4, 4, 4, 4, 64};
  return init;
}

ibv_qp* make(const World& world, ibv_qp_type type = IBV_QPT_RC, ibv_srq* srq = nullptr) {
  ibv_qp_init_attr init = usual(world, type);
  init.srq = srq;
  ibv_qp* const qp = ibv_create_qp(world.pd, &init);
  expect(qp != nullptr, "making a queue pair");
  return qp;
}

ibv_qp* in_init(const World& world, ibv_qp_type type = IBV_QPT_RC) {
  ibv_qp* const qp = make(world, type);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = 1;
  const int access = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | access) == 0,
         "to INIT");
  return qp;
}

constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

ibv_qp_attr for_rtr(const World& world) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = world.gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(world.gid_index);
  return attr;
}

/// A queue pair that sends; datagrams, or a connection to itself.
ibv_qp* ready(const World& world, ibv_qp_type type = IBV_QPT_RC) {
  ibv_qp* const qp = in_init(world, type);
  if (type == IBV_QPT_UD) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "to RTR");
    attr.qp_state = IBV_QPS_RTS;
    expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "to RTS");
    return qp;
  }
  ibv_qp_attr attr = for_rtr(world);
  attr.dest_qp_num = qp->qp_num;
  expect(ibv_modify_qp(qp, &attr, kToRtr) == 0, "to RTR");
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
         "to RTS");
  return qp;
}

/// A UC queue pair for ibv_wr_ calls. Null: refused.
ibv_qp* make_extended(const World& world, std::uint64_t operations) {
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = world.cq;
  init.qp_type = IBV_QPT_UC;
  init.cap = {4, 4, 4, 4, 64};
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = world.pd;
  init.send_ops_flags = operations;
  ibv_qp* const qp = ibv_create_qp_ex(world.context, &init);
  if (qp == nullptr) return nullptr;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "to INIT");
  attr = for_rtr(world);
  expect(ibv_modify_qp(
             qp, &attr,
             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) == 0,
         "to RTR");
  attr.qp_state = IBV_QPS_RTS;
  expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "to RTS");
  return qp;
}

// --- one call each

template <class Change>
Returned create_qp(const World& world, Change&& change) {
  ibv_qp_init_attr init = usual(world);
  change(init);
  return pointer(ibv_create_qp(world.pd, &init));
}

template <class Change>
Returned modify(ibv_qp* qp, ibv_qp_attr attr, int mask, Change&& change) {
  change(attr, mask);
  return number(ibv_modify_qp(qp, &attr, mask));
}

template <class Change>
Returned to_rtr(const World& world, Change&& change) {
  return modify(in_init(world), for_rtr(world), kToRtr, change);
}

template <class Change>
Returned post(ibv_qp* qp, Change&& change) {
  static char bytes[1024];
  static ibv_sge entries[8];
  for (ibv_sge& entry : entries) entry = {reinterpret_cast<std::uintptr_t>(bytes), 8, 0};
  ibv_send_wr wr{};
  wr.sg_list = entries;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  change(wr);
  ibv_send_wr* bad = nullptr;
  return number(ibv_post_send(qp, &wr, &bad));
}

Returned receive(ibv_qp* qp, int entries = 0) {
  static ibv_sge list[8];
  ibv_recv_wr wr{};
  wr.sg_list = list;
  wr.num_sge = entries;
  ibv_recv_wr* bad = nullptr;
  return number(ibv_post_recv(qp, &wr, &bad));
}

Returned register_page(const World& world, void* page, std::size_t length, int access) {
  return pointer(ibv_reg_mr(world.pd, page, length, access));
}

void* map(int protection) {
  void* const page = mmap(nullptr, kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(page != MAP_FAILED, "mapping memory");
  return page;
}

ibv_srq* make_srq(const World& world) {
  ibv_srq_init_attr init{};
  init.attr = {4, 1, 0};
  ibv_srq* const srq = ibv_create_srq(world.pd, &init);
  expect(srq != nullptr, "making a shared receive queue");
  return srq;
}

ibv_ah_attr address(const World& world) { return for_rtr(world).ah_attr; }

template <class Change>
Returned create_ah(const World& world, Change&& change) {
  ibv_ah_attr attr = address(world);
  change(attr);
  return pointer(ibv_create_ah(world.pd, &attr));
}

sockaddr_in socket_address(const char* text, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  expect(inet_pton(AF_INET, text, &address.sin_addr) == 1, "an address");
  return address;
}

rdma_cm_id* make_id(rdma_port_space space = RDMA_PS_TCP) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  expect(channel != nullptr && rdma_create_id(channel, &id, nullptr, space) == 0,
         "making an identifier");
  return id;
}

int bind(rdma_cm_id* id, const char* text, int port) {
  sockaddr_in address = socket_address(text, port);
  return rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address));
}

rdma_cm_id* make_bound(const World& world, rdma_port_space space = RDMA_PS_TCP) {
  rdma_cm_id* const id = make_id(space);
  expect(bind(id, world.address, 0) == 0, "binding");
  return id;
}

/// Makes an identifier with a route to the program's own address.
rdma_cm_id* make_resolved(const World& world) {
  rdma_cm_id* const id = make_id();
  const auto await = [&](rdma_cm_event_type type) {
    rdma_cm_event* event = nullptr;
    expect(rdma_get_cm_event(id->channel, &event) == 0 && event->event == type, "an event");
    rdma_ack_cm_event(event);
  };
  sockaddr_in to = socket_address(world.address, 7472);
  expect(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 2000) == 0, "resolving");
  await(RDMA_CM_EVENT_ADDR_RESOLVED);
  expect(rdma_resolve_route(id, 2000) == 0, "resolving");
  await(RDMA_CM_EVENT_ROUTE_RESOLVED);
  return id;
}

// --- the table

constexpr auto kUnchanged = [](auto&...) {};

struct Mistake {
  const char* name;
  Returned (*make)(const World& world);
};

const Mistake kMistakes[] = {
    {"qp-sends",
     [](const World& w) { return create_qp(w, [](auto& i) { i.cap.max_send_wr = 100'000; }); }},
    {"qp-receives",
     [](const World& w) { return create_qp(w, [](auto& i) { i.cap.max_recv_wr = 100'000; }); }},
    {"qp-entries",
     [](const World& w) { return create_qp(w, [](auto& i) { i.cap.max_send_sge = 1000; }); }},
    {"qp-inline",
     [](const World& w) { return create_qp(w, [](auto& i) { i.cap.max_inline_data = 100'000; }); }},
    {"qp-no-queue",
     [](const World& w) { return create_qp(w, [](auto& i) { i.send_cq = nullptr; }); }},
    {"qp-type",
     [](const World& w) { return create_qp(w, [](auto& i) { i.qp_type = IBV_QPT_RAW_PACKET; }); }},
    {"modify-missing",
     [](const World& w) {
       return to_rtr(w, [](auto&, int& mask) { mask &= ~(IBV_QP_PATH_MTU | IBV_QP_RQ_PSN); });
     }},
    {"modify-excess",
     [](const World& w) { return to_rtr(w, [](auto&, int& mask) { mask |= IBV_QP_TIMEOUT; }); }},
    {"modify-transition",
     [](const World& w) {
       ibv_qp_attr attr{};
       attr.qp_state = IBV_QPS_RTS;
       return modify(make(w), attr, IBV_QP_STATE, kUnchanged);
     }},
    {"modify-current-state",
     [](const World& w) {
       ibv_qp_attr attr{};
       attr.qp_state = IBV_QPS_ERR;
       attr.cur_qp_state = IBV_QPS_RTS;
       return modify(in_init(w), attr, IBV_QP_STATE | IBV_QP_CUR_STATE, kUnchanged);
     }},
    {"modify-mtu-code",
     [](const World& w) {
       return to_rtr(w, [](auto& a, int&) { a.path_mtu = static_cast<ibv_mtu>(1024); });
     }},
    {"modify-port",
     [](const World& w) {
       ibv_qp_attr attr{};
       attr.qp_state = IBV_QPS_INIT;
       return modify(make(w), attr,
                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                     kUnchanged);
     }},
    {"modify-not-global",
     [](const World& w) { return to_rtr(w, [](auto& a, int&) { a.ah_attr.is_global = 0; }); }},
    {"modify-gid-index",
     [](const World& w) {
       return to_rtr(w, [](auto& a, int&) { a.ah_attr.grh.sgid_index = 200; });
     }},
    {"modify-no-gid",
     [](const World& w) { return to_rtr(w, [](auto& a, int&) { a.ah_attr.grh.dgid = {}; }); }},
    {"modify-reads",
     [](const World& w) { return to_rtr(w, [](auto& a, int&) { a.max_dest_rd_atomic = 200; }); }},
    {"modify-timer",
     [](const World& w) { return to_rtr(w, [](auto& a, int&) { a.min_rnr_timer = 32; }); }},
    {"modify-number",
     [](const World& w) { return to_rtr(w, [](auto& a, int&) { a.dest_qp_num = 1 << 24; }); }},
    {"post-in-reset", [](const World& w) { return post(make(w), kUnchanged); }},
    {"post-entries",
     [](const World& w) { return post(ready(w), [](auto& wr) { wr.num_sge = 5; }); }},
    {"post-inline",
     [](const World& w) {
       return post(ready(w), [](auto& wr) {
         wr.send_flags = IBV_SEND_INLINE;
         wr.sg_list[0].length = 1000;
       });
     }},
    {"post-inline-read",
     [](const World& w) {
       return post(ready(w), [](auto& wr) {
         wr.send_flags = IBV_SEND_INLINE;
         wr.opcode = IBV_WR_RDMA_READ;
       });
     }},
    {"post-opcode",
     [](const World& w) {
       return post(ready(w, IBV_QPT_UD), [](auto& wr) { wr.opcode = IBV_WR_RDMA_READ; });
     }},
    {"post-no-handle", [](const World& w) { return post(ready(w, IBV_QPT_UD), kUnchanged); }},
    {"post-full",
     [](const World& w) {
       ibv_qp* const qp = ready(w);
       const auto nothing = [](auto& wr) { wr.num_sge = 0; };
       for (int i = 0; i < 4; ++i) expect(post(qp, nothing).text == "0", "posting");
       return post(qp, nothing);
     }},
    {"receive-in-reset", [](const World& w) { return receive(make(w)); }},
    {"receive-entries", [](const World& w) { return receive(in_init(w), 5); }},
    {"receive-full",
     [](const World& w) {
       ibv_qp* const qp = in_init(w);
       for (int i = 0; i < 4; ++i) expect(receive(qp).text == "0", "posting a receive");
       return receive(qp);
     }},
    {"receive-shared", [](const World& w) { return receive(make(w, IBV_QPT_RC, make_srq(w))); }},
    {"srq-receive-entries",
     [](const World& w) {
       static ibv_sge list[2];
       ibv_recv_wr wr{};
       wr.sg_list = list;
       wr.num_sge = 2;
       ibv_recv_wr* bad = nullptr;
       return number(ibv_post_srq_recv(make_srq(w), &wr, &bad));
     }},
    {"wr-operations",
     [](const World& w) { return pointer(make_extended(w, IBV_QP_EX_WITH_RDMA_READ)); }},
    {"wr-opcode",
     [](const World& w) {
       ibv_qp_ex* const qp = ibv_qp_to_qp_ex(make_extended(w, IBV_QP_EX_WITH_SEND));
       ibv_wr_start(qp);
       ibv_wr_rdma_read(qp, 1, 0);
       return number(ibv_wr_complete(qp));
     }},
    {"cq-entries",
     [](const World& w) {
       return pointer(ibv_create_cq(w.context, 100'000'000, nullptr, nullptr, 0));
     }},
    {"cq-no-entries",
     [](const World& w) { return pointer(ibv_create_cq(w.context, 0, nullptr, nullptr, 0)); }},
    {"cq-vector",
     [](const World& w) { return pointer(ibv_create_cq(w.context, 1, nullptr, nullptr, 99)); }},
    {"cq-in-use",
     [](const World& w) {
       make(w);
       return number(ibv_destroy_cq(w.cq));
     }},
    {"pd-in-use",
     [](const World& w) {
       make(w);
       make(w);
       expect(ibv_reg_mr(w.pd, map(PROT_READ | PROT_WRITE), kPage, 0) != nullptr, "registering");
       return number(ibv_dealloc_pd(w.pd));
     }},
    {"pd-limit",
     [](const World& w) {
       ibv_pd* pd = nullptr;
       do pd = ibv_alloc_pd(w.context);
       while (pd != nullptr);
       return pointer(pd);
     }},
    {"srq-in-use",
     [](const World& w) {
       ibv_srq* const srq = make_srq(w);
       make(w, IBV_QPT_RC, srq);
       return number(ibv_destroy_srq(srq));
     }},
    {"srq-limit",
     [](const World& w) {
       ibv_srq_attr attr{.max_wr = 0, .max_sge = 0, .srq_limit = 5};
       return number(ibv_modify_srq(make_srq(w), &attr, IBV_SRQ_LIMIT));
     }},
    {"mr-unmapped",
     [](const World& w) {
       void* const page = map(PROT_READ | PROT_WRITE);
       munmap(page, kPage);
       return register_page(w, page, kPage, 0);
     }},
    {"mr-read-only",
     [](const World& w) {
       return register_page(w, map(PROT_READ), kPage, IBV_ACCESS_LOCAL_WRITE);
     }},
    {"mr-rights",
     [](const World& w) {
       return register_page(w, map(PROT_READ | PROT_WRITE), kPage, IBV_ACCESS_REMOTE_WRITE);
     }},
    {"mr-empty", [](const World& w) { return register_page(w, map(PROT_READ), 0, 0); }},
    {"mr-flags",
     [](const World& w) { return register_page(w, map(PROT_READ | PROT_WRITE), kPage, 1 << 15); }},
    {"ah-not-global",
     [](const World& w) { return create_ah(w, [](auto& a) { a.is_global = 0; }); }},
    {"ah-port", [](const World& w) { return create_ah(w, [](auto& a) { a.port_num = 0; }); }},
    {"window-type",
     [](const World& w) { return pointer(ibv_alloc_mw(w.pd, static_cast<ibv_mw_type>(3))); }},
    {"group-of-rc",
     [](const World& w) {
       const ibv_gid group{.raw = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
       return number(ibv_attach_mcast(make(w), &group, 0));
     }},
    {"not-a-group",
     [](const World& w) { return number(ibv_attach_mcast(ready(w, IBV_QPT_UD), &w.gid, 0)); }},
    {"query-port",
     [](const World& w) {
       ibv_port_attr attr{};
       return number(ibv_query_port(w.context, 2, &attr));
     }},
    {"level",
     [](const World& w) {
       setenv("SOFTHCA_LEVEL", "no-such-level", 1);
       ibv_context* const context = ibv_open_device(w.context->device);
       const Returned returned = pointer(context);
       unsetenv("SOFTHCA_LEVEL");
       return returned;
     }},
    {"cm-port-space",
     [](const World&) {
       rdma_cm_id* id = nullptr;
       return number(rdma_create_id(rdma_create_event_channel(), &id, nullptr,
                                    static_cast<rdma_port_space>(0x99)));
     }},
    {"cm-foreign-address", [](const World&) { return number(bind(make_id(), "203.0.113.9", 0)); }},
    {"cm-port-in-use",
     [](const World& w) {
       rdma_cm_id* const first = make_id();
       expect(bind(first, w.address, 7471) == 0 && rdma_listen(first, 1) == 0, "listening");
       return number(bind(make_id(), w.address, 7471));
     }},
    {"cm-bound", [](const World& w) { return number(bind(make_bound(w), w.address, 0)); }},
    {"cm-listen",
     [](const World& w) {
       rdma_cm_id* const id = make_bound(w);
       expect(rdma_listen(id, 1) == 0, "listening");
       return number(rdma_listen(id, 1));
     }},
    {"cm-listeners",
     [](const World& w) {
       rdma_event_channel* const channel = rdma_create_event_channel();
       std::vector<rdma_cm_id*> ids;
       const auto listen_once_more = [&] {
         rdma_cm_id* id = nullptr;
         expect(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "an identifier");
         ids.push_back(id);
         expect(bind(id, w.address, 0) == 0, "binding");
         return rdma_listen(id, 1);
       };
       int result = 0;
       while (result == 0) result = listen_once_more();
       const int error = errno;
       for (rdma_cm_id* id : ids) rdma_destroy_id(id);
       rdma_destroy_event_channel(channel);
       errno = error;
       return number(result);
     }},
    {"cm-no-route",
     [](const World&) {
       sockaddr_in to = socket_address("203.0.113.9", 7471);
       return number(rdma_resolve_addr(make_id(), nullptr, reinterpret_cast<sockaddr*>(&to), 1000));
     }},
    {"cm-route", [](const World& w) { return number(rdma_resolve_route(make_bound(w), 1000)); }},
    {"cm-connect",
     [](const World& w) {
       rdma_conn_param parameters{};
       return number(rdma_connect(make_bound(w), &parameters));
     }},
    {"cm-private-data",
     [](const World& w) {
       const char data[100] = {};
       rdma_conn_param parameters{};
       parameters.private_data = data;
       parameters.private_data_len = sizeof data;
       return number(rdma_connect(make_resolved(w), &parameters));
     }},
    {"cm-reject", [](const World& w) { return number(rdma_reject(make_bound(w), nullptr, 0)); }},
    {"cm-option-length",
     [](const World&) {
       int service = 32;
       return number(rdma_set_option(make_id(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &service,
                                     sizeof service));
     }},
    {"cm-option",
     [](const World&) {
       int value = 1;
       return number(rdma_set_option(make_id(), RDMA_OPTION_ID, 77, &value, sizeof value));
     }},
    {"cm-not-a-group",
     [](const World& w) {
       sockaddr_in group = socket_address("203.0.113.9", 0);
       return number(rdma_join_multicast(make_bound(w, RDMA_PS_UDP),
                                         reinterpret_cast<sockaddr*>(&group), nullptr));
     }},
    {"cm-group-of-tcp",
     [](const World& w) {
       sockaddr_in group = socket_address("239.1.1.1", 0);
       return number(
           rdma_join_multicast(make_bound(w), reinterpret_cast<sockaddr*>(&group), nullptr));
     }},
};

}  // namespace

int main(int, char** arguments) {
  setenv("SOFTHCA_DEBUG", "1", 1);
  World world{};
  world.gid_index = std::atoi(arguments[2]);
  for (const Mistake& mistake : kMistakes) {
    world.context = open_device(arguments[1]);
    world.pd = ibv_alloc_pd(world.context);
    world.cq = ibv_create_cq(world.context, 16, nullptr, nullptr, 0);
    expect(world.pd != nullptr && world.cq != nullptr &&
               ibv_query_gid(world.context, 1, world.gid_index, &world.gid) == 0,
           "objects of the device");
    world.address = arguments[3];
    attempt(mistake.name, [&] { return mistake.make(world); });
    ibv_close_device(world.context);
  }
  return 0;
}
