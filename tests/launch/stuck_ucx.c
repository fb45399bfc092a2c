/* The calls of libucp that the library looks for. None of them does anything, and ucp_worker_create does not return. */
#include <unistd.h>

#define NOTHING(name) \
  int name(void);     \
  int name(void) { return 0; }

void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release);
void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  *major = 1;
  *minor = 13;
  *release = 1;
}
int ucp_worker_create(void* context, const void* params, void** worker);
int ucp_worker_create(void* context, const void* params, void** worker) {
  (void)context;
  (void)params;
  (void)worker;
  for (;;) (void)pause();
}

NOTHING(ucp_init_version)
NOTHING(ucp_cleanup)
NOTHING(ucp_config_read)
NOTHING(ucp_config_modify)
NOTHING(ucp_config_release)
NOTHING(ucp_worker_destroy)
NOTHING(ucp_worker_get_address)
NOTHING(ucp_worker_release_address)
NOTHING(ucp_worker_get_efd)
NOTHING(ucp_worker_arm)
NOTHING(ucp_worker_progress)
NOTHING(ucp_ep_create)
NOTHING(ucp_ep_close_nbx)
NOTHING(ucp_tag_send_nbx)
NOTHING(ucp_tag_send_sync_nbx)
NOTHING(ucp_tag_recv_nbx)
NOTHING(ucp_tag_recv_request_test)
NOTHING(ucp_request_check_status)
NOTHING(ucp_request_cancel)
NOTHING(ucp_request_free)
NOTHING(ucs_status_string)
