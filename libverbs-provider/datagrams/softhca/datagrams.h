/* Datagrams for programs of a tenant of softhcad: to and from queue pairs that several programs
 * share.
 *
 *   queue pair 1  management datagrams (MADs). A program is the client of a management class, of
 *                 requests or of responses, on all addresses of its tenant.
 *   queue pair 2  datagrams between programs. They begin with the number (32 bits, big endian) of
 *                 the client they are for, on any address of its tenant.
 *
 * What comes for a client waits in receive buffers that are its own, as many as it asks for: its
 * quota. When they are all in use, what comes is lost; other clients are not affected. The daemon
 * raises the quota of a client that regularly needs more, lowers it again, and says so.
 *
 * Unless it says otherwise a function returns 0, or a negative errno value: -EIO, the daemon is
 * gone. A client is for one thread at a time; it ends with its process. Nothing is done behind the
 * caller's back: no thread, no signal, no allocation except at opening.
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
  uint8_t local[16];     /* GID of ours; to send: zeros have the daemon choose one */
  uint8_t peer[16];      /* GID; an IPv4 address is ::ffff:a.b.c.d */
  uint32_t qpn;          /* of the peer */
  uint32_t qkey;         /* to send: that of the peer's queue pair */
  uint32_t flow_label;   /* 20 bits */
  uint8_t traffic_class;
  uint8_t hop_limit;     /* to send; 0: 64 */
  uint16_t pkey;         /* of what came: 0xffff, the default partition */
  uint32_t bytes;        /* of payload; a MAD has SOFTHCA_DATAGRAM_BYTES */
  uint8_t payload[SOFTHCA_DATAGRAM_BYTES];
};

/* What a client of a management class receives: requests and unsolicited messages (methods without
 * bit 0x80), or responses (methods with it). A class has one client for each. */
enum softhca_messages { SOFTHCA_REQUESTS = 0, SOFTHCA_RESPONSES = 1 };

/* Opens a client of a management class, with so many buffers (0: the operator's number).
 *
 * socket: that of the tenant, RUNTIME-DIR/TENANT/socket; NULL: what softhca-run has set,
 * $SOFTHCA_RUNTIME_DIR/$SOFTHCA_TENANT/socket.
 *
 * Errors: -EINVAL not a management class (1 to 255); -EACCES a class of the daemon's own (subnet
 * and communication management); -EADDRINUSE another program, or the daemon, is the client;
 * -EDQUOT the programs of the tenant have as many clients as they may; -ENOSPC all tenants together
 * have; -ENOBUFS the programs of the tenant would have more buffers than they may; -ENOMEM there
 * are not enough; -EMFILE the tenant has as many descriptors as it may; -EBUSY its programs ask too
 * often; -ENODEV the tenant is leaving, or none is named; others as of connect(2). */
int softhca_client_open_class(const char* socket, unsigned management_class,
                              enum softhca_messages messages, uint32_t buffers,
                              struct softhca_client** client);

/* Opens the client that a number of queue pair 2 stands for. Errors: as above. */
int softhca_client_open_number(const char* socket, uint32_t number, uint32_t buffers,
                               struct softhca_client** client);

/* Closes a client: what waits for it is lost. NULL: nothing happens. */
void softhca_client_close(struct softhca_client* client);

/* Readable while something waits to be taken, or the daemon is gone; for poll, epoll and the like.
 * Not to be read. */
int softhca_client_fd(const struct softhca_client* client);

/* The number of receive buffers that the client has, as last reported to it. */
uint32_t softhca_client_quota(const struct softhca_client* client);

/* Asks for another number of buffers: more before a burst, fewer after (0: the operator's number).
 * What waits beyond it is lost, the oldest first. Errors: -ENOBUFS, -ENOMEM and -EBUSY as at
 * opening; the quota is as before then. */
int softhca_client_set_buffers(struct softhca_client* client, uint32_t buffers);

/* Sends a datagram from queue pair 1 or 2. It may be lost, as on a wire, also when no
 * neighbour answers; the caller matches responses with requests, by transaction id. Errors: -EINVAL
 * wrong length, queue pair or address; -EACCES a MAD of another class than the client's;
 * -EPERM a controlled Q_Key (highest bit set) that is not the client's to use; -EADDRNOTAVAIL
 * `local` is not the tenant's; -ENETUNREACH none of its addresses reaches the peer; -EBUSY the
 * programs of the tenant send more often than they may; -EAGAIN too much waits to be sent. */
int softhca_client_send(struct softhca_client* client, const struct softhca_datagram* datagram);

#define SOFTHCA_NOTHING 0  /* nothing waits */
#define SOFTHCA_RECEIVED 1 /* a datagram came, now in *datagram */
#define SOFTHCA_QUOTA 2    /* the daemon has changed the quota; see softhca_client_quota() */

/* Takes the oldest of what waits, without waiting itself. Returns one of the above, or a negative
 * errno value. */
int softhca_client_receive(struct softhca_client* client, struct softhca_datagram* datagram);

/* An error of a function above, in words. Takes negative values and positive ones. */
const char* softhca_client_error(int error);

#ifdef __cplusplus
}
#endif

#endif
