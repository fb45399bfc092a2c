/* launch.h in strict C99, without a feature test macro. Only compiled. */
#include <sparsecoll/launch.h>

int main(void) {
  sparsecollLaunch_t launch;
  sparsecollComm_t comm = NULL;
  sparsecollLaunchRead(&launch);
  return sparsecollCommInitEnv(&comm, SPARSECOLL_HOST, NULL) == sparsecollSuccess ? 0 : 1;
}
