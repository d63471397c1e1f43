// SPDX-License-Identifier: Apache-2.0

#include "tests/system/verbs/stress/watch.hpp"

#include <fcntl.h>
#include <poll.h>

#include <cstdlib>
#include <utility>

namespace softhca::stress {
namespace {

constexpr int kLook = 100;  // milliseconds between two looks at whether all is over

/// True for an event of the device's port. A memif has no link while the other side starts.
bool is_of_port(const ibv_async_event& event) {
  return (event.event_type == IBV_EVENT_PORT_ACTIVE || event.event_type == IBV_EVENT_PORT_ERR) &&
         event.element.port_num == 1;
}

}  // namespace

Watch::Watch(ibv_context* context) : context_(context) {
  const char* const restarts = std::getenv("RESTARTS");
  restarts_ = restarts != nullptr && *restarts != '\0';
  const int flags = fcntl(context->async_fd, F_GETFL);
  must(fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) == 0 ? 0 : errno, "fcntl");
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  over_ = true;
  thread_.join();
}

void Watch::admit(const void* element, const void* owner) {
  const std::lock_guard guard(mutex_);
  elements_[element] = {owner, {}};
}

void Watch::forget(const void* element, const void* owner) {
  const std::lock_guard guard(mutex_);
  const auto found = elements_.find(element);
  if (found != elements_.end() && found->second.owner == owner) elements_.erase(found);
}

void Watch::expect(const void* element, ibv_event_type type) {
  const std::lock_guard guard(mutex_);
  elements_.at(element).due[type] = true;
}

void Watch::await(const void* element, ibv_event_type type) {
  for (const auto end = Clock::now() + kPatience; Clock::now() < end;) {
    {
      const std::lock_guard guard(mutex_);
      if (!elements_.at(element).due[type]) return;
    }
    pause();
  }
  throw Fault(std::string("no event: ") + ibv_event_type_str(type));
}

void Watch::run() {
  here().worker = "events";
  while (!over_) {
    pollfd state{context_->async_fd, POLLIN, 0};
    if (poll(&state, 1, kLook) != 1) continue;
    ibv_async_event event{};
    if (ibv_get_async_event(context_, &event) != 0) continue;
    take(event);
    // ibv_destroy_qp() waits for this acknowledgement, so take() has found the queue pair alive.
    ibv_ack_async_event(&event);
  }
}

void Watch::take(const ibv_async_event& event) {
  if (is_of_port(event)) return;
  const std::string name = ibv_event_type_str(event.event_type);
  const std::lock_guard guard(mutex_);
  const auto found = elements_.find(event.element.qp);
  if (found == elements_.end()) return complain("an event of what is not there: " + name);
  Element& element = found->second;
  bool &due = element.due[event.event_type], &may_repeat = element.may_repeat[event.event_type];
  if (std::exchange(due, false)) {
    may_repeat = restarts_;
    return;
  }
  if (std::exchange(may_repeat, false)) return count("events that came twice");
  // Packets that come before the last transition may be reported so, but need not be.
  if (event.event_type != IBV_EVENT_COMM_EST) complain("an unexpected event: " + name);
}

}  // namespace softhca::stress
