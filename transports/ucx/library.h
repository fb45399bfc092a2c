// libucp as it is found when it is first asked for.
#pragma once

#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>

#include "core/status.h"

namespace sparsecoll::ucx {

// The calls of libucp, and one of libucs, which comes with it: one row finds each.
#define SC_UCX_CALLS(X)         \
  X(ucp_get_version)            \
  X(ucp_init_version)           \
  X(ucp_cleanup)                \
  X(ucp_config_read)            \
  X(ucp_config_modify)          \
  X(ucp_config_release)         \
  X(ucp_worker_create)          \
  X(ucp_worker_destroy)         \
  X(ucp_worker_get_address)     \
  X(ucp_worker_release_address) \
  X(ucp_worker_get_efd)         \
  X(ucp_worker_arm)             \
  X(ucp_worker_progress)        \
  X(ucp_ep_create)              \
  X(ucp_ep_close_nbx)           \
  X(ucp_tag_send_nbx)           \
  X(ucp_tag_send_sync_nbx)      \
  X(ucp_tag_recv_nbx)           \
  X(ucp_tag_recv_request_test)  \
  X(ucp_request_check_status)   \
  X(ucp_request_cancel)         \
  X(ucp_request_free)           \
  X(ucs_status_string)

struct Library {
  int version = 0;  // 11300 is 1.13.0
  // Of libucs, if it has them: what UCX says of a connection that the other side has closed is no news while this side
  // closes it, too, and goes to the program's standard output.
  decltype(&::ucs_log_push_handler) pushLogHandler = nullptr;
  decltype(&::ucs_log_pop_handler) popLogHandler = nullptr;
#define SC_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  SC_UCX_CALLS(SC_UCX_MEMBER)
#undef SC_UCX_MEMBER
};

// What was found at the first call, with the file that SPARSECOLL_UCX_LIBRARY named then. Any thread.
// Errors: Unsupported (not there, not whole, older than 1.11).
Result<const Library*> library();

}  // namespace sparsecoll::ucx
