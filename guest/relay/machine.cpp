// SPDX-License-Identifier: Apache-2.0

#include "guest/relay/machine.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "abi/session.hpp"
#include "daemon/base/passed_descriptors.hpp"
#include "daemon/base/system_error.hpp"
#include "guest/channel/local_socket.hpp"
#include "guest/channel/outbox.hpp"

namespace softhca::guest {
namespace {

template <class Body>
struct Request {
  abi::RequestHeader header;
  Body body;
};

/// Copies the body of a reply. Returns false if it is too short.
template <class Body>
bool read_body(std::span<const std::byte> record, Body& body) {
  if (record.size() < sizeof(abi::ReplyHeader) + sizeof body) return false;
  std::memcpy(&body, record.data() + sizeof(abi::ReplyHeader), sizeof body);
  return true;
}

/// Returns why the daemon refused: its own text, or the meaning of the error.
std::string text_of(std::span<const std::byte> record, int error) {
  const auto text = record.subspan(sizeof(abi::ReplyHeader));
  if (text.empty()) return std::strerror(error);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

}  // namespace

Expected<Machine> Machine::take(const std::string& path) {
  auto socket = connect_to(path, SOCK_SEQPACKET);
  if (!socket) return socket.error();
  const abi::RequestHeader request{static_cast<std::uint32_t>(abi::Operation::kTakeMachine), 0};
  if (send_with_descriptors(socket->get(), bytes_of(request), {}) < 0) return system_error(path);
  const timeval longest{.tv_sec = 30, .tv_usec = 0};
  ::setsockopt(socket->get(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  std::array<std::byte, 1024> record;
  std::array<UniqueFd, abi::kMaxFds> fds;
  const ssize_t got = receive_with_descriptors(socket->get(), record, fds);
  if (got < 0) return system_error(path);
  const auto bytes = std::span<const std::byte>(record).first(static_cast<std::size_t>(got));
  abi::ReplyHeader header;
  if (bytes.size() < sizeof header)
    return Error{path + ": the daemon has closed the connection; see its log", EPIPE};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.error != 0)
    return Error{path + ": the daemon refuses a virtual machine: " + text_of(bytes, header.error),
                 header.error};
  abi::TakeMachineReply reply;
  if (!read_body(bytes, reply) || !fds[0])
    return Error{path + ": the daemon sent no region; its version may be another", EPROTO};
  Machine machine;
  machine.socket_ = std::move(*socket);
  machine.region_ = std::move(fds[0]);
  machine.bytes_ = reply.bytes;
  return machine;
}

bool Machine::is_region(int fd) const {
  struct stat region, other;
  return ::fstat(region_.get(), &region) == 0 && ::fstat(fd, &other) == 0 &&
         region.st_dev == other.st_dev && region.st_ino == other.st_ino;
}

void Machine::watch(EventLoop& loop, std::function<void()> answered, std::function<void()> lost) {
  loop_ = &loop;
  answered_ = std::move(answered);
  lost_ = std::move(lost);
  watch_.ready = [this](std::uint32_t) { receive(); };
  loop.arm(socket_.get(), watch_, EPOLLIN);
}

void Machine::refuse(int error, std::string text) {
  started_ = Started{.error = error, .text = std::move(text), .reply = {}};
}

void Machine::start(std::uint64_t begin, bool seal) {
  if (is_waiting_) return;
  if (!socket_) return refuse(EPIPE, "the daemon has ended the machine; start it anew");
  if (has_started_) {
    if (begin != begin_)
      return refuse(EINVAL, "the guest's device begins at another byte than before");
    started_ = Started{.error = 0, .text = "", .reply = reply_};
    return;
  }
  begin_ = begin;
  started_.reset();
  const Request<abi::StartMachineRequest> request{
      {static_cast<std::uint32_t>(abi::Operation::kStartMachine), ++tag_},
      {begin, seal ? 1U : 0U, 0}};
  is_waiting_ = send_with_descriptors(socket_.get(), bytes_of(request), {}) > 0;
  if (!is_waiting_) refuse(errno, std::strerror(errno));
}

void Machine::receive() {
  std::array<std::byte, 1024> buffer;
  ReceivedRecord record;
  const Received received = receive_record(socket_.get(), buffer, abi::kMaxFds, record);
  if (received == Received::kNothing) return;
  const auto bytes = std::span<const std::byte>(buffer).first(record.bytes);
  abi::ReplyHeader header;
  if (received == Received::kEnd || bytes.size() < sizeof header) return lose();
  std::memcpy(&header, bytes.data(), sizeof header);
  if (!is_waiting_ || header.tag != tag_) return;
  is_waiting_ = false;
  Started started{.error = header.error, .text = "", .reply = {}};
  if (header.error != 0) {
    started.text = text_of(bytes, header.error);
  } else if (!read_body(bytes, started.reply)) {
    started.error = EPROTO;
    started.text = "the daemon sent too short a reply; its version may be another";
  } else if (started.reply.proxy.bytes != 0 && record.descriptors != 1) {
    started.error = EPROTO;
    started.text = "the daemon sent no descriptor for the memory of programs";
  }
  has_started_ = started.error == 0;
  if (has_started_) proxy_ = std::move(record.fds[0]);
  reply_ = started.reply;
  started_ = std::move(started);
  answered_();
}

void Machine::lose() {
  loop_->arm(socket_.get(), watch_, 0);
  socket_.reset();
  proxy_.reset();
  has_started_ = false;
  refuse(EPIPE, "the daemon has ended the machine; start it anew");
  if (std::exchange(is_waiting_, false)) answered_();
  lost_();
}

}  // namespace softhca::guest
