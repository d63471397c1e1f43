// SPDX-License-Identifier: Apache-2.0

// Emulates the descriptors that the library expects to belong to the kernel: the device file,
// completion channels and the file of asynchronous events. write(), read(), ioctl() and close() of
// libibverbs.so.1 arrive here first. Calls on other descriptors go on to the C library.
//
// The reason for each: the library makes a completion channel by a write() to the device file, and
// the file of asynchronous events of an imported context by an ioctl(); providers have no operation
// for these. read() must hide records that name destroyed objects, because the library dereferences
// them. close() must make the provider forget the descriptor.
#pragma once

#include <cstdint>
#include <optional>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/verbs/queues.hpp"

namespace softhca::provider {

/// Redirects the library's imports (once) and serves the context's device and event files. Returns
/// 0 or an errno value.
int serve_files(Context& context);
/// Reverts serve_files() and frees buried objects.
void stop_serving_files(Context& context);

/// Returns the daemon's handle of the completion channel with descriptor `fd`.
std::optional<std::uint32_t> channel_handle(const Context& context, int fd);

/// Marks an object as destroyed, then waits until the application has acknowledged all delivered
/// events of it. No later event names it. True: no record can name it, so the caller may free it.
/// False: the caller must bury() it.
bool retire(Context& context, EventTarget& target, Cq* cq);
bool retire(Context& context, EventTarget& target, Qp* qp);
bool retire(Context& context, EventTarget& target, Srq* srq);

/// Keeps the memory of a retired object until the device is closed.
void bury(Context& context, void* object, void (*dispose)(void*));

/// Frees or buries an object that the daemon has already destroyed.
template <class Object>
void remove(Context& context, Object* object) {
  if (retire(context, object->events, object))
    dispose(object);
  else
    bury(context, object, [](void* buried) { dispose(static_cast<Object*>(buried)); });
}

}  // namespace softhca::provider
