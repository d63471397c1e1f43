// SPDX-License-Identifier: Apache-2.0

// The requests of daemon/engine/requests that this target makes: all of them.
// tools/check_requests.py compares the list with the headers.
#pragma once

#include <cstdio>
#include <tuple>
#include <type_traits>
#include <typeinfo>

#include "daemon/engine/requests/address_handle_requests.hpp"
#include "daemon/engine/requests/completion_queue_requests.hpp"
#include "daemon/engine/requests/configuration_requests.hpp"
#include "daemon/engine/requests/diagnostic_requests.hpp"
#include "daemon/engine/requests/memory_requests.hpp"
#include "daemon/engine/requests/qp_terms.hpp"
#include "daemon/engine/requests/queue_pair_requests.hpp"
#include "daemon/engine/requests/receive_queue_requests.hpp"
#include "daemon/engine/requests/restore_requests.hpp"
#include "daemon/engine/requests/session_requests.hpp"
#include "daemon/engine/requests/several.hpp"
#include "daemon/engine/requests/shared_qp_requests.hpp"
#include "daemon/engine/requests/showing.hpp"
#include "daemon/engine/requests/tenant_requests.hpp"

namespace softhca::fuzz {

using AllRequests = std::tuple<
    engine::AddAh, engine::RestoreAh, engine::RemoveAh,                                    //
    engine::UnparkSession, engine::RestoreCq, engine::ResizeCq, engine::ModerateCq,        //
    engine::RemoveCq,                                                                      //
    engine::AddPort, engine::FailOver, engine::ServePort, engine::PutInForce,              //
    engine::RegisterMr, engine::ReregisterMr, engine::DeregisterMr, engine::AllocMw,       //
    engine::DeallocMw, engine::ReachMemory,                                                //
    engine::SetQpRates, engine::FindSrqOfQp, engine::SetReceiveTerms,                      //
    engine::InstallQp, engine::RestoreQp, engine::RemoveQp, engine::ShareQp,               //
    engine::ReleaseQp,                                                                     //
    engine::AwaitSends, engine::ModifyQp, engine::QueryQp, engine::AttachMulticast,        //
    engine::DetachMulticast,                                                               //
    engine::AddSrq, engine::ArmSrqLimit, engine::QuerySrqLimit, engine::CheckSrqResize,    //
    engine::ResizeSrq, engine::RetireSrqs, engine::DropRetiredSrqs, engine::RemoveSrq,     //
    engine::EndRestoring, engine::RetireEngine,                                            //
    engine::InstallSession, engine::PollSession, engine::RemoveSession,                    //
    engine::RaisePortEvent, engine::RevokeVcbs, engine::GrantVcbs,                         //
    engine::Several<engine::ReleaseQp>,                                                    //
    engine::OpenSharedQp, engine::CloseSharedQp, engine::ConfigureSharedQp,                //
    engine::RegisterClient, engine::SetClientBuffers, engine::VouchForSource,              //
    engine::RemoveClient, engine::WatchTraffic, engine::ViewPool,                          //
    engine::FindQp, engine::ShowQp, engine::CopyQps, engine::CopySrq, engine::CheckPaths,  //
    engine::RemoveTenant, engine::RemoveLevel, engine::ReleaseWhole,                       //
    engine::CollectClosedTvls, engine::RenameLevel, engine::LetYield,                      //
    engine::SetAddresses, engine::AdjustLending,                                           //
    engine::AddCapture, engine::RemoveCapture, engine::AddFault, engine::RemoveFault,      //
    engine::TakeFaultRoom, engine::CopyEvents>;

/// True if the request has been made in any run of this process.
template <class Request>
inline bool asked = false;

/// Prints the requests that no run has made. Returns how many these are.
inline int tell_unasked() {
  int count = 0;
  const auto look = [&]<class Request>(const Request*) {
    if (asked<Request>) return;
    std::fprintf(stderr, "no run has made the request %s\n", typeid(Request).name());
    ++count;
  };
  const auto look_at_all = [&]<class... Requests>(const std::tuple<Requests...>*) {
    (look(static_cast<const Requests*>(nullptr)), ...);
  };
  look_at_all(static_cast<const AllRequests*>(nullptr));
  return count;
}

}  // namespace softhca::fuzz
