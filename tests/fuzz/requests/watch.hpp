// SPDX-License-Identifier: Apache-2.0

// The operator watches an engine and disturbs it: faults, captures, events, and the state of queue
// pairs and paths.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "daemon/engine/diagnostics/captures.hpp"
#include "daemon/engine/diagnostics/faults.hpp"
#include "tests/fuzz/requests/tenants.hpp"

namespace softhca::fuzz {

class Watch {
 public:
  Watch(Common& common, const Tenants& tenants) : common_(common), tenants_(tenants) {}

  // --- operations of the input
  void add_fault();
  void remove_fault();
  void take_room();
  void add_capture();
  void remove_capture();
  /// The reader of a capture takes records, or writes anything into its word.
  void read_capture();
  void copy_events();
  void show_queue_pairs();
  void show_queue_pair();
  void find_queue_pair();
  void check_paths();

  /// Ends all faults and captures.
  void end();

 private:
  struct OpenCapture {
    std::unique_ptr<engine::RingMemory> memory;
    std::unique_ptr<engine::Capture> capture;
  };

  Common& common_;
  const Tenants& tenants_;
  std::list<engine::Fault> faults_;
  bool has_room_ = false;
  std::uint32_t last_fault_ = 0;
  std::list<OpenCapture> captures_;
  std::uint64_t next_event_ = 0;
};

}  // namespace softhca::fuzz
