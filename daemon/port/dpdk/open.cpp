// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/dpdk/open.hpp"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/port/dpdk/device_args.hpp"
#include "daemon/port/dpdk/dpdk_port.hpp"
#include "daemon/port/dpdk/eal.hpp"
#include "daemon/port/kernel_guard.hpp"

namespace softhca::port {
namespace {

constexpr std::uint16_t kDescriptors = 1024;
constexpr unsigned kPoolCache = 256;
/// Bytes that the kernel puts before a frame in a slot of a packet ring, rounded up.
constexpr std::uint32_t kPacketRingHeader = 96;

Error failure(const DeviceArgs& args, const std::string& what, int code) {
  code = code < 0 ? -code : code;
  return {"port device \"" + args.text() + "\": " + what +
              (code != 0 ? std::string(": ") + std::strerror(code) : ""),
          code};
}

std::string hint(const DeviceArgs& args) {
  if (args.is("net_af_packet"))
    return "does not start (check that the interface is up, and that the daemon has CAP_NET_RAW "
           "and CAP_NET_ADMIN)";
  if (args.is("net_memif")) return "does not start (check that the socket's directory exists)";
  if (args.is_pci()) return "not found (check that the card is bound to vfio-pci)";
  return "does not start";
}

bool is_memif_server(const DeviceArgs& args) {
  const auto role = args.option("role");
  return args.is("net_memif") && (role == "server" || role == "master");
}

/// Removes the socket of a memif or vhost-user server that died, as the next server could not bind
/// it. Keeps the socket if a server accepts connections there.
void remove_stale_socket(const DeviceArgs& args) {
  const bool is_vhost = args.is("net_vhost") && args.option("client").value_or("0") == "0";
  const bool is_memif = is_memif_server(args) && args.option("socket-abstract") == "no";
  const auto path = args.option(is_vhost ? "iface" : "socket");
  sockaddr_un address{};
  if ((!is_vhost && !is_memif) || !path || path->size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path->data(), path->size());
  const int fd = socket(AF_UNIX, (is_vhost ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const bool refused = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0 &&
                       errno == ECONNREFUSED;
  close(fd);
  if (refused) unlink(path->c_str());
}

/// What must be released if opening the device fails. commit() passes it to the DpdkPort.
struct Opening {
  std::uint16_t id = RTE_MAX_ETHPORTS;
  rte_device* device = nullptr;
  rte_mempool* pool = nullptr;
  rte_mempool* references = nullptr;

  Opening() = default;
  Opening(const Opening&) = delete;
  ~Opening() {
    if (id != RTE_MAX_ETHPORTS) rte_eth_dev_close(id);
    if (device != nullptr) rte_dev_remove(device);
    rte_mempool_free(pool);
    rte_mempool_free(references);
  }
  void commit() {
    id = RTE_MAX_ETHPORTS;
    device = nullptr;
    pool = references = nullptr;
  }
};

/// Probes the device. Only looking up its port proves that it started: probing reports no error for
/// a virtual device that fails.
Outcome probe(const DeviceArgs& args, Opening& opening) {
  std::uint16_t id = 0;
  if (rte_eth_dev_get_port_by_name(args.name.c_str(), &id) != 0) {
    const int result = rte_dev_probe(args.text().c_str());
    if (result != 0) return failure(args, hint(args), result);
    if (rte_eth_dev_get_port_by_name(args.name.c_str(), &id) != 0)
      return failure(args, hint(args), 0);
  } else if (!args.is_pci()) {
    return failure(args, "another port uses this device", EEXIST);
  }
  opening.id = id;
  return {};
}

Outcome configure(const DeviceArgs& args, Opening& opening, const rte_eth_dev_info& info) {
  rte_eth_conf conf{};
  std::uint16_t rx = kDescriptors, tx = kDescriptors;
  int result = rte_eth_dev_configure(opening.id, 1, 1, &conf);
  if (result == 0) result = rte_eth_dev_adjust_nb_rx_tx_desc(opening.id, &rx, &tx);
  if (result != 0) return failure(args, "cannot be configured", result);
  const int socket = rte_eth_dev_socket_id(opening.id);
  rte_eth_txconf txconf = info.default_txconf;
  if (rte_eth_rx_queue_setup(opening.id, 0, rx, static_cast<unsigned>(socket), nullptr,
                             opening.pool) != 0 ||
      rte_eth_tx_queue_setup(opening.id, 0, tx, static_cast<unsigned>(socket), &txconf) != 0)
    return failure(args, "its queues cannot be set up", rte_errno);
  return {};
}

/// Returns the bytes of an IP packet that the link carries. For an interface it is the kernel's MTU
/// (net_af_packet would cap it at 1500 and lower the interface's own MTU). For software links it is
/// the size of their buffers. Other devices are asked for a path MTU of 4096.
std::uint32_t find_mtu(const DeviceArgs& args, std::uint16_t id, const DpdkPortOptions& options,
                       std::uint32_t kernel_mtu) {
  const std::uint32_t room = args.frame_room() - kEthernetOverhead;
  if (options.mtu != 0) return std::min(options.mtu, room);
  if (args.is("net_af_packet")) return std::min(kernel_mtu, room - kPacketRingHeader);
  if (args.is("net_memif") || args.is("net_null") || args.is("net_ring")) return room;
  std::uint16_t mtu = RTE_ETHER_MTU;
  if (!args.is("net_tap")) (void)rte_eth_dev_set_mtu(id, static_cast<std::uint16_t>(room));
  (void)rte_eth_dev_get_mtu(id, &mtu);
  return std::min<std::uint32_t>(mtu, room);
}

/// Makes a pool of buffers with `room` bytes each.
Expected<rte_mempool*> make_pool(const DeviceArgs& args, std::uint32_t buffers,
                                 std::uint32_t room) {
  static unsigned serial = 0;
  const std::string name = "softhca_port_" + std::to_string(serial++);
  if (room > UINT16_MAX) return failure(args, "its frames are too long", EINVAL);
  rte_mempool* pool = rte_pktmbuf_pool_create(name.c_str(), buffers, kPoolCache, 0,
                                              static_cast<std::uint16_t>(room), SOCKET_ID_ANY);
  if (pool == nullptr)
    return failure(args,
                   "no memory for " + std::to_string(buffers) +
                       " packet buffers (ask for fewer, or give DPDK more memory)",
                   rte_errno);
  return pool;
}

/// True if the driver copies a frame, in however many pieces, before rte_eth_tx_burst() returns.
bool copies_frames(const DeviceArgs& args) {
  return args.is("net_af_packet") || (args.is("net_memif") && !args.option("zero-copy"));
}

/// Bytes that drivers put before a received frame (virtio: 12).
constexpr std::uint32_t kDriverHeader = 64;

Outcome make_pools(const DeviceArgs& args, std::uint32_t buffers, Opening& opening) {
  // net_af_packet copies a whole slot into a buffer without checking the size of the buffer.
  const std::uint32_t room =
      std::max(args.frame_room(), kDefaultFrameRoom) + kDriverHeader + RTE_PKTMBUF_HEADROOM;
  auto pool = make_pool(args, buffers, room);
  if (!pool) return pool.error();
  opening.pool = *pool;
  if (!copies_frames(args)) return {};
  auto references = make_pool(args, buffers, 0);
  if (!references) return references.error();
  opening.references = *references;
  return {};
}

void set_mac(DeviceArgs& args, const MacAddress& mac) {
  if (mac.is_zero()) return;
  rte_ether_addr address{};
  std::copy_n(mac.bytes.begin(), mac.bytes.size(), address.addr_bytes);
  std::array<char, RTE_ETHER_ADDR_FMT_SIZE> text{};
  rte_ether_format_addr(text.data(), text.size(), &address);
  if (args.is("net_memif") || args.is("net_tap") || args.is("net_virtio_user"))
    args.set_default("mac", text.data());
}

MacAddress read_mac(std::uint16_t id) {
  rte_ether_addr address{};
  (void)rte_eth_macaddr_get(id, &address);
  MacAddress mac;
  std::copy_n(address.addr_bytes, mac.bytes.size(), mac.bytes.begin());
  return mac;
}

/// Opens the wake socket, before the device opens its own packet socket. The kernel serves the
/// later socket first, so a frame is in the ring when the wake socket becomes readable.
Outcome look_at_interface(const DeviceArgs& args, DpdkDevice& device, std::uint32_t& kernel_mtu) {
  if (!args.is("net_af_packet")) return {};
  device.interface = *args.option("iface");
  auto state = read_interface(device.interface);
  if (!state) return failure(args, state.error().message, 0);
  kernel_mtu = state->mtu;
  auto wake = WakeSocket::open(state->index);
  if (!wake) return failure(args, wake.error().message, 0);
  device.wake = std::move(*wake);
  return {};
}

}  // namespace

Expected<std::unique_ptr<Port>> open_dpdk_port(const DpdkPortOptions& options) {
  if (!eal_started()) return Error{"DPDK is not started", EINVAL};
  auto args = parse_device(options.device);
  if (!args) return args.error();
  set_mac(*args, options.mac);

  DpdkDevice device;
  std::uint32_t kernel_mtu = 0;
  if (auto seen = look_at_interface(*args, device, kernel_mtu); !seen) return seen.error();
  remove_stale_socket(*args);
  Opening opening;
  if (auto found = probe(*args, opening); !found) return found.error();
  rte_eth_dev_info info{};
  if (rte_eth_dev_info_get(opening.id, &info) != 0)
    return failure(*args, "does not describe itself", EIO);
  opening.device = info.device;
  if (auto made = make_pools(*args, options.buffers, opening); !made) return made.error();
  if (auto done = configure(*args, opening, info); !done) return done.error();

  device.id = opening.id;
  device.name = args->name;
  device.pool = opening.pool;
  device.references = opening.references;
  device.mtu = find_mtu(*args, opening.id, options, kernel_mtu);
  device.longest_frame = device.mtu + kEthernetOverhead;
  device.peer_may_vanish = args->is("net_memif");
  device.dials = device.peer_may_vanish && !is_memif_server(*args);
  // A client may start before its server.
  if (int result = rte_eth_dev_start(opening.id); result != 0 && !device.dials)
    return failure(*args, "cannot be started", result);
  // Neighbour solicitations arrive by multicast. Some devices lack this switch and do not need it.
  (void)rte_eth_allmulticast_enable(opening.id);
  device.mac = read_mac(opening.id);
  opening.commit();
  return std::unique_ptr<Port>(std::make_unique<DpdkPort>(std::move(device)));
}

}  // namespace softhca::port
