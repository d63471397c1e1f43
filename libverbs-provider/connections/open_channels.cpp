// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/connections/open_channels.hpp"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "libverbs-provider/connections/descriptor_table.hpp"
#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {
namespace {

/// A channel with the number of its holders; the table is one of them.
struct CountedChannel : CmChannel {
  std::uint32_t holders = 1;
  FileIdentity file;  ///< the program's descriptor
};

Mutex channels_lock;  ///< guards the table and the numbers of holders
DescriptorTable<CountedChannel*> channels;

void let_go(CountedChannel* channel) {
  if (channel == nullptr) return;
  bool last;
  {
    Guard guard(channels_lock);
    last = --channel->holders == 0;
  }
  if (last) dispose(channel);
}

void before_fork() { channels_lock.lock(); }
void after_fork_parent() { channels_lock.unlock(); }
/// Resets the holders, because the child does not have the threads that held a channel.
void after_fork_child() {
  for (CountedChannel* channel : channels)
    if (channel != nullptr) channel->holders = 1;
  channels_lock.unlock();
}

/// Returns the channel of `fd`; null if there is none, or `fd` now refers to another file.
/// REQUIRES: channels_lock held.
CountedChannel* find_current(int fd) {
  CountedChannel* channel = channels.find(fd);
  return channel != nullptr && identity_of(fd) == channel->file ? channel : nullptr;
}

/// Puts `channel` into the table, or null to forget the entry. Returns the previous entry;
/// `channel` if out of memory.
CountedChannel* replace(int fd, CountedChannel* channel) {
  Guard guard(channels_lock);
  CountedChannel* before = channels.find(fd);
  if (channel == nullptr)
    channels.forget(fd);
  else if (!channels.put(fd, channel))
    return channel;
  return before;
}

}  // namespace

HeldChannel::HeldChannel(int fd) : fd_(fd) {
  Guard guard(channels_lock);
  CountedChannel* channel = find_current(fd);
  if (channel != nullptr) ++channel->holders;
  channel_ = channel;
}

HeldChannel::~HeldChannel() { let_go(static_cast<CountedChannel*>(channel_)); }

void HeldChannel::take_signal() const {
  Guard guard(channels_lock);
  if (find_current(fd_) != channel_) return;
  char byte;
  ::recv(fd_, &byte, sizeof byte, MSG_DONTWAIT);
}

ChannelFile channel_file(int fd) {
  Guard guard(channels_lock);
  if (channels.find(fd) == nullptr) return ChannelFile::kForeign;
  return find_current(fd) != nullptr ? ChannelFile::kChannel : ChannelFile::kReused;
}

int open_channel(const char* tenant_socket, int& fd) {
  auto* channel = make<CountedChannel>();
  if (channel == nullptr) return ENOMEM;
  if (const int error = channel->open(tenant_socket, fd)) {
    dispose(channel);
    return error;
  }
  channel->file = identity_of(fd);
  CountedChannel* replaced = replace(fd, channel);
  let_go(replaced);  // its descriptor was closed without the provider
  if (replaced != channel) return 0;
  ::close(fd);
  return ENOMEM;
}

void forget_channel(int fd) { let_go(replace(fd, nullptr)); }

void keep_channels_in_children() {
  ::pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

}  // namespace softhca::provider
