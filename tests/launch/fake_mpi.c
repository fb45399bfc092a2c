/* As much of an MPI as the library looks for. FAKE_MPI unset: the program has initialised it; "loaded": it has not;
   "fails": nobody can tell. */
#include <stdlib.h>
#include <string.h>

int MPI_Initialized(int* flag);
int MPI_Initialized(int* flag) {
  const char* const state = getenv("FAKE_MPI");
  *flag = state == NULL || strcmp(state, "loaded") != 0;
  return state != NULL && strcmp(state, "fails") == 0;
}
