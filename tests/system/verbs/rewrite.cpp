// SPDX-License-Identifier: Apache-2.0

// A program overwrites its buffers at the moment of their completions, and buffers of inline data
// as soon as they are posted. The peer must get the content at the time of the post, however often
// the adapter has read it (mechanism B6). The adapter must not write to the target of an RDMA read
// after the completion of the read. Two processes, one of which sends, meet over TCP.
//
// usage: rewrite DEVICE GID-INDEX ROUNDS PORT [ADDRESS]
#include <algorithm>
#include <array>
#include <vector>

#include "tests/system/meeting.hpp"
#include "tests/system/programs.hpp"

namespace {

constexpr int kQueuePairs = 4;
constexpr int kDepth = 4;  // messages of a queue pair at once
constexpr int kSlots = kQueuePairs * kDepth;
constexpr int kWords = 8192;  // of a message
constexpr int kInlineWords = 32;
constexpr std::uint8_t kReads = 4;
constexpr std::uint32_t kOverwritten = 0xeeeeeeee;

enum class Kind { kWriteAndRead, kSend, kInline, kUnreliable, kCount };
constexpr int kKinds = static_cast<int>(Kind::kCount);
constexpr const char* kNames[] = {"writes and reads", "sends", "inline sends", "UC sends"};

using Message = std::array<std::uint32_t, kWords>;

struct Device {
  ibv_context* context;
  ibv_pd* pd;
  ibv_gid gid;
  int gid_index;
};

struct Memory {
  std::vector<Message> messages;
  ibv_mr* mr;

  Memory(const Device& device, int count) : messages(static_cast<std::size_t>(count)) {
    mr = ibv_reg_mr(device.pd, messages.data(), messages.size() * sizeof(Message),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    expect(mr != nullptr, "registering memory");
  }
  Message& operator[](int i) { return messages[static_cast<std::size_t>(i)]; }
  ibv_sge entry(int i, int words = kWords) {
    return {reinterpret_cast<std::uintptr_t>(&(*this)[i]), static_cast<std::uint32_t>(words) * 4,
            mr->lkey};
  }
};

struct Hello {
  ibv_gid gid;
  std::uint32_t qpns[kKinds][kQueuePairs];
  std::uint64_t address;
  std::uint32_t rkey;
};

/// The queue pairs of one kind, with a completion queue each way.
struct Lane {
  Kind kind;
  ibv_cq *sends, *receives;
  ibv_qp* qps[kQueuePairs];

  Lane(const Device& device, Kind of) : kind(of) {
    sends = ibv_create_cq(device.context, 2 * kSlots, nullptr, nullptr, 0);
    receives = ibv_create_cq(device.context, 2 * kSlots, nullptr, nullptr, 0);
    for (ibv_qp*& qp : qps) {
      ibv_qp_init_attr init{};
      init.send_cq = sends;
      init.recv_cq = receives;
      init.qp_type = kind == Kind::kUnreliable ? IBV_QPT_UC : IBV_QPT_RC;
      // Room for what an adapter that completes too early is still at work on.
      init.cap = {4 * kDepth, kDepth, 1, 1, kInlineWords * 4};
      qp = ibv_create_qp(device.pd, &init);
      expect(qp != nullptr, "making a queue pair");
    }
  }
  ibv_qp* of_slot(int slot) const { return qps[slot / kDepth]; }
  int words() const { return kind == Kind::kInline ? kInlineWords : kWords; }
};

void bring_up_unreliable(ibv_qp* qp, std::uint32_t peer, const ibv_gid& gid, int gid_index) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
         "UC to INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  attr.ah_attr.grh.hop_limit = 64;
  expect(ibv_modify_qp(
             qp, &attr,
             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) == 0,
         "UC to RTR");
  attr.qp_state = IBV_QPS_RTS;
  expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "UC to RTS");
}

std::uint32_t word(std::uint32_t first, int i) {
  return first * 0x9e3779b1 + static_cast<std::uint32_t>(i);
}

/// The first word says which message it is, all others follow from it.
void write_message(Message& message, int slot, int round, int words) {
  message[0] = static_cast<std::uint32_t>(round * kSlots + slot);
  for (int i = 1; i < words; ++i) message[static_cast<std::size_t>(i)] = word(message[0], i);
}

void expect_message(const Message& message, int words) {
  for (int i = 1; i < words; ++i)
    expect(message[static_cast<std::size_t>(i)] == word(message[0], i),
           "the peer did not get what was posted");
}

void overwrite(Message& message) { message.fill(kOverwritten); }

void expect_untouched(const Message& message) {
  expect(std::all_of(message.begin(), message.end(), [](auto w) { return w == kOverwritten; }),
         "written to after the completion");
}

void post(const Lane& lane, int slot, ibv_sge entry, ibv_wr_opcode opcode, const Hello& peer) {
  ibv_send_wr wr{};
  wr.wr_id = static_cast<std::uint64_t>(slot);
  wr.sg_list = &entry;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  if (lane.kind == Kind::kInline) wr.send_flags |= IBV_SEND_INLINE;
  wr.wr.rdma.remote_addr = peer.address + sizeof(Message) * static_cast<std::uint64_t>(slot);
  wr.wr.rdma.rkey = peer.rkey;
  ibv_send_wr* bad = nullptr;
  expect(ibv_post_send(lane.of_slot(slot), &wr, &bad) == 0, "posting");
}

/// Each slot by itself: writes a message, overwrites it when that has completed, reads what the
/// peer has, overwrites that. Slots of a queue pair are under way at the same time.
void write_and_read(const Lane& lane, Memory& memory, const Hello& peer, int rounds) {
  int round[kSlots] = {}, left = kSlots;
  const auto write = [&](int slot) {
    write_message(memory[slot], slot, round[slot], kWords);
    post(lane, slot, memory.entry(slot), IBV_WR_RDMA_WRITE, peer);
  };
  for (int slot = 0; slot < kSlots; ++slot) {
    overwrite(memory[kSlots + slot]);
    write(slot);
  }
  while (left > 0) {
    const ibv_wc wc = wait_for(lane.sends, "a write or read");
    const int slot = static_cast<int>(wc.wr_id);
    Message& read = memory[kSlots + slot];
    if (wc.opcode == IBV_WC_RDMA_WRITE) {
      overwrite(memory[slot]);
      expect_untouched(read);
      post(lane, slot, memory.entry(kSlots + slot), IBV_WR_RDMA_READ, peer);
      continue;
    }
    const Message got = read;
    overwrite(read);
    expect(got[0] == static_cast<std::uint32_t>(round[slot] * kSlots + slot), "an old message");
    expect_message(got, kWords);
    if (++round[slot] < rounds)
      write(slot);
    else
      --left;
  }
  for (int slot = 0; slot < kSlots; ++slot) expect_untouched(memory[kSlots + slot]);
}

void send(const Lane& lane, Memory& memory, const Hello& peer, int rounds) {
  int round[kSlots] = {}, left = kSlots;
  const auto start = [&](int slot) {
    write_message(memory[slot], slot, round[slot], lane.words());
    post(lane, slot, memory.entry(slot, lane.words()), IBV_WR_SEND, peer);
    if (lane.kind == Kind::kInline) overwrite(memory[slot]);
  };
  for (int slot = 0; slot < kSlots; ++slot) start(slot);
  while (left > 0) {
    const int slot = static_cast<int>(wait_for(lane.sends, "a send").wr_id);
    overwrite(memory[slot]);
    if (++round[slot] < rounds)
      start(slot);
    else
      --left;
  }
}

void post_receive(const Lane& lane, Memory& memory, int slot) {
  ibv_sge entry = memory.entry(slot);
  ibv_recv_wr receive{static_cast<std::uint64_t>(slot), nullptr, &entry, 1};
  ibv_recv_wr* bad = nullptr;
  expect(ibv_post_recv(lane.of_slot(slot), &receive, &bad) == 0, "posting a receive");
}

/// Looks at what has come. Returns whether anything had.
bool take(const Lane& lane, Memory& memory) {
  ibv_wc wc{};
  if (ibv_poll_cq(lane.receives, 1, &wc) == 0) return false;
  expect(wc.status == IBV_WC_SUCCESS, "a receive");
  const int slot = static_cast<int>(wc.wr_id);
  expect(wc.byte_len == static_cast<std::uint32_t>(lane.words()) * 4, "length of a message");
  expect_message(memory[slot], lane.words());
  overwrite(memory[slot]);
  post_receive(lane, memory, slot);
  return true;
}

int receive(const Lane& lane, Memory& memory, int socket) {
  int taken = 0;
  char done = 0;
  // What was sent without an acknowledgement has come, or is lost, soon after.
  while (recv(socket, &done, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) taken += take(lane, memory);
  if (lane.kind == Kind::kUnreliable) usleep(100000);
  while (take(lane, memory)) ++taken;
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5)
    return std::fprintf(stderr, "usage: rewrite DEVICE GID-INDEX ROUNDS PORT [ADDRESS]\n"), 2;
  const int rounds = std::atoi(argv[3]);
  const bool sends = argc > 5;
  Device device{};
  device.context = open_device(argv[1]);
  device.gid_index = std::atoi(argv[2]);
  device.pd = ibv_alloc_pd(device.context);
  expect(ibv_query_gid(device.context, 1, device.gid_index, &device.gid) == 0, "the GID");
  Memory memory(device, 2 * kSlots);
  std::vector<Lane> lanes;
  for (int kind = 0; kind < kKinds; ++kind) lanes.emplace_back(device, static_cast<Kind>(kind));

  const int socket = connected_socket(std::atoi(argv[4]), sends ? argv[5] : nullptr);
  Hello mine{};
  mine.gid = device.gid;
  mine.address = reinterpret_cast<std::uintptr_t>(memory.messages.data());
  mine.rkey = memory.mr->rkey;
  for (int kind = 0; kind < kKinds; ++kind)
    for (int i = 0; i < kQueuePairs; ++i)
      mine.qpns[kind][i] = lanes[static_cast<std::size_t>(kind)].qps[i]->qp_num;
  const Hello peer = exchange(socket, mine);
  for (int kind = 0; kind < kKinds; ++kind) {
    const Lane& lane = lanes[static_cast<std::size_t>(kind)];
    for (int i = 0; i < kQueuePairs; ++i)
      if (lane.kind == Kind::kUnreliable)
        bring_up_unreliable(lane.qps[i], peer.qpns[kind][i], peer.gid, device.gid_index);
      else
        bring_up(lane.qps[i], peer.qpns[kind][i], peer.gid, device.gid_index, kReads);
  }

  for (const Lane& lane : lanes) {
    const bool receives = !sends && lane.kind != Kind::kWriteAndRead;
    for (int slot = 0; receives && slot < kSlots; ++slot) post_receive(lane, memory, slot);
    exchange(socket, 'a');
    int taken = 0;
    if (receives) taken = receive(lane, memory, socket);
    if (sends && lane.kind == Kind::kWriteAndRead) write_and_read(lane, memory, peer, rounds);
    if (sends && lane.kind != Kind::kWriteAndRead) send(lane, memory, peer, rounds);
    exchange(socket, 'b');
    if (!receives) continue;
    std::printf("%s: %d of %d came\n", kNames[static_cast<int>(lane.kind)], taken, rounds * kSlots);
    expect(lane.kind == Kind::kUnreliable ? taken > 0 : taken == rounds * kSlots, "messages lost");
  }
  return 0;
}
