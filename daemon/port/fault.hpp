// A port with a bad cable: loses, duplicates, reorders, delays and corrupts frames of the port it
// wraps, from a seed, the same way each time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "daemon/port/port.hpp"

namespace softhca::port {

/// Flips a bit of a packet that its ICRC covers, or a bit of the ICRC. `datagram`: from the
/// transport header on, longer than the part of it that is not covered.
void flip_covered_bit(std::span<std::byte> datagram, std::mt19937_64& random);

/// What happens to a frame, each with its own probability in [0, 1], decided in this order; a lost
/// frame suffers nothing else.
struct FaultRates {
  double loss = 0;
  double duplication = 0;  ///< comes twice
  double corruption = 0;   ///< one bit is flipped where the ICRC looks, so a receiver must notice
  double reordering = 0;   ///< held until one to four later frames have passed, or `delay_steps`
  double delay = 0;        ///< held for one to `delay_steps` steps
  double marking = 0;      ///< of ECN-capable packets, as by a switch that is congested
  std::uint32_t delay_steps = 16;  ///< in calls of receive() (transmit side: of flush())
};

struct FaultOptions {
  std::uint64_t seed = 1;
  FaultRates receive;
  FaultRates transmit;
  bool roce_only = true;  ///< leave ARP, neighbour discovery and everything else alone
  /// Frames held back or copied at one time, per side; beyond it frames pass unharmed.
  std::uint32_t max_held = 256;
};

/// One direction: decides the fate of each frame and holds back those that are late. Knows
/// nothing of where frames come from or go to.
class FaultStage {
 public:
  FaultStage(const FaultRates& rates, std::uint64_t seed, std::uint32_t max_held);

  struct Fate {
    bool lose = false;
    bool duplicate = false;
    bool hold = false;
  };
  /// Decides, counts, and flips the bit if it is to be corrupted. `roce` is the offset of the
  /// transport headers, 0 for a frame without.
  Fate decide(Frame& frame, std::size_t roce);
  /// Keeps a frame whose fate was `hold`.
  void hold(const Frame& frame);
  /// A frame passes: those held for the sake of order come nearer to their turn.
  void passed();
  /// A step of time passes.
  void step() { ++now_; }
  /// The next held frame whose turn has come, or a null one.
  Frame next_due();
  /// Any held frame, due or not, or a null one (for the end).
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
  bool late_by_order_ = false;  ///< of the frame last decided on
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
  /// No descriptor while faults can hold frames back: nothing would announce their turn.
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
  std::deque<Frame> ready_;        ///< received, in the order to be handed out
  std::vector<std::byte> copies_;  ///< storage of duplicates on the receive side
  std::vector<std::byte*> free_copies_;
};

}  // namespace softhca::port
