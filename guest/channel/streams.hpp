// SPDX-License-Identifier: Apache-2.0

// The streams of a channel, at one end. Each has a descriptor of a local process: what that process
// sends becomes frames, and frames are given to it.
//
// All memory is bounded. A stream holds at most kWindow bytes that the local process has not taken,
// and all streams together kMaxPending. The outbox is bounded, as streams read only while it has
// room, and as answers to the other end are states of streams (`owed`, `ended`), not frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/unique_fd.hpp"
#include "guest/channel/event_loop.hpp"
#include "guest/channel/frame.hpp"
#include "guest/channel/frame_reader.hpp"
#include "guest/channel/local_socket.hpp"
#include "guest/channel/outbox.hpp"

namespace softhca::guest {

enum class Side : std::uint8_t { kAgent, kRelay };

enum class StreamKind : std::uint8_t {
  kConnection,  ///< of a program to a socket of the tenant or a level
  kRecords,     ///< a SOCK_SEQPACKET socket that came in a reply
  kBytes,       ///< a SOCK_STREAM socket that came in a reply, or to the control socket
  kEvent,       ///< an eventfd that came in a reply; the agent reads it, the relay writes to it
};

/// Bytes for the local process.
struct Delivery {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> fds;
  std::size_t cost = 0;  ///< of the window; 0: not from the channel
  std::size_t sent = 0;  ///< of `bytes`; else 0 for records
};

struct Stream {
  std::uint32_t number = 0;
  StreamKind kind = StreamKind::kRecords;
  UniqueFd fd;
  Watch watch;
  std::size_t credit = kWindow;  ///< bytes that this end may send
  std::size_t window = kWindow;  ///< bytes that the other end may send
  std::size_t owed = 0;          ///< bytes to add to the credit of the other end
  unsigned unanswered = 0;       ///< requests of the program without a reply
  std::deque<Delivery> pending;
  std::vector<std::uint32_t> events;  ///< eventfds that came on this connection, and end with it
  bool ended = false;                 ///< the local descriptor is closed
  bool close_sent = false;
  bool close_received = false;
  bool wake_due = false;
  bool is_due = false;      ///< stands in the list of those with frames to send
  bool is_blocked = false;  ///< stands in the list of those that wait for room in the outbox
};

/// The agent or the relay.
class StreamOwner {
 public:
  /// Agent: takes a record of a program. Returns false: it is for the daemon.
  virtual bool answer(Stream& stream, std::span<const std::byte> record) = 0;
  /// Relay: adds streams for descriptors of the daemon. Returns false if it cannot, after a
  /// message.
  virtual bool describe(Stream& stream, std::span<UniqueFd> fds,
                        std::vector<PassedDescriptor>& descriptors) = 0;
  /// Agent: makes descriptors for a program, adds their streams, and completes replies to requests
  /// that it answers with the daemon. Returns false if it cannot.
  virtual bool make(Stream& stream, std::span<const PassedDescriptor> descriptors,
                    Delivery& delivery) = 0;
  /// Both ends have closed the stream.
  virtual void closed(std::uint32_t stream) = 0;

 protected:
  ~StreamOwner() = default;
};

class Streams {
 public:
  Streams(Side side, EventLoop& loop, Outbox& outbox, StreamOwner& owner)
      : side_(side), loop_(loop), outbox_(outbox), owner_(owner) {}

  /// Adds a stream. Without a descriptor it only tells the other end that it is closed. Returns
  /// null if the number is in use, or there are too many streams.
  Stream* add(std::uint32_t number, StreamKind kind, UniqueFd fd);
  Stream* find(std::uint32_t number);
  std::size_t size() const { return streams_.size(); }

  /// Handles a frame of kind kRecord, kData, kClose, kWake or kCredit. Returns false if the other
  /// end breaks the protocol.
  bool receive(Frame frame);
  /// Adds a record for the local process that is not from the channel.
  void deliver(Stream& stream, std::vector<std::byte> record, std::vector<UniqueFd> fds);
  /// Closes the local descriptor. The stream is over when the other end has closed it, too.
  void end(Stream& stream);
  void end_all();

  /// Adds the frames that are due to the outbox, as far as it has room.
  void flush();
  /// Ends all streams without a frame. Returns the descriptors of connections.
  std::vector<UniqueFd> clear();

 private:
  static constexpr std::size_t kMaxPending = std::size_t{32} << 20;

  bool receive_record(Frame frame);
  bool receive_data(const Frame& frame);
  bool receive_close(Stream& stream);
  bool receive_credit(Stream& stream, Frame frame);
  bool may_come(const PassedDescriptor& descriptor);
  void refuse(std::span<const PassedDescriptor> descriptors);
  void add_pending(Stream& stream, Delivery delivery);
  void wake(Stream& stream);

  void ready(Stream& stream, std::uint32_t events);
  void read(Stream& stream);
  bool read_event(Stream& stream);
  bool read_record(Stream& stream);
  bool read_bytes(Stream& stream);
  void write(Stream& stream);
  bool write_one(Stream& stream, Delivery& delivery);
  void drop_pending(Stream& stream);
  void finish(Stream& stream);

  bool may_read(const Stream& stream) const;
  bool is_discarding(const Stream& stream) const;
  void arm(Stream& stream);
  void set_due(Stream& stream);
  void send_due(Stream& stream);
  void erase(Stream& stream);

  Side side_;
  EventLoop& loop_;
  Outbox& outbox_;
  StreamOwner& owner_;
  std::unordered_map<std::uint32_t, Stream> streams_;
  std::deque<std::uint32_t> due_;      ///< streams with frames to send
  std::deque<std::uint32_t> blocked_;  ///< streams that wait for room in the outbox
  std::size_t pending_bytes_ = 0;
};

}  // namespace softhca::guest
