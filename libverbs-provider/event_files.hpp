// The descriptors behind which the library expects a kernel: the device file, completion channels
// and the file of asynchronous events. write(), read(), ioctl() and close() of libibverbs.so.1 come
// here first; what is not about one of our descriptors goes on to the C library.
//
// Why each: a completion channel is made by a write() to the device file, and the file of
// asynchronous events of an imported context by an ioctl(), neither by an operation of the
// provider; a record that names a destroyed object must not be seen by the library, which
// dereferences it; a descriptor must be forgotten when it is closed.
#pragma once

#include <cstdint>
#include <optional>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/queues.hpp"

namespace softhca::provider {

/// Redirects the library's imports (once) and serves the context's device and event files. 0 or an
/// errno value.
int serve_files(Context& context);
/// Ends what serve_files() began; also disposes of buried objects.
void stop_serving_files(Context& context);

/// The daemon's handle of the completion channel with descriptor `fd`.
std::optional<std::uint32_t> channel_handle(const Context& context, int fd);

/// Marks an object destroyed, then waits until the application has acknowledged the events it was
/// given. From then on no event names it. True: no record can name it any more, so it may be
/// freed; false: bury() it.
bool retire(Context& context, EventTarget& target, Cq* cq);
bool retire(Context& context, EventTarget& target, Qp* qp);
bool retire(Context& context, EventTarget& target, Srq* srq);

/// Keeps the memory of a retired object until the device is closed.
void bury(Context& context, void* object, void (*dispose)(void*));

/// Frees or buries an object the daemon has destroyed already.
template <class Object>
void remove(Context& context, Object* object) {
  if (retire(context, object->events, object))
    dispose(object);
  else
    bury(context, object, [](void* buried) { dispose(static_cast<Object*>(buried)); });
}

}  // namespace softhca::provider
