// A lossy link: loses, duplicates, reorders, delays and corrupts frames of the port that it wraps.
// The same seed gives the same faults.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "daemon/port/port.hpp"

namespace softhca::port {

/// Flips a bit that the ICRC of a packet covers, or a bit of the ICRC. `datagram`: starts at the
/// transport header. REQUIRES: it is longer than its uncovered part.
void flip_covered_bit(std::span<std::byte> datagram, std::mt19937_64& random);

/// Faults of a frame, each with its own probability in [0, 1], drawn in this order. A lost frame
/// has no other fault.
struct FaultRates {
  double loss = 0;
  double duplication = 0;  ///< delivered twice
  double corruption = 0;   ///< one bit that the ICRC covers is flipped, so a receiver must notice
  double reordering = 0;   ///< held until one to four later frames pass, or for `delay_steps`
  double delay = 0;        ///< held for one to `delay_steps` steps
  double marking = 0;      ///< ECN mark on ECN-capable packets, as by a congested switch
  std::uint32_t delay_steps = 16;  ///< in calls of receive() (transmit side: of flush())
};

struct FaultOptions {
  std::uint64_t seed = 1;
  FaultRates receive;
  FaultRates transmit;
  bool roce_only = true;  ///< no faults for ARP, neighbour discovery and other frames
  /// Most frames held or copied at one time, per side. Beyond that, frames pass unchanged.
  std::uint32_t max_held = 256;
};

/// Faults of one direction: decides the fate of each frame and holds late frames. It does not know
/// where frames come from or go to.
class FaultStage {
 public:
  FaultStage(const FaultRates& rates, std::uint64_t seed, std::uint32_t max_held);

  struct Fate {
    bool lose = false;
    bool duplicate = false;
    bool hold = false;
  };
  /// Decides the fate of a frame, and flips the bit of a frame to be corrupted. `roce` is the
  /// offset of the transport headers, 0 for a frame without.
  Fate decide(Frame& frame, std::size_t roce);
  /// Holds a frame with the fate `hold`.
  void hold(const Frame& frame);
  /// Counts a frame that passes, as reordered frames are held until some frames have passed.
  void passed();
  /// Counts a step of time.
  void step() { ++now_; }
  /// Returns and forgets a held frame that is due, or a null frame.
  Frame next_due();
  /// Returns and forgets any held frame, due or not, or a null frame. Used at the end.
  Frame next_held();

 private:
  struct Held {
    Frame frame;
    std::uint64_t due_step;
    std::uint64_t due_frame;
  };
  bool happens(double probability);
  std::uint64_t one_to(std::uint64_t most);
  void corrupt(Frame& frame, std::size_t roce);

  FaultRates rates_;
  std::mt19937_64 random_;
  std::uint32_t max_held_;
  std::uint64_t now_ = 0;
  std::uint64_t frames_ = 0;
  bool late_by_order_ = false;  ///< of the frame decided last
  std::deque<Held> held_;
};

class FaultPort final : public Port {
 public:
  FaultPort(std::unique_ptr<Port> inner, const FaultOptions& options);
  ~FaultPort() override;

  std::size_t receive(std::span<Frame> out) override;
  void release(std::span<const Frame> frames) override;
  Frame allocate() override { return inner_->allocate(); }
  void transmit(const Frame& frame) override;
  void flush() override;

  const KernelHeaders* kernel_headers() const override { return inner_->kernel_headers(); }
  MacAddress mac() const override { return inner_->mac(); }
  std::uint32_t mtu() const override { return inner_->mtu(); }
  bool link_up() const override { return inner_->link_up(); }
  PortCounters counters() const override { return inner_->counters(); }
  /// Returns no descriptor while faults may hold frames, because it would not signal when they are
  /// due.
  int wait_fd() const override { return holds_frames_ ? -1 : inner_->wait_fd(); }
  void prepare_sleep() override { inner_->prepare_sleep(); }

 private:
  void take_in(Frame frame);
  Frame copy(const Frame& frame);
  void send_duplicate(const Frame& frame);

  std::unique_ptr<Port> inner_;
  bool roce_only_;
  bool holds_frames_;
  FaultStage rx_, tx_;
  std::deque<Frame> ready_;        ///< received, in the order of delivery
  std::vector<std::byte> copies_;  ///< buffers of duplicates on the receive side
  std::vector<std::byte*> free_copies_;
};

}  // namespace softhca::port
