#include "host/isa.h"

#include <string_view>

#include "core/environment.h"

namespace sparsecoll::host {

const Isa& bestIsa() {
  static const Isa* const best = [] {
#if defined(__x86_64__)
    const Isa* const known[] = {&kAvx512, &kAvx2, &kScalar};
#else
    const Isa* const known[] = {&kScalar};
#endif
    const char* wanted = environmentText(variable::kIsa);
    for (const Isa* isa : known)
      if (isa->supported() && (wanted == nullptr || std::string_view(wanted) == isa->name)) return isa;
    for (const Isa* isa : known)
      if (isa->supported()) return isa;
    return &kScalar;
  }();
  return *best;
}

}  // namespace sparsecoll::host
