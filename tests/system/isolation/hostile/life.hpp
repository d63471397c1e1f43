// SPDX-License-Identifier: Apache-2.0

// A tenant's session and, life after life, a set of queues in it: connected to each other, used as
// a program would use them, and scribbled over. Which words go where is decided by the seed alone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "abi/command.hpp"
#include "abi/session.hpp"
#include "tests/system/isolation/hostile/channel.hpp"

namespace softhca::scribble {

using Random = std::mt19937_64;

inline constexpr std::uint32_t kRc = 2, kUc = 3, kUd = 4;  ///< enum ibv_qp_type
inline constexpr std::uint32_t kSharedKey = 77;            ///< Q key of all datagram queue pairs

/// Words that look like something, more often than chance would have it.
std::uint64_t word(Random& random);

/// A part of the shared memory that means something.
struct Area {
  std::byte* base;
  std::size_t bytes;
};

/// What was written over, and what became of what was posted.
struct Score {
  std::map<std::string, std::uint64_t> words;  ///< by kind of area
  std::uint64_t posts = 0, receives = 0, good = 0, bad = 0, reconnects = 0;
  std::uint64_t holes = 0, holes_refused = 0;
};

/// Session memory, the segments of its rings, and one memory region.
class Session {
 public:
  static constexpr std::size_t kBuffer = 1 << 16;

  explicit Session(const std::string& socket);

  std::byte* ring(const abi::RingLocation& location, std::uint32_t new_segment);
  abi::SessionHeader& header() { return *reinterpret_cast<abi::SessionHeader*>(memory_.base); }
  abi::Doorbell* doorbells() {
    return reinterpret_cast<abi::Doorbell*>(memory_.base + abi::kDoorbellOffset);
  }
  abi::VcbPage& vcb(std::uint32_t i) {
    return reinterpret_cast<abi::VcbPage*>(memory_.base + abi::kVcbOffset)[i];
  }
  void wake();
  /// Tries to give all of it back to the system, with what the daemon has mapped.
  void punch_holes(Score& score);

  Channel channel;
  std::uint32_t vcbs = 0;
  std::uint32_t pd = 0;
  std::uint32_t key = 0;      ///< of the region, local and remote
  std::uint64_t address = 0;  ///< of its first byte
  std::array<std::uint8_t, 16> gid{};

 private:
  Mapping memory_{};
  Mapping buffer_{};  ///< of the region
  int wake_ = -1;
  std::map<std::uint32_t, Mapping> segments_;
};

/// Some lives are calmer than others, so that what needs many things to be right is reached too.
class Life {
 public:
  Life(Session& session, Random& random, Score& score);
  ~Life();
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  void step();

 private:
  struct Queue {
    std::uint32_t qpn = 0, type = 0, peer = 0;  ///< peer: index
    bool shared = false;                        ///< takes receives of the shared queue
    bool failed = false;
    std::uint32_t send_entries = 0, send_stride = 0, receive_entries = 0, receive_stride = 0;
    std::uint32_t max_sge = 0, max_inline = 0;
    std::byte* send = nullptr;
    std::byte* receive = nullptr;
    std::uint32_t next = 0, completed = 0, next_receive = 0;
  };
  struct Completions {
    std::uint32_t handle = 0, entries = 0, consumer = 0;
    std::byte* base = nullptr;
  };

  std::uint32_t below(std::uint32_t most) { return static_cast<std::uint32_t>(random_() % most); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  bool spoils() { return one_in(calm_); }

  Completions make_cq(std::uint32_t channel);
  void make_srq();
  Queue make_queue(std::uint32_t type, std::uint32_t peer, bool shared);
  void connect(Queue& queue);
  void list_areas();

  void post();
  std::uint8_t choose_opcode(const Queue& queue);
  abi::CommandHeader compose(const Queue& queue, std::array<std::byte, 256>& payload);
  bool hand_over(const abi::CommandHeader& header, const std::array<std::byte, 256>& payload);
  void ring_doorbell(const Queue& queue);
  void post_receive();
  void poll(Completions& cq);
  void scribble(bool all);

  Session& session_;
  Random& random_;
  Score& score_;
  const std::uint32_t calm_;  ///< one in so many things is spoiled
  std::array<Completions, 2> cqs_;
  std::uint32_t srq_ = 0, srq_entries_ = 0, srq_stride_ = 0, srq_next_ = 0;
  std::byte* srq_base_ = nullptr;
  std::uint32_t handle_ = abi::kNoHandle;  ///< address handle
  std::vector<Queue> queues_;
  std::map<std::string, std::vector<Area>> areas_;  ///< by kind, each as likely as the others
};

}  // namespace softhca::scribble
