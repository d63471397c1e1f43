// SPDX-License-Identifier: Apache-2.0

// The TCP connection by which the two processes of a benchmark agree on tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace softhca::bench {

enum class Operation : std::uint32_t { kSend, kWrite, kRead };
enum class Measure : std::uint32_t { kEnd, kRate, kLatency, kCompletion, kEcho, kTcpEcho };

/// A test, sent by the client to the server.
struct TestSpec {
  Measure measure = Measure::kEnd;
  Operation operation = Operation::kWrite;
  std::uint32_t size = 0;  ///< bytes of a message
  std::uint32_t queue_pairs = 1;
  std::uint32_t depth = 1;       ///< messages of a queue pair in flight
  std::uint32_t iterations = 0;  ///< of each test but rates, including warm-up
  std::uint32_t mtu = 0;         ///< enum ibv_mtu
};

class Peer {
 public:
  /// Listens and accepts one connection.
  static Peer accept_one(std::uint16_t port);
  /// Retries for ten seconds.
  static Peer connect_to(const std::string& host, std::uint16_t port);
  explicit Peer(int fd) : fd_(fd) {}
  Peer(Peer&& other) noexcept;
  Peer& operator=(Peer&&) = delete;
  ~Peer();

  template <class T>
  void send(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    send_bytes(&value, sizeof value);
  }
  template <class T>
  T receive() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    receive_bytes(&value, sizeof value);
    return value;
  }
  void send_bytes(const void* data, std::size_t bytes);
  void receive_bytes(void* data, std::size_t bytes);
  /// Sends what there is room for, without a wait. Returns its bytes.
  std::size_t send_some(const void* data, std::size_t bytes);
  /// Waits for bytes, and receives at most so many.
  std::size_t receive_some(void* data, std::size_t bytes);
  /// True if there is something to receive.
  bool readable() const;
  /// Waits until there is something to receive, or room to send.
  void await_any() const;

 private:
  int fd_;
};

/// Ends the program with a message, which names `errno` if it is set.
[[noreturn]] void die(const std::string& what);

}  // namespace softhca::bench
