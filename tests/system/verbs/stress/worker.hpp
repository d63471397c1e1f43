// SPDX-License-Identifier: Apache-2.0

// A thread of the stress: rounds of random actions. What a round does follows from the seed, the
// worker's name and the number of the round; when it happens does not.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "tests/system/verbs/stress/station.hpp"

namespace softhca::stress {

class Playground;

class Worker {
 public:
  virtual ~Worker() = default;
  /// Faults end it.
  virtual void round() = 0;
  /// What a fault has left in an unknown state goes.
  virtual void recover() = 0;

  void run(const std::string& name, std::uint64_t seed, const std::atomic<bool>& over);

 protected:
  Random random_{0};
};

std::unique_ptr<Worker> make_link_worker(const Stage& stage);
std::unique_ptr<Worker> make_crowd_worker(Station& station);
/// `name` is that of the device.
std::unique_ptr<Worker> make_start_worker(const Device& device, const std::string& name);
std::unique_ptr<Worker> make_region_worker(Station& station, const Playground& ground,
                                           unsigned owner);
/// Each with a multicast group of its own.
std::unique_ptr<Worker> make_datagram_worker(const Stage& stage, unsigned group);

}  // namespace softhca::stress
