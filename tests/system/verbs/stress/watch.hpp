// SPDX-License-Identifier: Apache-2.0

// Asynchronous events of a device: each must belong to something that lives, be of a kind that its
// owner has asked for, and come when it is due.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "tests/system/verbs/stress/completions.hpp"

namespace softhca::stress {

class Watch {
 public:
  explicit Watch(ibv_context* context);
  ~Watch();

  /// `owner` tells apart what is made where something else was destroyed.
  void admit(const void* element, const void* owner);
  void forget(const void* element, const void* owner);
  /// One event of this type may come from now on.
  void expect(const void* element, ibv_event_type type);
  /// Waits until it has come.
  void await(const void* element, ibv_event_type type);

 private:
  struct Element {
    const void* owner;
    std::map<ibv_event_type, bool> due;
    std::map<ibv_event_type, bool> may_repeat;
  };

  void run();
  void take(const ibv_async_event& event);

  ibv_context* context_;
  bool restarts_;  ///< adapters are killed: an event may come twice
  std::mutex mutex_;
  std::map<const void*, Element> elements_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace softhca::stress
