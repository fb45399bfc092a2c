#include "src/any_reducer.h"

#include <optional>
#include <utility>

#include "src/auto_reducer.h"
#include "src/reducer.h"

namespace sparsecoll {

Result<std::shared_ptr<AnyReducer>> makeReducer(const std::shared_ptr<Communicator>& comm, const char* call, uint64_t n,
                                                int32_t type, const sparsecollParams_t* params,
                                                const sparsecollReducerConfig_t* config) {
  SC_TRY(std::optional<AutoSpec> several, readAutoSpec(n, type, params, config, comm->onHost()));
  if (several) {
    SC_TRY(std::shared_ptr<AnyReducer> made, AutoReducer::make(comm, call, std::move(*several)));
    return made;
  }
  SC_TRY(ReducerSpec spec, readReducerSpec(n, type, params, config));
  SC_TRY(std::shared_ptr<AnyReducer> made, Reducer::make(comm, call, std::move(spec)));
  return made;
}

}  // namespace sparsecoll
