/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner of shared receive queues sees which queue pairs hold their buffers, and limits them
 * (mechanism D). The calls go to the control socket of the tenant, which the program needs
 * permission for: `control` of the tenant, by default the owner of its socket.
 *
 * Calls that fail return a negative errno value:
 *   -ENOENT      there is no such queue pair, or it uses no shared receive queue
 *   -EPERM       the operator does not allow it
 *   -EINVAL      a value is out of its range
 *   -EAGAIN      the daemon cannot do it now
 *   -EACCES, -ENOTCONN   no permission for the socket; the daemon is not there, or has gone
 *   -EPROTO      what answers is not softhcad
 * A call waits for its answer. The daemon answers 20 requests of a tenant in a second; further ones
 * wait. Any thread may call; those that share a softhca_receive wait for each other. */
#ifndef SOFTHCA_RECEIVE_H
#define SOFTHCA_RECEIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct softhca_receive;

/* Connects to a control socket; NULL: that of the program's tenant, which softhca-run names in
 * SOFTHCA_RUNTIME_DIR and SOFTHCA_TENANT. -ENODEV: they are not set. */
int softhca_receive_open(const char *socket, struct softhca_receive **receive);
void softhca_receive_close(struct softhca_receive *receive);

/* A shared receive queue of the tenant. */
struct softhca_receive_queue {
  uint32_t number;      /* of the daemon */
  uint32_t pid;         /* of the process that has it */
  uint32_t size;        /* its max_wr */
  uint32_t available;   /* buffers that are posted and not used */
  uint32_t queue_pairs; /* that use it */
  uint32_t quarantined; /* of those, in quarantine */
  uint64_t refused;     /* messages that limits refused so far */
};
/* Writes up to `most` queues, and returns how many there are. `pid`: only those of this process;
 * 0: of all processes of the tenant. */
int softhca_receive_queues(struct softhca_receive *receive, uint32_t pid,
                           struct softhca_receive_queue *queues, size_t most);

#define SOFTHCA_RECEIVE_PEER_BYTES 46

/* A queue pair that uses a shared receive queue. */
struct softhca_receive_user {
  uint32_t qpn;
  uint32_t held;        /* buffers that it has drawn and that are not posted again (D2) */
  uint32_t limit;       /* of these (D1); 0: none */
  uint32_t quarantined; /* 1: it gets one buffer at a time */
  uint64_t draws;       /* its recent draws, which age (D4); 0 from softhca_receive_find() */
  char peer[SOFTHCA_RECEIVE_PEER_BYTES]; /* address; empty: unknown */
};
/* Writes up to `most` of the users that have drawn most lately, the first of them at first, and
 * returns how many it wrote. The daemon ranks four. */
int softhca_receive_ranking(struct softhca_receive *receive, uint32_t queue,
                            struct softhca_receive_user *users, size_t most);
/* Writes what a queue pair holds. */
int softhca_receive_find(struct softhca_receive *receive, uint32_t qpn,
                         struct softhca_receive_user *user);

#define SOFTHCA_RECEIVE_KEEP (-1)    /* leaves it as it is */
#define SOFTHCA_RECEIVE_DEFAULT (-2) /* by rule, policy or path */
/* Sets how many buffers a queue pair may hold (0: no limit), and its importance (0 to 7; D6). They
 * last as long as the queue pair, also when the daemon is replaced. */
int softhca_receive_set(struct softhca_receive *receive, uint32_t qpn, int64_t limit,
                        int importance);
/* Sets a key of the tenant's policy, for all its queues, until the daemon ends: "srq.limit",
 * "srq.kind" ("soft" or "hard"), "srq.on_exceed", "srq.statistical", "srq.overcommit",
 * "srq.watermark". The values are those of the configuration. -EINVAL: an unknown key, too. */
int softhca_receive_policy(struct softhca_receive *receive, const char *key, const char *value);

/* An event of the tenant's queues: the name is "srq_soft_limit", "srq_hard_limit", "srq_watermark",
 * "srq_offender", "srq_quarantined", "srq_connection_dropped", ... */
struct softhca_receive_event {
  uint64_t number;  /* grows */
  double time;      /* seconds since 1970 */
  uint32_t qpn;     /* 0: of no single queue pair */
  uint32_t pid;     /* 0: of no single process */
  char name[32];
  char text[256];   /* for people */
};
/* Writes the next events, up to `most`, and returns how many. The first call begins with the oldest
 * that the daemon keeps. 0: there are none yet; ask again in a while. */
int softhca_receive_events(struct softhca_receive *receive, struct softhca_receive_event *events,
                           size_t most);

#ifdef __cplusplus
}
#endif
#endif
