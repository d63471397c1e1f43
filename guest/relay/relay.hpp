// SPDX-License-Identifier: Apache-2.0

// The host's end of the channel of a virtual machine. It opens a connection to a socket of the
// tenant for each connection of a program in the guest, and passes on records, bytes and wakes. It
// needs no rights but those to connect to these sockets. It checks all frames, as the guest may
// send anything.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "guest/channel/channel.hpp"
#include "guest/channel/event_loop.hpp"
#include "guest/channel/report.hpp"
#include "guest/channel/streams.hpp"
#include "guest/relay/listener.hpp"
#include "guest/relay/machine.hpp"
#include "guest/relay/tree_source.hpp"

namespace softhca::guest {

struct RelayOptions {
  std::string folder;  ///< of the tenant, with its sockets and device tree
  std::string tenant;
  bool seal = true;  ///< false: the region stays open to new mappings
};

class Relay final : private StreamOwner, private ChannelUser {
 public:
  Relay(EventLoop& loop, Machine& machine, RelayOptions options, Report& report);
  ~Relay();

  /// Takes another channel, in place of the earlier one.
  void connect(UniqueFd channel);
  /// Takes the channels of those that connect there; the latest one counts.
  Outcome listen(const std::string& place);
  /// Sends what is due. Call it after each step of the loop.
  void flush();
  /// Returns the number of streams.
  std::size_t streams() const { return streams_.size(); }

 private:
  /// A connection to the daemon of an earlier machine run, until the daemon has ended its session.
  struct Draining {
    UniqueFd fd;
    Watch watch;
  };

  bool answer(Stream& stream, std::span<const std::byte> record) override;
  bool describe(Stream& stream, std::span<UniqueFd> fds,
                std::vector<PassedDescriptor>& descriptors) override;
  bool make(Stream& stream, std::span<const PassedDescriptor> descriptors,
            Delivery& delivery) override;
  void closed(std::uint32_t stream) override;
  bool handle(Frame& frame) override;
  void lost(bool is_broken) override;
  void disconnected() override;

  bool start(Frame frame);
  void answer_start();
  void send_started(int error, const std::string& text, const abi::StartMachineReply& reply);
  std::string why_refused(const StartBody& start) const;
  bool open(const Frame& frame);
  UniqueFd refuse_control(std::uint32_t stream);
  void machine_lost();
  void end_streams();
  void drain(UniqueFd connection);
  void drained(std::list<Draining>::iterator which);
  std::optional<DescriptorKind> kind_of(int fd) const;
  std::uint32_t next_number();

  EventLoop& loop_;
  Machine& machine_;
  RelayOptions options_;
  Report& report_;
  Channel channel_;
  Streams streams_;
  TreeSource tree_;
  Timer tree_timer_;
  Listener listener_;
  std::optional<StartBody> starting_;  ///< has no answer yet
  bool is_started_ = false;            ///< the agent has got kStarted without an error
  std::list<Draining> draining_;
  std::uint32_t connections_ = 0;              ///< streams that the agent has opened
  std::map<std::uint32_t, UniqueFd> refused_;  ///< other ends of refuse_control(), by stream
  std::uint32_t last_number_ = kProxyStream;
};

}  // namespace softhca::guest
