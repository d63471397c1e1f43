// SPDX-License-Identifier: Apache-2.0

// A connection within the process, from one queue pair to another, and its model: the posted
// commands, the completed ones, and the resulting content of memory. No posted command may take
// effect once the queue pairs have been reset or destroyed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/system/verbs/stress/memory.hpp"
#include "tests/system/verbs/stress/station.hpp"

namespace softhca::stress {

struct Shape {
  ibv_qp_type type = IBV_QPT_RC;
  unsigned depth = 0;  ///< of the queues
  std::size_t slot_bytes = 0;
  unsigned sges = 1;
  unsigned inline_bytes = 0;
  bool signal_all = false;
  bool shared_receive_queue = false;
  bool own_domain = false;
  bool own_queues = false;
  bool by_events = false;  ///< sleeps until it is told of completions
};

Shape random_shape(Random& random, bool lossy);

class Link {
 public:
  Link(const Stage& stage, const Shape& shape, Random& random);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  unsigned room() const { return depth_ - static_cast<unsigned>(commands_.size()); }
  bool busy() const { return !commands_.empty(); }

  void post(unsigned count);
  /// Waits for everything, and checks all memory.
  void settle();
  /// What has been posted vanishes; connected anew, nothing of it may show.
  void reset();
  void reset_often();
  void recreate();
  /// To the error state: what has been posted fails, each once and in order.
  void break_down();
  /// The send queue is drained while commands are under way, and goes on.
  void drain();
  void resize();
  /// The memory gets other keys, or the same again.
  void enroll_again();

 private:
  struct Command {
    std::uint64_t id;
    ibv_wr_opcode opcode;
    std::uint32_t offset, bytes;
    bool signaled;
    bool hit;  ///< of compare and swap
  };
  struct Posted {
    std::uint64_t id;
    unsigned slot;
  };
  /// Terms of a connection.
  struct Terms {
    ibv_mtu mtu;
    std::uint32_t psn, back;  ///< where both directions begin
    std::uint8_t reads;       ///< at once
  };
  /// What is being put into the error state, and may therefore fail.
  enum class Breaking { kNone, kSenderFirst, kPeerFirst };

  // link_setup.cpp
  void make_all();
  void make_queues();
  void make_receiver();
  void make_sender();
  void make_shared_receive_queue();
  void unmake_sender();
  void unmake_receiver();
  void unmake_shared_receive_queue();
  Terms choose_terms();
  void connect_sender(const Terms& terms);
  void connect_receiver(const Terms& terms);
  void connect();
  void take_left_behind();
  void forget_all();
  void find_lost_receives();
  void expect_quiet();

  // link_post.cpp
  static bool takes_receive(ibv_wr_opcode opcode);
  ibv_wr_opcode choose_opcode();
  Command compose();
  void prepare(const Command& command, unsigned slot);
  void provide_receives(std::size_t messages);
  void post_receives(std::size_t count);
  bool try_post_receive(unsigned slot);
  void post_chain(unsigned first, unsigned count);
  ibv_send_wr request(const Command& command, unsigned slot, std::vector<ibv_sge>& pieces);
  void arm_limit();

  // link_check.cpp
  void await(const std::function<bool()>& over, const char* what);
  void take_sent(const ibv_wc& wc);
  void take_failed(const ibv_wc& wc);
  void take_received(const ibv_wc& wc);
  void check_identity(const ibv_wc& wc, std::uint64_t id, const char* what) const;
  void check_memory();
  void check_command(unsigned slot);
  void check_atomic(const Command& command, unsigned slot);
  void check_arrivals();
  std::string state() const;

  // link_change.cpp
  void resize_shared_receive_queue();
  void reset_sender_first();
  void start_anew();

  std::uint64_t next_id() { return link_ << 48 | std::uint64_t{generation_} << 24 | ++serial_; }

  Station &from_, &to_;
  const Shape shape_;
  Random& random_;
  const std::uint64_t link_;
  std::uint32_t generation_ = 0;  ///< counts what has made everything vanish
  std::uint32_t serial_ = 0;

  Domain own_from_, own_to_;
  ibv_pd *pd_from_ = nullptr, *pd_to_ = nullptr;
  Channel channel_from_, channel_to_;
  std::unique_ptr<Completions> own_sends_, own_receives_;
  Completions *sends_ = nullptr, *receives_ = nullptr;
  XrcDomain xrc_domain_;
  SharedReceiveQueue srq_;
  QueuePair sender_, receiver_;
  unsigned depth_ = 0, receive_depth_ = 0, inline_bytes_ = 0;  ///< as granted
  std::unique_ptr<Slots> source_, target_, arrivals_;

  Inbox sent_, received_;
  Inbox stray_from_, stray_to_;    ///< where nothing comes
  std::vector<Command> commands_;  ///< since memory was checked; the index is the slot
  std::size_t completed_ = 0;      ///< of them
  bool failed_ = false;            ///< one of them
  Breaking breaking_ = Breaking::kNone;
  std::deque<Posted> posted_;                              ///< receives
  std::deque<unsigned> free_;                              ///< slots for them
  std::deque<std::size_t> messages_;                       ///< commands that are still to arrive
  std::vector<std::pair<unsigned, std::size_t>> arrived_;  ///< in which slot, of which command
  std::size_t late_ = 0;                                   ///< receives that are not posted yet
  std::size_t limit_ = 0;  ///< of the shared receive queue; 0: none is armed
  bool limits_ = true;     ///< one may be armed
};

}  // namespace softhca::stress
