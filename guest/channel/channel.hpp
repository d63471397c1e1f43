// SPDX-License-Identifier: Apache-2.0

// One end of a channel: reads frames from its descriptor, and writes those in the outbox.
#pragma once

#include "daemon/base/unique_fd.hpp"
#include "guest/channel/event_loop.hpp"
#include "guest/channel/frame_reader.hpp"
#include "guest/channel/outbox.hpp"

namespace softhca::guest {

class ChannelUser {
 public:
  /// Handles a frame. Returns false if the other end breaks the protocol: then lost() follows.
  virtual bool handle(Frame& frame) = 0;
  /// No more frames follow: the channel drops all until the next magic. `is_broken`: the other end
  /// has not begun anew, but broken the protocol.
  virtual void lost(bool is_broken) = 0;
  /// The other end is closed. The channel has closed its own.
  virtual void disconnected() = 0;

 protected:
  ~ChannelUser() = default;
};

class Channel {
 public:
  Channel(EventLoop& loop, ChannelUser& user);
  ~Channel() { close(); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Takes another descriptor, of a stream socket or a character device. Closes the earlier one.
  void open(UniqueFd fd);
  /// Forgets what has come and what waits.
  void close();
  bool is_open() const { return static_cast<bool>(fd_); }
  Outbox& outbox() { return outbox_; }
  /// Writes as much as the channel takes. Call it after each event.
  void flush();

 private:
  void ready(std::uint32_t events);
  void read();
  void hand_out();
  ssize_t write_some(std::span<const std::byte> bytes) const;
  void fail();

  EventLoop& loop_;
  ChannelUser& user_;
  UniqueFd fd_;
  bool is_socket_ = false;
  Watch watch_;
  FrameReader reader_;
  Outbox outbox_;
};

}  // namespace softhca::guest
