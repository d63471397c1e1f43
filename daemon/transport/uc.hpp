// Unreliable connection (InfiniBand specification, volume 1, 9.8.2): no acknowledgements; a request
// is complete when its last packet has gone; a message with a gap is dropped whole and silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/transport/environment.hpp"
#include "daemon/transport/send_queue.hpp"
#include "daemon/wire/headers.hpp"
#include "daemon/wire/opcode.hpp"

namespace softhca::transport {

/// Same calling rules as Requester, without timers and responses.
class UcRequester {
 public:
  /// As Requester::open().
  void open(RequestTable& table, std::uint32_t requests) { queue_.open(table, requests); }
  void configure(const UcAttributes& attributes);
  void reset(Psn sq_psn);

  bool full() const { return queue_.full(); }
  bool idle() const { return queue_.empty(); }
  /// Sends and writes; other kinds end with kLocalQpOperation. REQUIRES: !full().
  void start(const Request& request);
  bool transmit(Environment& env, unsigned packet_budget);
  void flush(Environment& env);

 private:
  bool fail(Environment& env, Verdict verdict);

  UcAttributes attributes_;
  std::uint32_t mtu_shift_ = 10;
  SendQueue queue_;
  Psn next_psn_;
  std::uint32_t index_ = 0;  ///< packet of the oldest request that goes next
  bool failed_ = false;
};

class UcResponder {
 public:
  void configure(const UcAttributes& attributes);
  void reset(Psn rq_psn);
  void receive(Environment& env, const wire::Headers& h, std::span<const std::byte> payload);
  /// Completes a drawn receive with kFlushed; deaf until reset().
  void flush(Environment& env);

 private:
  enum class Message : std::uint8_t { kNone, kSend, kWrite };
  struct Packet {
    const wire::Headers& h;
    std::span<const std::byte> payload;
    wire::OpcodeMask mask;
  };

  bool check_psn(Environment& env, const Packet& p);
  bool check_sequence(const Packet& p) const;
  bool check_length(const Packet& p) const;
  bool begin(Environment& env, const Packet& p);
  bool take(Environment& env, const Packet& p);
  bool draw(Environment& env);
  void finish(Environment& env, const Packet& p);
  void fail(Environment& env, Verdict verdict);

  UcAttributes attributes_;
  Psn expected_;
  Message message_ = Message::kNone;
  bool drawn_ = false;  ///< a receive is ours, of `capacity_` bytes; survives a dropped message and
                        ///< serves the next
  std::uint64_t capacity_ = 0;
  std::uint64_t offset_ = 0;
  std::uint32_t remaining_ = 0;
  Rkey rkey_;
  std::uint64_t addr_ = 0;
  bool failed_ = false;
};

}  // namespace softhca::transport
