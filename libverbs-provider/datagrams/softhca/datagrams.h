/* SPDX-License-Identifier: Apache-2.0 */

/* Datagrams for programs of a tenant of softhcad: to and from queue pairs that several programs
 * share.
 *
 *   queue pair 1  management datagrams (MADs). A program is the client of the requests or of the
 *                 responses of a management class, on all addresses of its tenant.
 *   queue pair 2  datagrams between programs. They begin with the number (32 bits, big endian) of
 *                 their client, which receives them on all addresses of its tenant.
 *
 * Each client has its own receive buffers, as many as it requests: its quota. If all of them are in
 * use, the daemon drops further datagrams for this client; other clients are not affected. The
 * daemon raises the quota of a client that regularly needs more, lowers it again, and reports both.
 *
 * A function returns 0 or a negative errno value, unless its comment says otherwise. -EIO: the
 * daemon has ended; -EPROTO, at an opening: library and daemon speak no common version of the
 * protocol. One thread at a time may use a client; a client ends with its process. The
 * library makes no threads, uses no signals, and allocates memory only when it opens a client.
 */
#ifndef SOFTHCA_DATAGRAMS_H
#define SOFTHCA_DATAGRAMS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTHCA_QPN_MANAGEMENT 1
#define SOFTHCA_QKEY_MANAGEMENT 0x80010000u
#define SOFTHCA_QPN_PROGRAMS 2
#define SOFTHCA_QKEY_PROGRAMS 0x0d6a0002u

#define SOFTHCA_DATAGRAM_BYTES 256

struct softhca_client;

struct softhca_datagram {
  uint8_t local[16];     /* GID of the tenant; to send: zeros: the daemon chooses */
  uint8_t peer[16];      /* GID; an IPv4 address is ::ffff:a.b.c.d */
  uint32_t qpn;          /* of the peer */
  uint32_t qkey;         /* to send: that of the peer's queue pair */
  uint32_t flow_label;   /* 20 bits */
  uint8_t traffic_class;
  uint8_t hop_limit;     /* to send; 0: 64 */
  uint16_t pkey;         /* received: 0xffff, the default partition */
  uint32_t bytes;        /* of payload; a MAD has SOFTHCA_DATAGRAM_BYTES */
  uint8_t payload[SOFTHCA_DATAGRAM_BYTES];
};

/* The messages that a client of a management class receives: requests and unsolicited messages
 * (methods without bit 0x80), or responses (methods with it). A class has one client for each. */
enum softhca_messages { SOFTHCA_REQUESTS = 0, SOFTHCA_RESPONSES = 1 };

/* Opens a client of a management class with this number of buffers (0: the operator's default).
 *
 * socket: the tenant's socket, RUNTIME-DIR/TENANT/socket; NULL: the one that softhca-run has set,
 * $SOFTHCA_RUNTIME_DIR/$SOFTHCA_TENANT/socket.
 *
 * Errors: -EINVAL not a management class (1 to 255); -EACCES a class of the daemon (subnet and
 * communication management); -EADDRINUSE another program, or the daemon, is the client;
 * -EDQUOT the tenant has reached its limit of clients; -ENOSPC all tenants together have reached
 * theirs; -ENOBUFS beyond the tenant's limit of buffers; -ENOMEM not enough buffers are left;
 * -EMFILE the tenant has reached its limit of descriptors; -EBUSY its programs open clients too
 * often; -ENODEV the tenant is leaving, or no tenant is named; others as of connect(2). */
int softhca_client_open_class(const char* socket, unsigned management_class,
                              enum softhca_messages messages, uint32_t buffers,
                              struct softhca_client** client);

/* Opens the client with this number on queue pair 2. Errors: as above. */
int softhca_client_open_number(const char* socket, uint32_t number, uint32_t buffers,
                               struct softhca_client** client);

/* Closes a client and drops its waiting datagrams. NULL: no effect. */
void softhca_client_close(struct softhca_client* client);

/* Returns a descriptor for poll, epoll and the like. It is readable while a datagram or an event
 * waits, or once the daemon has ended. Do not read from it. */
int softhca_client_fd(const struct softhca_client* client);

/* Returns the client's number of receive buffers, as last reported by the daemon. */
uint32_t softhca_client_quota(const struct softhca_client* client);

/* Requests another number of buffers: more before a burst, fewer after it (0: the operator's
 * default). Datagrams beyond the new number are dropped, the oldest first. Errors: -ENOBUFS,
 * -ENOMEM and -EBUSY as above; then the quota does not change. */
int softhca_client_set_buffers(struct softhca_client* client, uint32_t buffers);

/* Sends a datagram from queue pair 1 or 2. It may be lost, as on any network, also if no neighbour
 * answers. The caller matches responses with requests by transaction id. Errors: -EINVAL wrong
 * length, queue pair or address; -EACCES a MAD of another class than the client's; -EPERM a
 * controlled Q_Key (highest bit set) that the client may not use; -EADDRNOTAVAIL `local` is not an
 * address of the tenant; -ENETUNREACH none of its addresses reaches the peer; -EBUSY the programs
 * of the tenant exceed their rate; -EAGAIN too many datagrams wait to be sent. */
int softhca_client_send(struct softhca_client* client, const struct softhca_datagram* datagram);

#define SOFTHCA_NOTHING 0  /* the queue is empty */
#define SOFTHCA_RECEIVED 1 /* *datagram has a received datagram */
#define SOFTHCA_QUOTA 2    /* the daemon has changed the quota; see softhca_client_quota() */

/* Takes the oldest datagram or event from the queue. Does not wait. Returns one of the above, or a
 * negative errno value. */
int softhca_client_receive(struct softhca_client* client, struct softhca_datagram* datagram);

/* Returns the text of an error of the functions above. Takes negative and positive values. */
const char* softhca_client_error(int error);

#ifdef __cplusplus
}
#endif

#endif
