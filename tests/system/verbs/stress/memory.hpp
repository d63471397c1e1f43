// SPDX-License-Identifier: Apache-2.0

// Memory in which every byte has a known value. The bytes of a blank slot follow from its address;
// the model records what it has put into the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/system/verbs/stress/objects.hpp"

namespace softhca::stress {

/// Writes the payload of a command, which follows from its number.
void write_pattern(std::byte* to, std::size_t bytes, std::uint64_t number);
/// Returns the index of the first byte that differs from the pattern, or `bytes`.
std::size_t match_pattern(const std::byte* at, std::size_t bytes, std::uint64_t number);

class Slots {
 public:
  /// The first of them lies `offset` bytes behind the beginning of a page.
  Slots(unsigned count, std::size_t bytes, std::size_t offset);
  ~Slots();
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  void enroll(ibv_pd* pd) { region_.reset(made(try_enroll(pd), "ibv_reg_mr")); }
  void disenroll() { region_.reset(); }
  ibv_mr* region() const { return region_.get(); }

  unsigned count() const { return count_; }
  std::size_t bytes() const { return bytes_; }
  std::byte* at(unsigned slot) const { return first_ + slot * bytes_; }
  std::uint64_t address(unsigned slot) const { return reinterpret_cast<std::uintptr_t>(at(slot)); }

  std::vector<std::byte> copy() const { return {first_, first_ + count_ * bytes_}; }
  void blank(unsigned slot);
  void blank_all();
  /// Nothing but blank, with the pattern of `number` in [offset, offset + bytes).
  void check(unsigned slot, const char* what, std::size_t offset = 0, std::size_t bytes = 0,
             std::uint64_t number = 0) const;
  void check_all_blank(const char* what) const;

 private:
  ibv_mr* try_enroll(ibv_pd* pd) { return ibv_reg_mr(pd, first_, count_ * bytes_, kAllAccess); }
  std::size_t first_not_blank(unsigned slot, std::size_t from, std::size_t to) const;

  unsigned count_;
  std::size_t bytes_;
  std::size_t mapped_;
  std::byte* mapping_;
  std::byte* first_;
  Region region_;  ///< ends before the memory
};

}  // namespace softhca::stress
