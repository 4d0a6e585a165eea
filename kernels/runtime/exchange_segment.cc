#include "runtime/exchange_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace habana {
namespace {

constexpr uint64_t kMagic = 0x48505545'58434803;  // with the version of the layout in the last byte
// The size is fixed: a process that reads past the end of a file cut short gets a bus error.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Status SystemError(const std::string& what) {
  return Status(Code::kFailedPrecondition, "cannot " + what + ": " + std::strerror(errno));
}

}  // namespace

size_t SegmentBytes(int size) {
  return ((sizeof(Header) + 4095) & ~size_t{4095}) + static_cast<size_t>(size) * 2 * kPieceBytes;
}

uint64_t StartOf(int64_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) return 0;
  char text[1024];
  const size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[length] = 0;
  const char* at = std::strrchr(text, ')');  // the name before it may hold anything
  if (at == nullptr || at[1] == 0 || at[2] == 'Z' || at[2] == 'X') return 0;
  at += 2;
  for (int field = 3; field < 22 && at != nullptr; ++field) {
    at = std::strchr(at, ' ');
    if (at != nullptr) ++at;
  }
  return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

Status MakeSegment(int size, int* descriptor) {
  const int made = memfd_create("habana_tf-exchange", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made < 0) return SystemError("make shared memory for the workers");
  // Taken now: later, missing memory would be a bus error.
  errno = posix_fallocate(made, 0, static_cast<off_t>(SegmentBytes(size)));
  if (errno == 0 && fcntl(made, F_ADD_SEALS, kSeals) == 0) {
    *descriptor = made;
    return {};
  }
  const Status status = SystemError("take shared memory for the workers");
  close(made);
  return status;
}

Status OpenSegment(const std::string& path, int size, int* descriptor) {
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) return SystemError("open the shared memory " + path + " of the first worker");
  struct stat known;
  if (fstat(opened, &known) == 0 && known.st_uid == geteuid() &&
      static_cast<size_t>(known.st_size) == SegmentBytes(size) && fcntl(opened, F_GET_SEALS) == kSeals) {
    *descriptor = opened;
    return {};
  }
  close(opened);
  return Status(Code::kFailedPrecondition, path + " is not the shared memory of this job's first worker");
}

Status MapSegment(int descriptor, int rank, int size, const Task& task, char** memory) {
  const size_t bytes = SegmentBytes(size);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) return SystemError("map the workers' shared memory");
  auto* header = static_cast<Header*>(mapped);
  if (rank == 0) {
    header = new (mapped) Header;
    header->size = size;
    header->magic.store(kMagic, std::memory_order_release);
  }
  if (header->magic.load(std::memory_order_acquire) != kMagic || header->size != size) {
    munmap(mapped, bytes);
    return Status(Code::kFailedPrecondition,
                  "the first worker runs another version of habana_tf: use the same one");
  }
  Peer& me = header->peers[rank];
  me.task = task.index;
  std::snprintf(me.job, sizeof me.job, "%s", task.job.c_str());
  me.started.store(StartOf(getpid()));
  me.pid.store(getpid());
  *memory = static_cast<char*>(mapped);
  return {};
}

void UnmapSegment(char* memory, int size) { munmap(memory, SegmentBytes(size)); }

}  // namespace habana
