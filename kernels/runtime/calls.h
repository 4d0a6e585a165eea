// The calls of one launch, made one after the other, those of loops again and again.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/card.h"
#include "runtime/counters.h"
#include "runtime/program.h"
#include "runtime/timeline.h"

namespace habana {

// The calls of one launch, on the addresses of its buffers. Without a pool the thread that asks makes them. A
// launch that is recorded has code of its own, so that the others ask nothing per call.
template <bool kRecorded>
class Calls {
 public:
  Calls(const Program& program, std::vector<char*>* bases, const std::vector<size_t>& spared, PoolLease* pool)
      : program_(program), bases_(*bases), spared_(spared), pool_(pool) {
    if constexpr (kRecorded) last_ = MonotonicNow();
  }

  // Makes the calls [first, end) with the loops among them from number `loop` on; returns the loop behind.
  size_t Run(size_t first, size_t end, size_t loop) {
    const std::vector<Loop>& loops = program_.loops;
    for (size_t c = first;;) {
      if (loop < loops.size() && loops[loop].first == c && c + loops[loop].calls <= end) {
        const size_t behind = c + loops[loop].calls;
        loop = Repeat(loop);
        c = behind;
        continue;
      }
      if (c >= end) return loop;
      One(c++);
    }
  }

  int32_t made() const { return made_; }

 private:
  char*& At(int buffer) { return bases_[static_cast<size_t>(buffer)]; }

  size_t Behind(size_t loop) const {
    const std::vector<Loop>& loops = program_.loops;
    const size_t end = loops[loop].first + loops[loop].calls;
    size_t next = loop + 1;
    while (next < loops.size() && loops[next].first < end) ++next;
    return next;
  }

  size_t Repeat(size_t number) {
    const int64_t blocks = program_.loops[number].calls == 0 ? 0 : program_.loops[number].blocks;
    if (blocks <= 1 || pool_ == nullptr) {
      for (int64_t block = 0; block < blocks; ++block) Iterate(number, block);
    } else {
      BlocksOf job{this, number, {}};
      char* pointer = reinterpret_cast<char*>(&job);
      pool_->Run(RunBlocks, &pointer, nullptr, blocks, 1);
      if constexpr (kRecorded) {
        made_ += job.made.load();
        last_ = MonotonicNow();
      }
    }
    return Behind(number);
  }

  // The blocks of a loop as the work items of one call. Each thread has addresses of its own.
  struct BlocksOf {
    const Calls* calls;
    size_t loop;
    std::atomic<int32_t> made;
  };

  static void RunBlocks(char** buffers, const int64_t* /*dims*/, int64_t begin, int64_t end) {
    BlocksOf& job = *reinterpret_cast<BlocksOf*>(buffers[0]);
    thread_local std::vector<char*> bases;
    bases = job.calls->bases_;
    Calls own(job.calls->program_, &bases, job.calls->spared_, nullptr);
    for (int64_t block = begin; block < end; ++block) own.Iterate(job.loop, block);
    if constexpr (kRecorded) job.made.fetch_add(own.made_);
  }

  // All iterations of one block.
  void Iterate(size_t number, int64_t block) {
    const Loop& loop = program_.loops[number];
    for (const Window& w : loop.windows) {
      if (loop.trips > 0 || w.step == 0) Place(w, 0, block);
    }
    for (const Carried& value : loop.carried) Move(value.now, value.from);
    for (int64_t t = 0; t < loop.trips; ++t) {
      if (t > 0) {
        for (const Window& w : loop.windows) {
          if (w.step != 0) Place(w, t, block);
        }
      }
      Run(loop.first, loop.first + loop.calls, number + 1);
      for (const Carried& value : loop.carried) std::swap(At(value.now), At(value.next));
    }
    for (const Carried& value : loop.carried) {
      if (value.to >= 0) Move(value.to, value.now);
    }
  }

  void Place(const Window& w, int64_t t, int64_t block) {
    const Buffer& part = program_.buffers[static_cast<size_t>(w.buffer)];
    At(w.buffer) = At(part.index) + w.start + t * w.step + block * w.block;
  }

  void Move(int to, int from) {
    const int64_t nbytes = program_.buffers[static_cast<size_t>(to)].nbytes;
    if (nbytes > 0) std::memmove(At(to), At(from), static_cast<size_t>(nbytes));
  }

  void One(size_t number) {
    const Call& call = program_.calls[number];
    if (!spared_.empty() && std::find(spared_.begin(), spared_.end(), number) != spared_.end()) {
      GetCounters().copies_spared.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    thread_local std::vector<char*> pointers;
    pointers.resize(call.buffers.size());
    for (size_t i = 0; i < call.buffers.size(); ++i) pointers[i] = At(call.buffers[i]);
    const int64_t* dims = call.dims.empty() ? nullptr : call.dims.data();
    int threads = 1;
    if (pool_ != nullptr) {
      threads = pool_->Run(call.fn, pointers.data(), dims, call.grid, call.grain);
    } else if (call.grid > 0) {
      call.fn(pointers.data(), dims, 0, call.grid);
    }
    if constexpr (kRecorded) {
      const int64_t now = MonotonicNow();
      Record({last_, now, program_.number, EventKind::kKernelCall, static_cast<int32_t>(number), threads, 0});
      last_ = now;
      ++made_;
    } else {
      static_cast<void>(threads);
    }
  }

  const Program& program_;
  std::vector<char*>& bases_;
  const std::vector<size_t>& spared_;
  PoolLease* const pool_;
  int64_t last_ = 0;  // when the last call ended
  int32_t made_ = 0;
};

}  // namespace habana
