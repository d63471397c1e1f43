// SPDX-License-Identifier: Apache-2.0

// The context of an opened device.
#pragma once

#include <cstddef>

#include "abi/control.hpp"
#include "libverbs-provider/abi34.hpp"
#include "libverbs-provider/client_session.hpp"
#include "libverbs-provider/control/control_channel.hpp"
#include "libverbs-provider/control/memory_offer.hpp"
#include "libverbs-provider/control/segments.hpp"
#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/number_table.hpp"
#include "libverbs-provider/private_interfaces.hpp"
#include "libverbs-provider/share/share.hpp"
#include "libverbs-provider/verbs/memory_region.hpp"
#include "libverbs-provider/verbs/placement.hpp"

namespace softhca::provider {

/// A destroyed object that unread records in a socket may still name.
struct Buried {
  void* object;
  void (*dispose)(void*);
  Buried* next;
};

/// The end of `front`, together with `base`, is the library's verbs_context, which the library
/// initialises.
struct LibraryContext {
  std::byte front[kLargestContextFront];
  ibv_context base;
};

struct Context {
  LibraryContext library;  ///< first; the library does not know the other members

  ControlChannel control;
  ClientSession session;
  Placement placement;
  Segments segments;
  Owned<MemoryRegistry> memory;
  OnDemandRegions on_demand;
  MemoryOffer memory_offer;
  /// errno value of the shortage in this process that last prevented sharing memory; 0: none.
  std::atomic<int> shortage;
  QpNumberTable qps;
  SrqNumberTable xrc_srqs;
  abi::DeviceReply limits;
  Buried* buried;       ///< guarded by the lock in event_files.hpp
  bool leaves_records;  ///< records of destroyed objects may be unread; guarded likewise
  Context* next;        ///< list of all contexts; same lock
  bool loss_reported;   ///< IBV_EVENT_DEVICE_FATAL was read; same lock
  /// True in a forked child; the session belongs to the parent.
  std::atomic<bool> forked;

  ibv_context* ibv() { return &library.base; }
};

inline Context* to_context(ibv_context* context) {
  return reinterpret_cast<Context*>(reinterpret_cast<std::byte*>(context) -
                                    offsetof(LibraryContext, base));
}

}  // namespace softhca::provider
