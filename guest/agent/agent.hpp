// SPDX-License-Identifier: Apache-2.0

// The guest's end of the channel. It serves the sockets of the tenant as the daemon does on a host,
// and passes on what programs send. It answers requests for shared memory itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "guest/agent/clients.hpp"
#include "guest/agent/memory_server.hpp"
#include "guest/agent/region.hpp"
#include "guest/agent/tenant_sockets.hpp"
#include "guest/agent/tree_folder.hpp"
#include "guest/channel/channel.hpp"
#include "guest/channel/event_loop.hpp"
#include "guest/channel/report.hpp"
#include "guest/channel/streams.hpp"

namespace softhca::guest {

struct AgentOptions {
  std::string runtime_directory;
  std::optional<gid_t> group;
  /// Opens a channel to the relay.
  std::function<Expected<UniqueFd>()> open_channel;
  /// Is called when programs can connect.
  std::function<void()> serving = [] {};
};

class Agent final : private StreamOwner, private ChannelUser {
 public:
  Agent(EventLoop& loop, Region& region, AgentOptions options, Report& report);
  ~Agent();

  /// Opens a channel, and begins. Tries again later if it cannot.
  void begin();
  /// Sends what is due. Call it after each step of the loop.
  void flush();

  const Clients& clients() const { return clients_; }
  std::size_t streams() const { return streams_.size(); }
  bool is_started() const { return is_started_; }

 private:
  bool answer(Stream& stream, std::span<const std::byte> record) override;
  bool describe(Stream& stream, std::span<UniqueFd> fds,
                std::vector<PassedDescriptor>& descriptors) override;
  bool make(Stream& stream, std::span<const PassedDescriptor> descriptors,
            Delivery& delivery) override;
  void closed(std::uint32_t stream) override;
  bool handle(Frame& frame) override;
  void lost(bool is_broken) override;
  void disconnected() override;

  void send_start();
  bool started(Frame frame);
  Outcome serve(const abi::StartMachineReply& machine, const std::string& tenant);
  void begin_later(const std::string& why);
  void accept(const std::string& name, UniqueFd connection);
  bool receive_file(Frame frame);
  bool lay_out(FileKind kind, const std::string& path, const std::string& content);
  std::string guest_content(const std::string& path, const std::string& content) const;

  void allocate(Stream& stream, std::uint32_t tag, std::span<const std::byte> body);
  void free(Stream& stream, std::uint32_t tag, std::span<const std::byte> body);
  void reply(Stream& stream, std::uint32_t tag, std::span<const std::byte> body,
             std::vector<UniqueFd> fds = {});
  void refuse(Stream& stream, std::uint32_t tag, int error, const std::string& text);
  bool complete_offer(std::uint32_t stream, Delivery& delivery);
  UniqueFd make_descriptor(Stream& stream, const PassedDescriptor& descriptor);
  std::uint32_t next_number();

  EventLoop& loop_;
  Region& region_;
  AgentOptions options_;
  Report& report_;
  Channel channel_;
  Streams streams_;
  Clients clients_;
  MemoryServer memory_;
  std::map<std::uint32_t, std::uint32_t> offers_;  ///< tags of kOfferMemory, by their streams
  TreeFolder tree_;
  TenantSockets sockets_;
  Timer retry_;    ///< until the next channel is opened
  Timer waiting_;  ///< for the relay's answer to kStart
  std::uint64_t nonce_ = 0;
  bool is_started_ = false;
  std::uint32_t connections_ = 0;
  std::uint32_t last_number_ = 0;
};

}  // namespace softhca::guest
