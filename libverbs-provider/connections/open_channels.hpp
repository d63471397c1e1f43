// SPDX-License-Identifier: Apache-2.0

// Event channels, by the program's descriptors for them.
#pragma once

#include <cstdint>

#include "libverbs-provider/connections/cm_channel.hpp"

namespace softhca::provider {

/// A reference to an event channel: another thread may forget the channel, but not end it.
class HeldChannel {
 public:
  /// Holds the channel of `fd`, if there is one and `fd` still refers to it.
  explicit HeldChannel(int fd);
  ~HeldChannel();
  HeldChannel(const HeldChannel&) = delete;
  HeldChannel& operator=(const HeldChannel&) = delete;

  explicit operator bool() const { return channel_ != nullptr; }
  CmChannel* operator->() const { return channel_; }
  CmChannel& operator*() const { return *channel_; }

  /// Removes the byte that signals queued events from the program's descriptor, unless the
  /// descriptor has been closed: its number may refer to another file.
  void take_signal() const;

 private:
  int fd_;
  CmChannel* channel_;
};

/// kForeign: never a channel, or forgotten. kReused: a channel, but the program closed its
/// descriptor; the number may refer to a file of the program.
enum class ChannelFile : std::uint8_t { kForeign, kChannel, kReused };
ChannelFile channel_file(int fd);

/// Opens a channel by the tenant's socket; `fd` becomes the program's descriptor. Returns 0 or an
/// errno value.
int open_channel(const char* tenant_socket, int& fd);
/// Ends the channel once no thread holds it.
void forget_channel(int fd);

/// Keeps the table consistent in forked children. Call it once.
void keep_channels_in_children();

}  // namespace softhca::provider
