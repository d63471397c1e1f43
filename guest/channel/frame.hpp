// SPDX-License-Identifier: Apache-2.0

// Frames of the channel between a virtual machine and its relay on the host. The channel is a
// stream of bytes: a virtio-serial port, vsock, or a Unix socket. Both ends run on one machine, so
// all numbers are in its byte order.
//
// The stream may begin with anything, as a machine may have been reset in the middle of a frame. So
// the agent begins with as many zeros as the longest frame has bytes, then kMagic and a kStart
// frame. The relay answers with kMagic and a kStarted frame that repeats the nonce of the agent.
// Each end drops what comes before. A kStart ends all streams of an earlier one.
//
// Below that, the channel carries streams. The agent opens one for each connection of a program
// (kOpen); the relay opens one for each descriptor that a reply of the daemon carries (kRecord).
// Either end may send so many bytes of frames kRecord and kData as its credit for the stream allows
// (kCredit adds to it). A stream is over when both ends have sent kClose.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/control.hpp"

namespace softhca::guest {

enum class FrameKind : std::uint16_t {
  kNone = 0,  ///< not a frame, but zeros before a kStart
  kStart,     ///< agent: StartBody
  kStarted,   ///< relay: StartedBody, and the tenant's name, or why the machine has not started
  kOpen,      ///< agent: the name of the socket
  kRecord,    ///< RecordHead, its PassedDescriptors (only the relay sends any), and the record
  kData,      ///< bytes of a stream socket
  kClose,     ///< no more of this stream follows
  kWake,      ///< agent: a program has written to an eventfd
  kCredit,    ///< CreditBody
  kFile,      ///< relay: FileHead, a path, and the content
};
inline constexpr std::uint16_t kFrameKinds = static_cast<std::uint16_t>(FrameKind::kFile) + 1;

struct FrameHeader {
  std::uint32_t length;  ///< bytes that follow
  std::uint16_t kind;    ///< FrameKind
  std::uint16_t reserved;
  std::uint32_t stream;  ///< 0: none
};
static_assert(sizeof(FrameHeader) == 12);

inline constexpr std::size_t kMaxPayload = abi::kMaxRecord + 64;
inline constexpr std::size_t kMaxFrame = sizeof(FrameHeader) + kMaxPayload;

/// As a header it would be that of a frame that is too long.
inline constexpr unsigned char kMagic[16] = {0xf3, 'S',  'o',  'f',  't',  'H',  'C',  'A',
                                             0xff, 0x0d, 0x0a, 0x1a, 0x9c, 0x5e, 0x31, 0xf7};

/// Streams that the agent opens have lower numbers.
inline constexpr std::uint32_t kFirstOfRelay = 0x80000000;
/// The descriptor that comes with the reply to kStartMachine.
inline constexpr std::uint32_t kProxyStream = kFirstOfRelay;

inline constexpr std::uint32_t kMaxConnections = 1024;  ///< streams that the agent opens
inline constexpr std::uint32_t kMaxStreams = 8192;      ///< of both ends
inline constexpr std::size_t kWindow = 4 * kMaxFrame;   ///< credit of a new stream
inline constexpr std::size_t kMaxSocketName = 64;
/// The name of the tenant's control socket, which is a SOCK_STREAM socket.
inline constexpr char kControlSocket[] = "control.sock";
inline constexpr std::size_t kMaxTenantName = 64;

inline constexpr std::uint32_t kChannelVersion = 1;
/// The port of the host to which an agent connects by vsock.
inline constexpr std::uint32_t kVsockPort = 4791;

struct StartBody {
  std::uint64_t nonce;
  std::uint64_t begin;  ///< byte of the region at which the guest's device begins
  std::uint64_t bytes;  ///< of the guest's device
  std::uint32_t version;
  std::uint32_t reserved;
};

struct StartedBody {
  std::uint64_t nonce;
  std::uint32_t version;
  std::int32_t error;  ///< 0, or an errno value
  abi::StartMachineReply machine;
};

enum class DescriptorKind : std::uint32_t {
  kRegion = 1,  ///< the machine's region; has no stream
  kEvent,       ///< an eventfd
  kRecords,     ///< a SOCK_SEQPACKET socket
  kBytes,       ///< a SOCK_STREAM socket
};
struct PassedDescriptor {
  std::uint32_t kind;  ///< DescriptorKind
  std::uint32_t stream;
};
struct RecordHead {
  std::uint32_t descriptors;  ///< at most abi::kMaxFds
  std::uint32_t reserved;
};
static_assert(sizeof(RecordHead) + abi::kMaxFds * sizeof(PassedDescriptor) + abi::kMaxRecord <=
              kMaxPayload);

struct CreditBody {
  std::uint32_t bytes;  ///< of frames, with their headers
  std::uint32_t reserved;
};

enum class FileKind : std::uint32_t {
  kRegular = 1,
  kLink,     ///< the content is the target
  kSocket,   ///< has no content: programs may connect to it (kOpen)
  kRemoved,  ///< has no content
  kDone,     ///< has no path: all files that there were at kStart have been sent
};
struct FileHead {
  std::uint32_t kind;        ///< FileKind
  std::uint32_t path_bytes;  ///< the path is relative to the tenant's folder
};
inline constexpr std::size_t kMaxPath = 512;
inline constexpr std::size_t kMaxFileBytes = 8192;
inline constexpr std::size_t kMaxFiles = 8192;
static_assert(sizeof(FileHead) + kMaxPath + kMaxFileBytes <= kMaxPayload);

}  // namespace softhca::guest
