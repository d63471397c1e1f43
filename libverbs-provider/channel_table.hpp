// Event channels by the descriptors that the program has of them.
#pragma once

#include "libverbs-provider/event_channel.hpp"

namespace softhca::provider {

/// An event channel that another thread may forget but not end.
class HeldChannel {
 public:
  /// Holds the channel of `fd`, if there is one.
  explicit HeldChannel(int fd);
  ~HeldChannel();
  HeldChannel(const HeldChannel&) = delete;
  HeldChannel& operator=(const HeldChannel&) = delete;

  explicit operator bool() const { return channel_ != nullptr; }
  EventChannel* operator->() const { return channel_; }
  EventChannel& operator*() const { return *channel_; }

  /// Takes the byte out of the program's descriptor that says that events are queued, unless the
  /// descriptor has been closed meanwhile: its number may stand for something else.
  void take_signal() const;

 private:
  int fd_;
  EventChannel* channel_;
};

bool is_channel(int fd);

/// Opens a channel by the tenant's socket; `fd` is the program's descriptor of it. 0 or an errno
/// value.
int open_channel(const char* tenant_socket, int& fd);
/// Ends the channel, when no thread holds it any more.
void forget_channel(int fd);

/// To be called once: keeps the table whole in forked children.
void keep_channels_in_children();

}  // namespace softhca::provider
