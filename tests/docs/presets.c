/* Prints the names of the presets, one a line. */
#include <sparsecoll/sparsecoll.h>
#include <stdint.h>
#include <stdio.h>

int main(void) {
  const char* name;
  uint32_t i;
  for (i = 0; (name = sparsecollPresetName(i)) != NULL; ++i) puts(name);
  return 0;
}
