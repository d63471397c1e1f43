// SPDX-License-Identifier: Apache-2.0

// A completion queue that any thread may poll: what it finds goes to the queue pair it names.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/system/verbs/stress/objects.hpp"

namespace softhca::stress {

using Clock = std::chrono::steady_clock;
/// Beside other tenants and busy loops everything takes its time; what takes longer never comes.
inline constexpr std::chrono::seconds kPatience{30};

/// Between two looks at what is not there yet: the other threads, and the adapter, need the
/// processor more.
inline void pause() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

using Inbox = std::deque<ibv_wc>;

class Completions {
 public:
  Completions(const Device& device, int entries, ibv_comp_channel* channel = nullptr)
      : channel_(channel),
        cq_(made(ibv_create_cq(device.context.get(), entries, this, channel, 0), "ibv_create_cq")) {
  }

  ibv_cq* cq() const { return cq_.get(); }

  /// From now on completions may name it. One inbox for sends and one for receives.
  void admit(std::uint32_t qpn, Inbox* sends, Inbox* receives);
  /// It is destroyed: none may. Unless the number has been given again meanwhile.
  void forget(std::uint32_t qpn, const Inbox* sends);
  /// What has come so far vanishes, as with a reset.
  void clear(Inbox& sends, Inbox& receives);
  std::optional<ibv_wc> take(Inbox& inbox);

  /// True when there was anything.
  bool poll();
  /// Sleeps until an event says that there is something. REQUIRES: a channel of one's own.
  void await_event(Clock::time_point end);
  void resize(int entries);

 private:
  struct Boxes {
    Inbox* sends;
    Inbox* receives;
  };

  ibv_comp_channel* channel_;
  std::mutex mutex_;  ///< of polling with what is done about it; never held in another verb
  std::map<std::uint32_t, Boxes> boxes_;
  CompletionQueue cq_;
};

}  // namespace softhca::stress
