// SPDX-License-Identifier: Apache-2.0

// The objects that a tenant process creates and that the engine works on. The control thread
// creates and owns them. Once installed, only the engine thread touches their mutable parts, until
// they are removed.
#pragma once

#include "daemon/engine/records/completion_queue.hpp"
#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/engine/records/route.hpp"
#include "daemon/engine/records/session.hpp"
#include "daemon/engine/records/shared_receive_queue.hpp"
#include "daemon/engine/records/tenant.hpp"
