// SPDX-License-Identifier: Apache-2.0

// Datagrams by address handles that are made and destroyed, to queue pairs and to a multicast group
// with changing members. Each datagram must arrive once, in order and unchanged, at the destination
// that its handle had when it was posted. Where the path loses packets, a datagram may be lost
// instead.
#include <arpa/inet.h>

#include <cstring>

#include "tests/system/verbs/stress/party.hpp"
#include "tests/system/verbs/stress/worker.hpp"

namespace softhca::stress {
namespace {

constexpr std::uint32_t kMulticastQpn = 0xffffff;

class DatagramWorker : public Worker {
 public:
  DatagramWorker(const Stage& stage, unsigned group)
      : stage_(stage), source_(Party::kDepth, Party::kBytes, 64) {
    group_.raw[10] = group_.raw[11] = 0xff;
    const std::uint32_t address = htonl(0xef000000 + group);
    std::memcpy(group_.raw + 12, &address, sizeof address);
    source_.enroll(stage.from.pd.get());
  }

  void round() override {
    if (!sender_) start();
    for (auto& receiver : receivers_) receiver->provide();
    switch (random_.below(8)) {
      case 0:
        return change_members();
      case 1:
        return renew_handles();
      case 2:
        return reset_receiver();
      case 3:
        return reset_sender();
      case 4:
        return send_astray();
      default:
        send();
        settle();
    }
  }

  void recover() override {
    handle_.reset();
    group_handle_.reset();
    sender_.reset();
    for (auto& receiver : receivers_) receiver.reset();
  }

 private:
  void start() {
    sender_ = std::make_unique<Party>(stage_.from, random_.below(1 << 30), stage_.lossy);
    for (auto& receiver : receivers_)
      receiver = std::make_unique<Party>(stage_.to, random_.below(1 << 30), stage_.lossy);
    renew_handles();
  }

  AddressHandle make_handle(const ibv_gid& gid) {
    ibv_ah_attr attr = route_to(gid);
    return AddressHandle(made(ibv_create_ah(stage_.from.pd.get(), &attr), "ibv_create_ah"));
  }

  void renew_handles() {
    handle_.reset();
    group_handle_.reset();
    handle_ = make_handle(stage_.to.device.gid);
    group_handle_ = make_handle(group_);
  }

  void change_members() {
    Party& party = *receivers_[random_.below(kReceivers)];
    if (party.member())
      party.detach();
    else
      party.attach(group_);
  }

  /// A few, each to one receiver, to the members, or to one that does not take it.
  void send() {
    const unsigned count = random_.between(1, Party::kDepth);
    for (unsigned slot = 0; slot < count; ++slot) {
      Party& to = *receivers_[random_.below(kReceivers)];
      const bool group = random_.below(4) == 0;
      const bool strange = random_.below(8) == 0;
      const std::uint32_t bytes = random_.between(kLeast, Party::kMost);
      const std::uint64_t number = random_.next();
      write_pattern(source_.at(slot), bytes, number);
      sender_->send(entry_of(slot, bytes), (group ? group_handle_ : handle_).get(),
                    group ? kMulticastQpn : to.qpn(), to.qkey() + (strange ? 1 : 0));
      if (strange) continue;
      if (!group || to.member())
        to.expect(number, bytes);
      else
        to.permit(number, bytes);
    }
    stress::count("datagrams", count);
  }

  void settle() {
    sender_->finish_sends();
    for (auto& receiver : receivers_) receiver->finish_receives();
  }

  void reset_receiver() {
    send();
    Party& party = *receivers_[random_.below(kReceivers)];
    party.reset();
    party.provide();
    sender_->finish_sends();
    party.reset();  // datagrams know of no connection: what was under way may have come
    party.provide();
    settle();
  }

  /// Some have come until then; nothing comes afterwards.
  void reset_sender() {
    send();
    sender_->reset();
    for (auto& receiver : receivers_) {
      receiver->reset();
      receiver->provide();
    }
    send();
    settle();
  }

  /// Sends by a handle of an unused address, and destroys the handle while the datagrams are under
  /// way. The adapter must not confuse the next handle with it.
  void send_astray() {
    ibv_gid nobody = stage_.to.device.gid;
    nobody.raw[15] ^= 0x40;
    AddressHandle astray = make_handle(nobody);
    const unsigned count = random_.between(1, Party::kDepth);
    for (unsigned slot = 0; slot < count; ++slot) {
      const Party& to = *receivers_[random_.below(kReceivers)];
      sender_->send(entry_of(slot, kLeast), astray.get(), to.qpn(), to.qkey());
    }
    astray.reset();
    renew_handles();
    const AddressHandle next = make_handle(stage_.to.device.gid);
    std::this_thread::sleep_for(std::chrono::microseconds(random_.below(2000)));
    for (auto& receiver : receivers_) receiver->finish_receives();
    sender_->reset();  // it may have failed
  }

  ibv_sge entry_of(unsigned slot, std::uint32_t bytes) const {
    return {source_.address(slot), bytes, source_.region()->lkey};
  }

  static constexpr unsigned kReceivers = 2;
  static constexpr std::uint32_t kLeast = 8;

  const Stage stage_;
  ibv_gid group_{};
  Slots source_;
  std::unique_ptr<Party> sender_;
  std::unique_ptr<Party> receivers_[kReceivers];
  AddressHandle handle_, group_handle_;
};

}  // namespace

std::unique_ptr<Worker> make_datagram_worker(const Stage& stage, unsigned group) {
  return std::make_unique<DatagramWorker>(stage, group);
}

}  // namespace softhca::stress
