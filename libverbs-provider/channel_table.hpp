// Event channels by the descriptors that the program has of them.
#pragma once

#include <cstdint>

#include "libverbs-provider/event_channel.hpp"

namespace softhca::provider {

/// An event channel that another thread may forget but not end.
class HeldChannel {
 public:
  /// Holds the channel of `fd`, if there is one and `fd` still stands for it.
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

/// kForeign: never a channel's, or forgotten. kReused: a channel's that the program has closed by
/// itself; the number may stand for a file of its own.
enum class ChannelFile : std::uint8_t { kForeign, kChannel, kReused };
ChannelFile channel_file(int fd);

/// Opens a channel by the tenant's socket; `fd` is the program's descriptor of it. 0 or an errno
/// value.
int open_channel(const char* tenant_socket, int& fd);
/// Ends the channel, when no thread holds it any more.
void forget_channel(int fd);

/// To be called once: keeps the table whole in forked children.
void keep_channels_in_children();

}  // namespace softhca::provider
