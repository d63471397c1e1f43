// SPDX-License-Identifier: Apache-2.0

// A daemon for tests of the provider: serves the control protocol from a thread of its own, hands
// out memory, remembers every request, and lets the test play the engine.
#pragma once

#include <sys/eventfd.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "abi/control.hpp"
#include "abi/session.hpp"
#include "tests/unit/libverbs-provider/connections/fake_event_channel.hpp"

namespace softhca::provider::test {

struct FakeRing {
  std::byte* base = nullptr;
  std::uint32_t entries = 0;
};

struct FakeCq {
  std::uint64_t user_handle = 0;
  std::uint32_t channel = abi::kNoHandle;
  FakeRing ring;
  std::uint32_t producer = 0;

  abi::CompletionRingHeader& header() {
    return *reinterpret_cast<abi::CompletionRingHeader*>(ring.base);
  }
  /// Writes a completion as the engine does. owner: source queue pair; the phase is added.
  void push(abi::CompletionElement* element, std::uint32_t source_qp = 0);
};

struct FakeReceiveQueue {
  FakeRing ring;
  std::uint32_t stride = 0;

  std::uint32_t producer() {
    return reinterpret_cast<abi::ReceiveRingHeader*>(ring.base)->producer.load();
  }
  abi::ReceiveElement element(std::uint32_t at);
  abi::ScatterGather entry(std::uint32_t at, std::uint32_t i);
};

struct FakeQp {
  abi::CreateQpRequest request{};
  FakeRing send;
  std::uint32_t send_stride = 0;
  FakeReceiveQueue receive;

  abi::CommandHeader command(std::uint32_t sequence);
  const std::byte* payload(std::uint32_t sequence);
};

struct FakeSrq {
  abi::CreateSrqRequest request{};
  FakeReceiveQueue queue;
  std::uint32_t taken = 0;  ///< by the test

  /// Goes on there, with what was posted and not taken.
  void move_to(FakeRing ring);
};

/// Memory for the provider. The owner closes and unmaps it.
struct FakeMemory {
  int fd = -1;
  std::byte* base = nullptr;
  abi::MemoryPlace place{};
};

/// Makes memory: memfds, or parts of the memory of a virtual machine, which are not used again.
class FakeMemories {
 public:
  FakeMemories();
  ~FakeMemories();
  void be_machine(bool machine) { is_machine_ = machine; }
  bool is_machine() const { return is_machine_; }
  FakeMemory make(std::size_t bytes);

 private:
  const int machine_fd_;
  bool is_machine_ = false;
  std::uint64_t used_ = 3 * abi::kPageBytes;
};

/// What belongs to one connection. The test uses it while the provider makes no calls.
class FakeSession {
 public:
  static constexpr std::size_t kSegmentBytes = 8 << 20;  ///< for rings

  FakeSession(int connection, std::uint32_t vcbs, FakeMemories& memories);
  ~FakeSession();

  abi::SessionHeader& header() { return *reinterpret_cast<abi::SessionHeader*>(memory_.base); }
  abi::VcbPage& vcb(unsigned i) { return reinterpret_cast<abi::VcbPage*>(vcbs_)[i]; }
  abi::Doorbell doorbell(std::uint32_t at) {
    return reinterpret_cast<abi::Doorbell*>(memory_.base +
                                            abi::kDoorbellOffset)[at % abi::kDoorbellEntries];
  }
  /// VCBs handed over and not released yet.
  std::uint64_t handed_over() { return header().active.load() ^ header().released.load(); }
  void release_vcbs(std::uint64_t bits) { header().released.fetch_xor(bits); }
  /// Times the wake eventfd was written since the last call.
  std::uint64_t wakes();

  void send_completion_event(FakeCq& cq);
  void send_async_event(std::uint64_t element, std::uint32_t type);

  std::map<std::uint32_t, FakeCq> cqs;
  std::map<std::uint32_t, FakeQp> qps;
  std::map<std::uint32_t, FakeSrq> srqs;
  std::map<std::uint32_t, int> channels;       ///< the daemon's end
  std::map<std::uint32_t, FakeMemory> shared;  ///< kAllocShared
  std::unique_ptr<FakeEventChannel> channel;   ///< the connection is an event channel

 private:
  friend class FakeDaemon;
  abi::RingLocation allocate(std::uint64_t bytes, bool& announce);
  std::byte* at(const abi::RingLocation& ring) { return segment_.base + ring.offset; }

  int connection_;
  int wake_fd_;
  int async_fds_[2];
  int offer_fd_ = -1;  ///< where the process sends its memory
  FakeMemory memory_;
  FakeMemory separate_vcbs_;  ///< in a virtual machine
  std::byte* vcbs_;
  FakeMemory segment_;
  std::uint64_t segment_used_ = 0;
  bool just_announced_ = false;  ///< by the last reply
  std::uint32_t next_handle_ = 1;
};

class FakeDaemon {
 public:
  struct Request {
    abi::Operation operation;
    std::vector<std::byte> body;
  };

  /// What lets others join each of its sessions.
  static constexpr abi::ContextToken kToken{
      {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

  explicit FakeDaemon(const std::string& socket_path);
  ~FakeDaemon();

  /// Ends all sessions and forgets what tests have set.
  void reset();
  /// Closes every connection, as when the daemon dies.
  void hang_up();

  /// The next `operation` is answered with this errno value.
  void fail_next(abi::Operation operation, int error);
  /// The next reply to `operation` is passed through this.
  using Spoil = std::function<void(abi::ReplyHeader& header, std::vector<std::byte>& body,
                                   std::vector<int>& fds)>;
  void spoil_next(abi::Operation operation, Spoil spoil);
  /// Each reply comes again before the next one, as from an adapter that follows a crashed one.
  void repeat_replies() { repeats_ = true; }
  void set_vcbs(std::uint32_t vcbs) { vcbs_ = vcbs; }
  /// Later sessions are those of a virtual machine, until reset().
  void be_machine();
  abi::DeviceReply& device() { return device_; }

  /// The session of the connection accepted last.
  FakeSession& session();
  std::size_t session_count();

  /// Body of the last request of this kind; fails the test when there was none.
  template <class T>
  T last(abi::Operation operation) {
    T body{};
    const std::vector<std::byte> bytes = last_body(operation);
    if (bytes.size() >= sizeof body) std::memcpy(&body, bytes.data(), sizeof body);
    return body;
  }
  std::vector<std::byte> last_body(abi::Operation operation);
  std::size_t count(abi::Operation operation);
  /// True if there was such a request.
  bool had(abi::Operation operation, const abi::HandleBody& body);

  /// The number of the event channel opened last.
  std::uint32_t newest_channel();
  void post_event(std::uint32_t channel, const kernel::rdma_ucm_event_resp& event);
  /// The last kConnectionCommand of this kind; fails the test when there was none.
  abi::ConnectionCommandRequest last_command(std::uint32_t command, std::vector<std::byte>& body);

 private:
  void run();
  void serve(FakeSession& session);
  int handle(FakeSession& session, const Request& request, std::vector<std::byte>& reply,
             std::vector<int>& fds);
  void append_places(FakeSession& session, abi::Operation operation, const std::vector<int>& fds,
                     std::vector<std::byte>& reply);
  int open_channel(FakeSession& session, std::vector<std::byte>& reply, std::vector<int>& fds);
  int carry_out(FakeSession& session, const Request& request, std::vector<std::byte>& reply);
  FakeEventChannel* find_channel(std::uint32_t number);

  std::recursive_mutex mutex_;
  int listener_;
  int stop_fd_;
  std::uint32_t vcbs_ = 8;
  bool repeats_ = false;
  FakeMemories memories_;
  abi::DeviceReply device_{};
  std::vector<std::unique_ptr<FakeSession>> sessions_;
  std::vector<Request> requests_;
  std::map<abi::Operation, int> failures_;
  std::map<abi::Operation, Spoil> spoils_;
  std::uint32_t last_channel_ = 0;
  std::thread thread_;
};

}  // namespace softhca::provider::test
