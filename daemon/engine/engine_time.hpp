// How long the engine works for each tenant. Nobody reads a clock for each piece of work: the time
// of the poll steps that had something to do is divided among tenants by what their work counts as
// (costs.hpp), a millisecond at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/engine/cpu_scheduler.hpp"
#include "daemon/engine/tenant.hpp"

namespace softhca::engine {

class EngineTime {
 public:
  /// Nanoseconds of a cost unit until more is known.
  static constexpr double kAssumedRate = 0.125;

  EngineTime(const CpuScheduler& cpu, const std::vector<Tenant*>& tenants)
      : cpu_(cpu), tenants_(tenants) {}

  /// A poll step that had something to do took so long. Steps are short; one that took far longer
  /// than its work does was without a processor, and counts for what its work takes.
  void add(Duration step) {
    const Duration expected(nanoseconds(cpu_.done() - counted_));
    counted_ = cpu_.done();
    busy_ += step > kSlack + kSlowest * expected ? expected : step;
    if (busy_ >= kWindow) divide();
  }
  /// What so much work takes, in nanoseconds, going by how long such work took lately.
  std::uint64_t nanoseconds(std::uint64_t cost) const {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(cost) * scale_ >> kScaleBits);
  }

 private:
  static constexpr Duration kWindow = std::chrono::milliseconds(1);
  // The scheduler of the machine takes the processor away for a millisecond at least.
  static constexpr Duration kSlack = std::chrono::microseconds(20);
  static constexpr int kSlowest = 4;

  /// As a number of fixed point: conversions from and to double would be a part of every command.
  static constexpr unsigned kScaleBits = 32;
  static constexpr std::uint64_t scale_of(double rate) {
    return static_cast<std::uint64_t>(rate * (std::uint64_t{1} << kScaleBits));
  }

  void divide();

  const CpuScheduler& cpu_;
  const std::vector<Tenant*>& tenants_;
  std::uint64_t counted_ = 0;   ///< work of steps that were added
  Duration busy_{};             ///< not divided yet
  std::uint64_t divided_ = 0;   ///< work done up to then
  double rate_ = kAssumedRate;  ///< nanoseconds of a cost unit
  std::uint64_t scale_ = scale_of(kAssumedRate);
};

}  // namespace softhca::engine
