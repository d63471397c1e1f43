// SPDX-License-Identifier: Apache-2.0

// Identifiers and sequence types of the adapter. Each is a type of its own, so that code cannot
// pass a queue pair number as a key.
#pragma once

#include <cstdint>
#include <functional>

namespace softhca {

/// A number that names an object. Tag distinguishes the numbers of different kinds of objects.
template <class Tag, class Rep>
struct Id {
  Rep value{};

  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
};

using Qpn = Id<struct QpnTag, std::uint32_t>;          ///< queue pair number, 24 bits
using Rkey = Id<struct RkeyTag, std::uint32_t>;        ///< remote key as on the wire
using TenantId = Id<struct TenantTag, std::uint16_t>;  ///< index of a tenant, dense from 0
/// A holder of guarantees with its own turns in the schedule: a tenant as far as it is not divided,
/// or one of its QoS levels. The value is the index of its row in the collect group table.
using QosClassId = Id<struct QosClassTag, std::uint16_t>;
using SessionId = Id<struct SessionTag, std::uint32_t>;  ///< one opened device context of a process
using TvlId = Id<struct TvlTag, std::uint16_t>;          ///< transmit virtual lane
using VcbId = Id<struct VcbTag, std::uint32_t>;          ///< virtual collect buffer
using PcbId = Id<struct PcbTag, std::uint32_t>;          ///< physical collect buffer
using PortId = Id<struct PortTag, std::uint8_t>;         ///< index of a network port, dense from 0

inline constexpr QosClassId kNoQosClass{0xffff};

/// Packet sequence number: 24 bits, serial arithmetic modulo 2^24 (InfiniBand specification,
/// volume 1, 9.7.1). Comparisons are meaningful for numbers less than 2^23 apart.
class Psn {
 public:
  static constexpr std::uint32_t kMask = 0xffffff;

  constexpr Psn() = default;
  constexpr explicit Psn(std::uint32_t v) : value_(v & kMask) {}

  constexpr std::uint32_t value() const { return value_; }
  constexpr Psn operator+(std::uint32_t n) const { return Psn(value_ + n); }
  constexpr Psn operator-(std::uint32_t n) const { return Psn(value_ - n); }
  constexpr Psn& operator++() { return *this = *this + 1; }

  /// Returns the signed distance from `from` to this number, in [-2^23, 2^23).
  constexpr std::int32_t distance_from(Psn from) const {
    return static_cast<std::int32_t>((value_ - from.value_) << 8) >> 8;
  }
  constexpr bool operator==(const Psn&) const = default;
  constexpr bool is_before(Psn other) const { return distance_from(other) < 0; }
  constexpr bool is_after(Psn other) const { return distance_from(other) > 0; }

 private:
  std::uint32_t value_ = 0;
};

/// Returns the signed distance between free-running 32-bit ring counters.
constexpr std::int32_t ring_distance(std::uint32_t to, std::uint32_t from) {
  return static_cast<std::int32_t>(to - from);
}

}  // namespace softhca

template <class Tag, class Rep>
struct std::hash<softhca::Id<Tag, Rep>> {
  std::size_t operator()(softhca::Id<Tag, Rep> id) const { return std::hash<Rep>()(id.value); }
};
