#include "transports/bootstrap/mpi_here.h"

#include <dlfcn.h>
#include <link.h>

#include <string>
#include <string_view>
#include <vector>

namespace sparsecoll::bootstrap {

namespace {

using Initialized = int (*)(int*);  // of all of MPI's calls the one that may be called at any time

// Programs such as Python load libraries without making their names global.
int collect(dl_phdr_info* info, size_t, void* found) {
  const std::string_view path = info->dlpi_name;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (file.starts_with("libmpi")) static_cast<std::vector<std::string>*>(found)->emplace_back(path);
  return 0;
}

MpiHere ask(void* symbol) {
  if (symbol == nullptr) return MpiHere::kAbsent;
  int initialised = 0;
  const bool told = reinterpret_cast<Initialized>(symbol)(&initialised) == 0;
  return told && initialised != 0 ? MpiHere::kInitialised : MpiHere::kLoaded;
}

}  // namespace

MpiHere mpiHere() {
  constexpr const char* kName = "MPI_Initialized";
  if (const MpiHere global = ask(dlsym(RTLD_DEFAULT, kName)); global != MpiHere::kAbsent) return global;
  std::vector<std::string> files;
  dl_iterate_phdr(collect, &files);
  for (const std::string& file : files) {
    void* const handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    const MpiHere here = ask(dlsym(handle, kName));
    dlclose(handle);
    if (here != MpiHere::kAbsent) return here;
  }
  return MpiHere::kAbsent;
}

}  // namespace sparsecoll::bootstrap
