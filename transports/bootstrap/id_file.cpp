#include "transports/bootstrap/id_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/poll.h"

namespace sparsecoll::bootstrap {

namespace {

constexpr uint64_t kLookMs = 5;

Status systemError(const char* call, const std::string& path) {
  return fail(sparsecollSystemError, "{} {}: {}", call, path, std::strerror(errno));
}

}  // namespace

IdFile::~IdFile() {
  if (written_) (void)::unlink(path_.c_str());
}

// Under another name until it is whole.
Status IdFile::write(ConstIdBytes id) {
  const std::string fresh = path_ + ".new";
  (void)::unlink(fresh.c_str());
  Fd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.open()) return systemError("open", fresh);
  written_ = ::write(file.get(), id.data(), id.size()) == static_cast<ssize_t>(id.size()) &&
             ::rename(fresh.c_str(), path_.c_str()) == 0;
  if (written_) return {};
  Status failed = systemError("write", fresh);
  (void)::unlink(fresh.c_str());
  return failed;
}

Status IdFile::read(IdBytes id, const Deadline& deadline) const {
  for (;;) {
    const Fd file(::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (file.open()) {
      struct stat about {};
      const bool ours = fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() &&
                        (about.st_mode & 077) == 0;
      if (!ours) return fail(sparsecollSystemError, "{} is not a file of this user's alone", path_);
      if (::read(file.get(), id.data(), id.size()) == static_cast<ssize_t>(id.size())) return {};
    }
    if (deadline.expired()) return failBy(0, sparsecollTimeout, "rank 0 has not written {}", path_);
    (void)awaitAny({}, Deadline::earlier(deadline, Deadline::in(kLookMs)));
  }
}

}  // namespace sparsecoll::bootstrap
