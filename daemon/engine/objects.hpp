// The objects that a tenant process creates and that the engine works on. The control thread
// creates and owns them. Once installed, only the engine thread touches their mutable parts, until
// they are removed.
#pragma once

#include "daemon/engine/completion_queue.hpp"
#include "daemon/engine/queue_pair.hpp"
#include "daemon/engine/route.hpp"
#include "daemon/engine/session.hpp"
#include "daemon/engine/shared_receive_queue.hpp"
#include "daemon/engine/tenant.hpp"
