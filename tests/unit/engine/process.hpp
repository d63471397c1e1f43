// Plays a tenant process: posts into the shared memory exactly as abi/session.hpp and abi/rings.hpp
// say, and polls completions from it. It also makes the objects, as the control layer does.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/base/sealed_memory.hpp"
#include "tests/unit/engine/adapter.hpp"

namespace softhca::engine {

/// Zeroed memory with the alignment of ring memory.
class RingMemory {
 public:
  explicit RingMemory(std::size_t bytes) : lines_(bytes / sizeof(Line) + 1) {}
  std::byte* base() { return lines_[0].bytes; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64] = {};
  };
  std::vector<Line> lines_;
};

/// A work completion, copied out of the ring.
struct Completed {
  std::uint32_t qpn, index, byte_len, imm;
  abi::CompletionStatus status;
  abi::CompletionOpcode opcode;
  std::uint8_t flags;
  bool is_receive;
  std::uint32_t source;
};

class TestCq {
 public:
  TestCq(Session& session, std::uint32_t entries, std::uint64_t handle, int channel)
      : memory_(shm::CompletionRing::bytes_for(entries)), entries_(entries) {
    cq.session = &session;
    cq.ring = shm::CompletionRing(memory_.base(), entries);
    cq.user_handle = handle;
    cq.channel_fd = channel;
  }

  std::optional<Completed> poll();
  std::vector<Completed> poll_all();
  void arm(std::uint32_t kind) { header().arm.fetch_or(kind, std::memory_order_seq_cst); }

  CompletionQueue cq;

 private:
  abi::CompletionRingHeader& header() {
    return *reinterpret_cast<abi::CompletionRingHeader*>(memory_.base());
  }
  RingMemory memory_;
  std::uint32_t entries_;
  std::uint32_t consumer_ = 0;
};

/// The tenant's side of a receive ring.
class ReceivePoster {
 public:
  ReceivePoster(std::uint32_t entries, std::uint32_t max_sge)
      : memory_(shm::ReceiveRing::bytes_for(entries, max_sge)),
        entries_(entries),
        stride_(abi::receive_stride(max_sge)) {}

  std::byte* base() { return memory_.base(); }
  void post(std::uint32_t index, const std::vector<abi::ScatterGather>& list);
  std::atomic<std::uint32_t>& producer() {
    return reinterpret_cast<abi::ReceiveRingHeader*>(base())->producer;
  }
  abi::ReceiveElement& element(std::uint32_t counter) {
    return *reinterpret_cast<abi::ReceiveElement*>(base() + sizeof(abi::ReceiveRingHeader) +
                                                   (counter & (entries_ - 1)) * stride_);
  }
  void restart() { producer().store(count_ = 0); }

 private:
  RingMemory memory_;
  std::uint32_t entries_;
  std::uint32_t stride_;
  std::uint32_t count_ = 0;
};

struct TestSrq {
  TestSrq(std::uint32_t entries, std::uint32_t max_sge) : ring(entries, max_sge) {}
  SharedReceiveQueue srq;
  ReceivePoster ring;
};

/// A registered buffer of a tenant.
struct Buffer {
  std::vector<std::uint64_t> words;
  std::uint32_t key = 0;
  std::size_t size = 0;

  std::byte* data() { return reinterpret_cast<std::byte*>(words.data()); }
  std::uint64_t addr() { return reinterpret_cast<std::uint64_t>(words.data()); }
  abi::ScatterGather part(std::size_t offset, std::size_t bytes) {
    return {addr() + offset, static_cast<std::uint32_t>(bytes), key};
  }
  abi::ScatterGather all() { return part(0, size); }
  /// Registers the buffer and sets `key` to the key of the region.
  void enter(memory::KeyTable& keys, TenantId tenant, memory::PdId pd, std::uint32_t access);
  void fill(unsigned seed) {
    for (std::size_t i = 0; i < size; ++i)
      data()[i] = static_cast<std::byte>((i * 131 + seed * 17 + i / 251) & 0xff);
  }
  bool equals(Buffer& other) { return std::memcmp(data(), other.data(), size) == 0; }
  bool is_zero() {
    return std::all_of(words.begin(), words.end(), [](std::uint64_t w) { return w == 0; });
  }
};

struct QpOptions {
  QpType type = QpType::kRc;
  std::uint32_t send_entries = 16;
  std::uint32_t receive_entries = 16;
  std::uint32_t max_sge = 4;
  std::uint32_t max_inline = 256;
  TestSrq* srq = nullptr;
  bool signal_all = false;
  XrcDomainId xrc_domain{};  ///< of a target
};

/// A work request; `sge` or, with kCommandInline, `bytes`.
struct Work {
  abi::Opcode opcode = abi::Opcode::kSend;
  std::uint8_t flags = abi::kCommandSignaled;
  std::vector<abi::ScatterGather> sge;
  std::vector<std::byte> bytes;
  std::uint32_t imm = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t rkey = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::uint32_t remote_qpn = 0;
  std::uint32_t remote_qkey = 0;
  std::uint32_t address_handle = 0;
  std::uint32_t remote_srq = 0;
};

struct TestQp {
  TestQp(const QpOptions& o)
      : stride(abi::send_stride(o.max_sge, o.max_inline)),
        send_memory(shm::SendRing::bytes_for(o.send_entries, stride)),
        receives(o.receive_entries, o.max_sge) {}

  std::byte* slot(std::uint32_t number) {
    return send_memory.base() + (number & (qp.sq.ring.entries() - 1)) * stride;
  }

  QueuePair qp;
  std::uint32_t stride;
  RingMemory send_memory;
  ReceivePoster receives;
  std::uint32_t sequence = 0;  ///< of the next command
  std::uint32_t next_receive = 0;
};

class Process {
 public:
  static constexpr std::uint32_t kVcbs = 4;

  Process(Adapter& adapter, Tenant& tenant, std::uint32_t vcbs = kVcbs);
  /// `level` is a level of the tenant, or null if the process belongs to none.
  Process(Adapter& adapter, Tenant& tenant, std::uint32_t vcbs, Level* level);
  ~Process() { end(); }
  /// Ends the session, as when the process is killed.
  void end();

  TestCq& make_cq(std::uint32_t entries = 64, int channel = -1);
  TestSrq& make_srq(std::uint32_t entries = 16, std::uint32_t max_sge = 4, XrcDomainId domain = {},
                    TestCq* cq = nullptr);
  /// Makes a shared receive queue of an XRC domain.
  TestSrq& make_srq(XrcDomainId domain, TestCq& cq) { return make_srq(16, 4, domain, &cq); }
  TestQp& make_qp(TestCq& send, TestCq& receive, const QpOptions& options = {});
  void destroy(TestQp& qp);
  /// Moves the queue pair to RESET, as a process does. Command numbers continue; receives start
  /// anew.
  void reset(TestQp& qp);
  void destroy(TestSrq& srq);
  void remove(TestSrq& srq);
  std::uint32_t make_ah(const Gid& destination);
  Buffer& make_buffer(std::size_t bytes, std::uint32_t access = kFull);

  enum class Way { kVcb, kDoorbell };
  /// Writes the command into the send queue and announces it.
  void post(TestQp& qp, const Work& work, Way way = Way::kVcb);
  /// The parts of post().
  std::uint32_t write_command(TestQp& qp, const Work& work);
  void ring(std::uint32_t qpn, std::uint32_t sequence_end);
  /// Hands a VCB over with the command of `qp` numbered `sequence` in the segments of `mask`.
  void fill_vcb(std::uint32_t vcb, TestQp& qp, std::uint32_t sequence,
                std::uint64_t mask = abi::kAllSegments);
  void hand_over(std::uint32_t vcb);
  bool vcb_free(std::uint32_t vcb) const;
  void post_receive(TestQp& qp, const std::vector<abi::ScatterGather>& list) {
    qp.receives.post(qp.next_receive++, list);
  }

  abi::SessionHeader& header() const {
    return *reinterpret_cast<abi::SessionHeader*>(memory_.base());
  }
  abi::VcbPage& vcb(std::uint32_t i) const {
    return reinterpret_cast<abi::VcbPage*>(memory_.base() + abi::kVcbOffset)[i];
  }
  std::byte* memory() const { return memory_.base(); }

  static constexpr std::uint32_t kFull =
      memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;

  Adapter& adapter;
  Tenant& tenant;
  memory::PdId pd;
  std::unique_ptr<Session> session;
  std::vector<std::unique_ptr<TestQp>> qps;

 private:
  SealedMemory memory_;
  std::uint32_t vcbs_;
  std::uint64_t next_handle_;
  std::vector<std::unique_ptr<TestCq>> cqs_;
  std::vector<std::unique_ptr<TestSrq>> srqs_;
  std::vector<std::unique_ptr<AddressHandle>> ahs_;
  std::vector<std::uint32_t> ah_handles_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

struct Connection {
  std::uint32_t mtu = 1024;
  std::uint8_t timeout = 8;  ///< about 1 ms
  std::uint8_t retry_count = 3;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;  ///< 10 us
  std::uint8_t max_rd_atomic = 4;
  std::uint32_t access = Process::kFull;
};

/// Brings `qp` to RTS (or only to RTR). Number and address name its peer.
void bring_up(Process& process, TestQp& qp, Qpn peer, const Gid& peer_gid,
              const Connection& connection = {}, bool to_send = true);
/// Brings both ends to RTS.
void connect(Process& a, TestQp& qa, Process& b, TestQp& qb, const Connection& connection = {});
/// Brings a UD queue pair to RTS.
void bring_up_datagram(Process& process, TestQp& qp, std::uint32_t qkey);

/// Sets the policy of a tenant's shared receive queues, as a reload does.
void provision(Engine& engine, Tenant& tenant, const SrqPolicy& policy, const SrqRules& rules = {});

Gid address(std::uint32_t host);  ///< 10.0.0.host

}  // namespace softhca::engine
