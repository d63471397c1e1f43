// SPDX-License-Identifier: Apache-2.0

// Messages on a tenant socket (Unix SOCK_SEQPACKET). The process sends one request and waits for
// its reply; each is one record. A request is a RequestHeader and the body of its operation. A
// reply is a ReplyHeader and the body. If `error` is not 0, no body follows the header, or a text
// that says why the request was refused: at most kMaxRefusalText bytes, without a zero at the end.
// Earlier daemons send none, and earlier providers ignore it. File descriptors travel as SCM_RIGHTS
// with the record; each operation states their exact number.
//
// The first request states which versions of the protocol the process speaks, and its reply says
// which one the daemon has chosen (abi/version.hpp). EPROTO: the daemon speaks none of them; the
// body of this reply is the VersionRange of the daemon. The process may send another first request.
//
// The process must map memory of the session and of its rings before the request after the reply
// that brings it. That request seals the memory: from then on it cannot be mapped for writing, nor
// can pages of it be given back. Until that request, the daemon does not read the session's memory.
// A process that prevents the seal loses its session. The first registration seals shared memory
// (kAllocShared).
//
// A process that has mapped memory may seal it itself (F_SEAL_FUTURE_WRITE and F_SEAL_SEAL). That
// is faster: sealing may take long, so the daemon leaves it to helper processes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/rings.hpp"
#include "abi/version.hpp"

namespace softhca::abi {

inline constexpr std::uint32_t kMaxRecord = 16384;  ///< bytes; longer records end the session
inline constexpr std::uint32_t kMaxFds = 3;
inline constexpr std::uint32_t kMaxRefusalText = 240;  ///< bytes

enum class Operation : std::uint32_t {
  kHello = 1,
  kQueryDevice,
  kQueryPort,
  kAllocPd,
  kDeallocPd,
  kAllocShared,
  kFreeShared,
  kRegisterMr,
  kDeregisterMr,
  kCreateChannel,
  kCreateCq,
  kResizeCq,
  kDestroyCq,
  kCreateSrq,
  kModifySrq,
  kQuerySrq,
  kDestroySrq,
  kCreateQp,
  kModifyQp,
  kQueryQp,
  kDestroyQp,
  kCreateAh,
  kDestroyAh,
  kReregisterMr,
  kAllocWindow,
  kDeallocWindow,
  kOpenXrcDomain,
  kCloseXrcDomain,
  kOpenQp,
  kCloseQp,
  kModifyCq,
  kAllocNullMr,
  kAttachMulticast,
  kDetachMulticast,
  kOpenEventChannel,
  kConnectionCommand,
  kShareContext,
  kJoinContext,
  kImportPd,
  kImportMr,
  kOpenDatagramClient,
  kSetDatagramBuffers,
  kSendDatagram,
  kReceiveDatagram,
  kNameShared,
  kJoinShared,
  kResizeSrq,
  kOfferMemory,
  kTakeMachine,
  kStartMachine,
};

struct RequestHeader {
  std::uint32_t operation;  ///< Operation
  std::uint32_t tag;        ///< the reply returns it
};

struct ReplyHeader {
  std::uint32_t tag;
  std::int32_t error;  ///< 0, or an errno value
};

/// Body of requests and replies that carry only a handle, or nothing; then the handle is 0. For
/// kQueryPort it is the port number.
struct HandleBody {
  std::uint32_t handle;
  std::uint32_t reserved;
};

// --- session ---------------------------------------------------------------------------------

struct HelloRequest {
  std::uint64_t magic;    ///< kSessionMagic
  VersionRange versions;  ///< as for stated_range()
};

/// Sent instead by a process that asks for a level of its tenant. EINVAL: the tenant has no such
/// level; EACCES: this process may not use it.
struct HelloWithLevel {
  HelloRequest hello;
  char level[40];  ///< its name, padded with zeros; all zeros: no level requested
};

/// Sent instead by a process that opens another device of its tenant than the first. EINVAL: the
/// tenant has no such device. The process may send it if the device tree names the number.
struct HelloWithDevice {
  HelloWithLevel named;
  std::uint32_t device;  ///< counted from 0, the first
  std::uint32_t reserved;
};

/// Comes with 3 descriptors: session memfd, wake eventfd, asynchronous event socket. The process
/// reads 16-byte records from that socket: {u64 element, u32 event type, u32 reserved}. element is
/// the user_handle of the object, or the port number.
struct HelloReply {
  std::uint32_t vcbs;
  std::uint32_t session;
  std::uint32_t daemon_pid;
  std::uint32_t version;  ///< as for answered_version()
};

/// Limits and identity of the device as this tenant sees it.
struct DeviceReply {
  char firmware[32];
  std::uint64_t node_guid;       ///< network byte order
  std::uint64_t sys_image_guid;  ///< network byte order
  std::uint64_t max_mr_size;
  std::uint32_t vendor_id;
  std::uint32_t vendor_part_id;
  std::uint32_t hw_version;
  std::uint32_t max_qp;
  std::uint32_t max_qp_wr;
  std::uint32_t max_sge;
  std::uint32_t max_cq;
  std::uint32_t max_cqe;
  std::uint32_t max_mr;
  std::uint32_t max_pd;
  std::uint32_t max_ah;
  std::uint32_t max_srq;
  std::uint32_t max_srq_wr;
  std::uint32_t max_srq_sge;
  std::uint32_t max_rd_atomic;  ///< per queue pair, as initiator and as responder
  std::uint32_t max_inline;
  std::uint32_t completion_vectors;
  std::uint32_t max_mw;
  std::uint32_t capabilities;  ///< kCan*
  std::uint32_t ports;         ///< 0, of a daemon of release 0.1: 1
};

/// After kOfferMemory, regions may have extents of kind kProcess.
inline constexpr std::uint32_t kCanReachProcess = 1 << 0;
/// Shared receive queues can be resized.
inline constexpr std::uint32_t kCanResizeSrq = 1 << 1;
/// How the process writes commands of the ibv_wr_ calls into VCBs, unless its program has chosen
/// that: 0 (the provider's default), or 1 + the place of the word in `kick` of the configuration. A
/// provider ignores a greater value.
inline constexpr std::uint32_t kKickShift = 2;
inline constexpr std::uint32_t kKickMask = 7;
constexpr std::uint32_t kick_capability(std::uint32_t place) { return (1 + place) << kKickShift; }
constexpr std::uint32_t kick_code(std::uint32_t capabilities) {
  return capabilities >> kKickShift & kKickMask;
}

struct PortReply {
  std::uint32_t state;       ///< enum ibv_port_state
  std::uint32_t max_mtu;     ///< enum ibv_mtu
  std::uint32_t active_mtu;  ///< enum ibv_mtu
  std::uint32_t gid_entries;
  std::uint32_t max_message_bytes;
  std::uint32_t bad_pkey_count;
  std::uint32_t qkey_violations;
  std::uint32_t active_speed;
  std::uint32_t active_width;
  std::uint32_t reserved;
};

// --- memory ----------------------------------------------------------------------------------

/// The daemon makes a memfd of `bytes` (whole pages) with a sealed size; the reply is an
/// AllocSharedReply with 1 descriptor. The process copies its pages into the memfd and maps it in
/// their place. With kFreeShared the process gives up its interest; the daemon keeps the memory
/// while a region uses it. After the last region of the memory has ended, the daemon still keeps it
/// until the tenant or the daemon runs short of the resources that it takes. Then the daemon
/// forgets the handle.
struct AllocSharedRequest {
  std::uint64_t bytes;
};
struct AllocSharedReply {
  std::uint32_t handle;
  std::uint32_t reserved;
  std::uint64_t inode;  ///< st_ino of the memfd, to recognise its mappings in /proc/self/maps
};

/// A token for memory that several sessions of a process register.
///
/// kNameShared: a HandleBody names shared memory, which the request seals if necessary. The reply
/// is a SharedToken, the same for each request. ESTALE: the daemon has forgotten the handle.
///
/// kJoinShared, with that token, in another session of the same user and tenant: the reply is a
/// HandleBody, the same for each request. That session registers the memory by this handle. EACCES:
/// no memory has this token. The memory counts for the session that allocated it. A session that
/// names a handle after the daemon has given up the memory gets ESTALE.
struct SharedToken {
  std::uint8_t bytes[16];  ///< cannot be guessed
};

/// kOfferMemory comes before the first extent of kind kProcess. The request is a HandleBody of
/// zeros; the reply has no body and one descriptor, a socket (SOCK_SEQPACKET). On it, before it
/// registers, the process sends one record of one byte with the descriptor of its /proc/self/mem,
/// open for reading and writing. EINVAL: a region of such memory exists already; EOPNOTSUPP: the
/// tenant may not do so; EBUSY: an access to memory of the tenant has not returned; EMFILE: the
/// tenant has too many descriptors.
///
/// The process sends the record to the agent of a virtual machine, which makes the accesses. The
/// daemon replies to the agent with an OfferMemoryReply and no descriptor.
///
/// kShared: bytes [addr, addr+length) of the process are bytes [offset, offset+length) of shared
/// memory `handle`. kProcess: the daemon reaches them by that descriptor.
struct OfferMemoryReply {
  std::uint32_t memory;  ///< by which the daemon names it to the agent
  std::uint32_t reserved;
};
enum class ExtentKind : std::uint32_t { kProcess = 0, kShared = 1 };
struct MrExtent {
  std::uint64_t addr;
  std::uint64_t length;
  std::uint64_t offset;
  std::uint32_t handle;
  std::uint32_t kind;  ///< ExtentKind
};

inline constexpr std::uint32_t kMaxMrExtents = 256;

/// Followed by `extents` MrExtents, in ascending order, without gaps, covering exactly [addr,
/// addr+length). ESTALE: the daemon has forgotten the handle of one of them.
struct RegisterMrRequest {
  std::uint64_t addr;
  std::uint64_t length;
  std::uint64_t iova;    ///< address by which keys refer to the first byte; 0: zero-based
  std::uint32_t access;  ///< enum ibv_access_flags
  std::uint32_t pd;
  std::uint32_t extents;
  std::uint32_t reserved;
};
struct RegisterMrReply {
  std::uint32_t handle;
  std::uint32_t lkey;
  std::uint32_t rkey;
  std::uint32_t reserved;
};

/// Changes what `flags` (enum ibv_rereg_mr_flags) selects: addr, length, iova and extents; the
/// protection domain; access. Followed by region.extents MrExtents. The keys stay; the reply is a
/// RegisterMrReply. A failure leaves the region unchanged.
struct ReregisterMrRequest {
  std::uint32_t handle;
  std::uint32_t flags;
  RegisterMrRequest region;
};

// A region of all addresses (implicit on-demand paging) has IBV_ACCESS_ON_DEMAND, address 0, length
// 2^64 - 1, and one extent, kProcess. It does not count as registered bytes.

// kAllocNullMr: a region without memory, by the HandleBody of its protection domain. A program may
// use its lkey with any address: reads give zeros, and written bytes are dropped. The reply is a
// RegisterMrReply with rkey 0, as peers cannot reach the region.

/// A memory window. Commands bind and invalidate it.
struct AllocWindowRequest {
  std::uint32_t pd;
  std::uint32_t type;  ///< enum ibv_mw_type
};
struct AllocWindowReply {
  std::uint32_t handle;
  std::uint32_t rkey;
};

// --- contexts that share objects ----------------------------------------------------------------

/// Lets another process of the same user join the session. From then on both have the same
/// protection domains and regions, by the same handles, until the last of them ends. Regions in
/// unshared memory become useless when the process that registered them ends.
///
/// kShareContext has no body; the reply is a ContextToken, the same for each request. kJoinContext
/// takes such a token. EACCES: this user has no such session of this device; EBUSY: the joining
/// session has objects of its own.
struct ContextToken {
  std::uint8_t bytes[16];  ///< cannot be guessed
};

// kImportPd, kImportMr: a HandleBody names the handle to look up. EINVAL: it names no object. The
// reply to kImportPd has no body.
struct ImportMrReply {
  std::uint64_t length;
  std::uint64_t iova;
  std::uint32_t lkey;
  std::uint32_t rkey;
  std::uint32_t access;
  std::uint32_t reserved;
};

// --- completion ------------------------------------------------------------------------------

// kCreateChannel has no body; the reply is a HandleBody with 1 descriptor. The process reads 8-byte
// records from it: the user_handle of the completion queue.

inline constexpr std::uint32_t kNoHandle = 0xffffffff;

struct CreateCqRequest {
  std::uint64_t user_handle;
  std::uint32_t entries;  ///< at least; the ring has the next power of two
  std::uint32_t channel;  ///< or kNoHandle
};
/// Comes with 1 descriptor if new_segment is 1: the memfd of ring.segment. A ring that is used at
/// once (of a resized queue, or of an XRC shared receive queue) needs memory that is already
/// sealed. If there is none, the daemon makes only a segment: ring.bytes is 0 and the handle
/// kNoHandle. The process maps the segment and repeats the request. If it cannot map it, it sends
/// kDestroyCq with kNoHandle, which fails and makes the daemon free the segment.
struct CreateCqReply {
  std::uint32_t handle;
  std::uint32_t entries;
  RingLocation ring;
  std::uint32_t new_segment;
  std::uint32_t reserved;
};
/// The process stops polling, sends this, gets a CreateCqReply, and takes the elements that the old
/// ring still holds. The engine writes new elements to the new ring, with a counter that starts at
/// 0.
struct ResizeCqRequest {
  std::uint32_t handle;
  std::uint32_t entries;
};

/// A completion event comes after `count` completions, or `period` after the first completion that
/// no event has reported. If either is 0, each completion causes one.
struct ModifyCqRequest {
  std::uint32_t handle;
  std::uint16_t count;
  std::uint16_t period;  ///< us
};

// --- shared receive queues -------------------------------------------------------------------

struct CreateSrqRequest {
  std::uint64_t user_handle;
  std::uint32_t pd;
  std::uint32_t max_wr;
  std::uint32_t max_sge;
  std::uint32_t limit;
};
/// An XRC shared receive queue has an XRC domain and its own completion queue.
struct CreateXrcSrqRequest {
  CreateSrqRequest srq;
  std::uint32_t xrc_domain;
  std::uint32_t cq;
};
struct CreateSrqReply {
  std::uint32_t handle;
  std::uint32_t entries;  ///< slots of the ring
  std::uint32_t max_wr;
  std::uint32_t max_sge;
  RingLocation ring;
  std::uint32_t new_segment;
  std::uint32_t number;  ///< by which XRC peers name the queue, 24 bits
};
struct ModifySrqRequest {
  std::uint32_t handle;
  std::uint32_t limit;
};
/// The process stops posting, sends this, gets a CreateSrqReply, and posts to the ring in it with
/// the same producer counter. That ring already contains the posted work requests. It is the old
/// ring if that has the right number of slots. EINVAL: more is posted, or the limit is above
/// `max_wr`.
struct ResizeSrqRequest {
  std::uint32_t handle;
  std::uint32_t max_wr;
  std::uint32_t limit;
  std::uint32_t sets_limit;  ///< 0: the limit stays as it is
};
struct QuerySrqReply {
  std::uint32_t max_wr;
  std::uint32_t max_sge;
  std::uint32_t limit;
  std::uint32_t reserved;
};

// --- queue pairs -----------------------------------------------------------------------------

/// XRC: an initiator has no receive queue and no completion queue for receives. A target has only
/// its domain; the daemon ignores the other fields.
struct CreateQpRequest {
  std::uint64_t user_handle;
  std::uint32_t pd;
  std::uint32_t type;  ///< enum ibv_qp_type
  std::uint32_t send_cq;
  std::uint32_t receive_cq;
  std::uint32_t srq;  ///< or kNoHandle
  std::uint32_t max_send_wr;
  std::uint32_t max_receive_wr;
  std::uint32_t max_send_sge;
  std::uint32_t max_receive_sge;
  std::uint32_t max_inline;
  std::uint32_t signal_all;
  std::uint32_t xrc_domain;  ///< XRC targets
};
/// Comes with 1 descriptor if new_segment is 1. Both rings are in the same segment.
struct CreateQpReply {
  std::uint32_t qpn;  ///< also the handle
  std::uint32_t send_entries;
  std::uint32_t receive_entries;
  std::uint32_t max_send_wr;
  std::uint32_t max_receive_wr;
  std::uint32_t max_send_sge;
  std::uint32_t max_receive_sge;
  std::uint32_t max_inline;
  RingLocation send_ring;
  RingLocation receive_ring;
  std::uint32_t new_segment;
  std::uint32_t reserved;
};

/// Address vector (struct ibv_ah_attr).
struct AddressVector {
  std::uint8_t dgid[16];
  std::uint32_t flow_label;
  std::uint8_t sgid_index;
  std::uint8_t hop_limit;
  std::uint8_t traffic_class;
  std::uint8_t is_global;
  std::uint8_t sl;
  std::uint8_t static_rate;
  std::uint8_t port_num;
  std::uint8_t src_path_bits;
  std::uint16_t dlid;
  std::uint16_t reserved;
};
static_assert(sizeof(AddressVector) == 32);

/// Fixed-width image of struct ibv_qp_attr and its mask (enum ibv_qp_attr_mask).
struct QpAttributes {
  std::uint32_t mask;
  std::uint32_t qp_state;
  std::uint32_t cur_qp_state;
  std::uint32_t path_mtu;
  std::uint32_t path_mig_state;
  std::uint32_t qkey;
  std::uint32_t rq_psn;
  std::uint32_t sq_psn;
  std::uint32_t dest_qp_num;
  std::uint32_t access_flags;
  AddressVector av;
  AddressVector alt_av;
  std::uint16_t pkey_index;
  std::uint16_t alt_pkey_index;
  std::uint8_t en_sqd_async_notify;
  std::uint8_t sq_draining;
  std::uint8_t max_rd_atomic;
  std::uint8_t max_dest_rd_atomic;
  std::uint8_t min_rnr_timer;
  std::uint8_t port_num;
  std::uint8_t timeout;
  std::uint8_t retry_cnt;
  std::uint8_t rnr_retry;
  std::uint8_t alt_port_num;
  std::uint8_t alt_timeout;
  std::uint8_t reserved[5];
};
static_assert(sizeof(QpAttributes) == 40 + 64 + 4 + 16);

struct ModifyQpRequest {
  std::uint32_t qpn;
  /// For RESET, SQD or ERR: sequence number of the next command. The engine sends the commands
  /// before it before the state changes, unless something delays them for long. RESET discards
  /// those that the engine has not taken yet; they may still be in VCBs and in the doorbell ring.
  std::uint32_t send_sequence;
  QpAttributes attributes;
};
struct QueryQpReply {
  QpAttributes attributes;
};
struct DestroyQpRequest {
  std::uint32_t qpn;
  std::uint32_t send_sequence;  ///< as in ModifyQpRequest, for RESET
};
/// Reply to kDestroyQp: receive elements that were taken from a shared receive queue, and will have
/// no completion, return by completions before the reply. None are lost.

// --- extended reliable connected service (XRC) --------------------------------------------------

/// OpenXrcDomainRequest::flags.
inline constexpr std::uint32_t kXrcOfFile = 1 << 0;  ///< else a new domain for this process alone
inline constexpr std::uint32_t kXrcCreate = 1 << 1;  ///< EAGAIN without it, if there is none
inline constexpr std::uint32_t kXrcExclusive = 1 << 2;  ///< EINVAL if the domain exists

/// All processes of one user of the tenant have the same domain for a file. It ends when the last
/// of them has closed it. kCloseXrcDomain: EBUSY while it has queues of this process.
struct OpenXrcDomainRequest {
  std::uint64_t device;  ///< st_dev of the file
  std::uint64_t inode;   ///< st_ino of the file
  std::uint32_t flags;   ///< kXrc*
  std::uint32_t reserved;
};

/// Opens a target that any process made in the domain. It ends when all processes that made or
/// opened it have closed it. The handle of the reply is for kCloseQp; other operations use the
/// number.
struct OpenQpRequest {
  std::uint64_t user_handle;
  std::uint32_t xrc_domain;
  std::uint32_t qpn;
};

// --- multicast -------------------------------------------------------------------------------

inline constexpr std::uint32_t kMaxMulticastGroups = 16;   ///< of a queue pair
inline constexpr std::uint32_t kMaxMulticastMembers = 16;  ///< of one group, of a tenant

/// A UD queue pair of this process joins or leaves a multicast group. EINVAL: no such queue pair,
/// not a UD queue pair, not a group or, when leaving, not a member; ENOMEM: beyond the limits
/// above. Joining again has no effect. kDestroyQp: EBUSY while the queue pair is a member.
struct MulticastRequest {
  std::uint32_t qpn;
  std::uint32_t reserved;
  std::uint8_t group[16];  ///< GID, network byte order
};

// --- address handles -------------------------------------------------------------------------

struct CreateAhRequest {
  std::uint32_t pd;
  std::uint32_t reserved;
  AddressVector av;
};

// --- connections (rdma_cm) ----------------------------------------------------------------------

// If the first request on a connection to the tenant socket is kOpenEventChannel, with the body of
// a HELLO (HelloRequest or HelloWithLevel), the connection is an event channel of the connection
// manager, not a session. The reply is an EventChannelReply and 1 descriptor: one end of a stream
// socket, readable while events are queued. Closing the connection closes the channel and all
// connections and listeners of its identifiers.
struct EventChannelReply {
  std::uint32_t channel;  ///< its number
  std::uint32_t version;  ///< as for answered_version()
};

inline constexpr std::uint32_t kMaxConnectionCommand = 320;  ///< bytes of body
inline constexpr std::uint32_t kMaxConnectionReply = 336;    ///< bytes

/// A command of the kernel's connection manager (rdma/rdma_user_cm.h), followed by its body. The
/// daemon ignores the response address in it. GET_EVENT does not wait; EAGAIN: no event is queued.
/// SET_OPTION: the value, `optlen` bytes, follows the body; the daemon ignores the address
/// `optval`.
struct ConnectionCommandRequest {
  std::uint32_t command;  ///< RDMA_USER_CM_CMD_*
  std::uint32_t channel;  ///< MIGRATE_ID: the current channel of the identifier; else 0
};
/// Followed by `bytes` of the response.
struct ConnectionCommandReply {
  std::uint32_t bytes;
  /// 1: the event queue has become empty. The daemon wrote one byte to the stream socket when the
  /// queue got its first event; the process takes one byte out.
  std::uint32_t drained;
};

// --- tenants that are virtual machines ----------------------------------------------------------

// All memory that programs of a virtual machine share with the daemon is in one memfd, the region
// of the machine, which the machine's monitor maps as a device of the guest. Offsets in requests
// and replies count from the byte `begin` of the region.
//
// If the first request on a connection to the tenant socket is kTakeMachine, without a body, the
// connection is that of the monitor. The reply is a TakeMachineReply and 1 descriptor, the region.
// The machine ends with this connection. EOPNOTSUPP: the tenant is not a virtual machine; EBUSY: it
// has a monitor already.
struct TakeMachineReply {
  std::uint64_t bytes;  ///< of the region
};

/// The monitor has mapped the region; from now on the daemon serves programs of the machine. Until
/// then they get EAGAIN. EINVAL: too few bytes after `begin`; EALREADY: it has started.
struct StartMachineRequest {
  std::uint64_t begin;  ///< a multiple of kPageBytes
  /// 1: the daemon seals the region against new mappings and holes. 0: it serves only processes
  /// that have its own rights.
  std::uint32_t seal;
  std::uint32_t reserved;
};

struct MemoryPlace {
  std::uint64_t offset;
  std::uint64_t bytes;  ///< 0: there is none
};
/// Comes with 1 descriptor.
struct StartMachineReply {
  /// For memory that programs register. The agent of the machine gives pieces of it to programs: it
  /// answers kAllocShared and kFreeShared itself.
  MemoryPlace shared;
  /// By which the agent accesses memory of programs that is not in the region. The agent runs a
  /// memory proxy there (daemon/tenant_memory/proxy_area.hpp). The descriptor is a socket
  /// (SOCK_SEQPACKET) with records of a MachineBell.
  MemoryPlace proxy;
};
struct MachineBell {
  std::uint32_t ended;  ///< a memory (OfferMemoryReply) that ends; 0: the proxy has work
  std::uint32_t reserved;
};

/// Follows the body of each reply with memory as its first descriptor, if the tenant is a virtual
/// machine. Then the descriptor names the region, and the process maps these places of it. In reply
/// to kAllocShared, `memory` is the piece, and the handle is its offset divided by kPageBytes. For
/// the daemon, byte `offset` of an extent of this handle is byte `handle` * kPageBytes + `offset`.
struct MemoryPlaces {
  MemoryPlace memory;
  MemoryPlace vcbs;  ///< in reply to kHello: the VCB pages; `memory` is the session memory without
};

/// HandleBody::reserved of kFreeShared in a virtual machine: the process does not map the memory
/// any more. Without it, the agent keeps the memory until the process has ended.
inline constexpr std::uint32_t kIsUnmapped = 1;

// --- datagrams to queue pairs that several programs share ----------------------------------------

inline constexpr std::uint32_t kManagementQpn = 1;
/// The other shared queue pair. Its datagrams begin with the number of their client (32 bits, big
/// endian).
inline constexpr std::uint32_t kProgramQpn = 2;
inline constexpr std::uint32_t kProgramQkey = 0x0d6a0002;
inline constexpr std::uint32_t kDatagramBytes = 256;  ///< most payload

/// If the first request on a connection to the tenant socket is kOpenDatagramClient, the connection
/// is not a session, but a client of such a queue pair on all addresses of the tenant. The reply is
/// a DatagramQuotaBody and 1 descriptor: one end of a stream socket, readable while a datagram or
/// an event is queued. The client ends with its connection.
///
/// EINVAL: no such queue pair, class or flags; EACCES: the class belongs to the daemon; EADDRINUSE:
/// the class or number has a client already; EDQUOT: the tenant has too many clients; ENOSPC: all
/// tenants together have too many; ENOBUFS: the tenant asks for too many buffers; ENOMEM: there are
/// not so many; EMFILE: the tenant has too many descriptors; EBUSY: the tenant asks too often;
/// ENODEV: the tenant is leaving.
struct OpenDatagramClientRequest {
  std::uint64_t magic;     ///< kSessionMagic
  std::uint32_t oldest;    ///< version, as in HelloRequest
  std::uint32_t qpn;       ///< kManagementQpn or kProgramQpn
  std::uint32_t selector;  ///< management class, or number of the client
  std::uint32_t flags;     ///< kDatagramResponses
  std::uint32_t buffers;   ///< 0: the operator's default
  std::uint32_t newest;    ///< version, as in HelloRequest
};
/// The client of a management class receives responses of the class, instead of requests and
/// unsolicited messages.
inline constexpr std::uint32_t kDatagramResponses = 1 << 0;

/// kSetDatagramBuffers has a HandleBody with the number of buffers as the handle (0: the operator's
/// default). Errors: ENOBUFS, ENOMEM and EBUSY as above. The reply is a DatagramQuotaBody.
struct DatagramQuotaBody {
  std::uint32_t quota;  ///< buffers posted for the client
  /// Reply to kOpenDatagramClient: as for answered_version(). Else 0.
  std::uint32_t version;
};

/// Source or destination of a datagram.
struct DatagramHead {
  std::uint8_t local[16];  ///< GID; to send: of the tenant, or zeros: the daemon chooses
  std::uint8_t peer[16];   ///< GID
  std::uint32_t qpn;       ///< of the peer
  std::uint32_t qkey;      ///< to send
  std::uint32_t flow_label;
  std::uint8_t traffic_class;
  std::uint8_t hop_limit;  ///< to send; 0: 64
  std::uint16_t pkey;      ///< of a received datagram; always 0xffff
  std::uint32_t bytes;     ///< of payload, which follows
};
static_assert(sizeof(DatagramHead) == 52);

// kSendDatagram: a DatagramHead and the payload. The reply has no body. The datagram may be lost,
// as on any network. EINVAL: a wrong length, queue pair or address; EACCES: not of the client's
// class; EADDRNOTAVAIL: not an address of the tenant; ENETUNREACH: no address to send from; EBUSY:
// too many a second; EAGAIN: too many datagrams of all clients wait.

// kReceiveDatagram has no body and does not wait.

enum class DatagramEvent : std::uint32_t {
  kNothing = 0,   ///< nothing is queued
  kReceived = 1,  ///< a DatagramHead and its payload follow
  kQuota = 2,     ///< the daemon has changed the quota; a DatagramQuotaBody follows
};
struct ReceiveDatagramReply {
  std::uint32_t event;  ///< DatagramEvent
  /// 1: the queue has become empty. The daemon wrote one byte to the stream socket when the queue
  /// got its first entry; the process takes one byte out.
  std::uint32_t drained;
};

}  // namespace softhca::abi
