// A unique id that rank 0 leaves for the others in a folder that all of them see. The file can be read by this user
// only; one of somebody else's, or that others can read, is none of this job's.
#pragma once

#include <string>

#include "core/wait.h"
#include "transports/bootstrap/unique_id.h"

namespace sparsecoll::bootstrap {

class IdFile {
 public:
  explicit IdFile(std::string path) : path_(std::move(path)) {}
  ~IdFile();  // removes what this object has written
  IdFile(const IdFile&) = delete;
  IdFile& operator=(const IdFile&) = delete;

  // Errors: SystemError.
  Status write(ConstIdBytes id);
  // Waits for it. Errors: Timeout, SystemError (it is not this user's alone).
  Status read(IdBytes id, const Deadline& deadline) const;
  // Whether another id is there now, as after a job that was killed with its file in place and has started again.
  bool replaced(ConstIdBytes id) const;

 private:
  std::string path_;
  bool written_ = false;
};

}  // namespace sparsecoll::bootstrap
