// The card of this process: claimed at the first use by a record lock, and what it publishes while it is
// held.
//
// A POSIX record lock (F_SETLK) dies with its process, however that ends, and a forked child does not inherit
// it. It also goes when the process closes any descriptor of the file, so the descriptor given here is never
// closed, and Python opens that file once per process.
//
// The record is a page of the same file, written with relaxed atomics, so that publishing costs no system
// call. Readers trust it only while the lock is held.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace habana {

constexpr int64_t kRecordBytes = 4096;
constexpr uint64_t kRecordVersion = 2;
constexpr int64_t kWindowNanoseconds = 100'000'000;
constexpr int kWindows = 16;

// One card's page, at kRecordBytes * (1 + module id). habana_tf/hardware/telemetry.py reads this layout.
struct CardRecord {
  std::atomic<uint64_t> version{0};  // kRecordVersion once all below is filled in
  int64_t pid = 0;
  int64_t claimed_at = 0;  // nanoseconds since the epoch
  int64_t hbm_bytes = 0;
  std::atomic<int64_t> memory{0};       // simulated HBM this process has taken, bytes
  std::atomic<int64_t> memory_peak{0};  // the most of it so far
  std::atomic<int64_t> launches{0};
  std::atomic<int64_t> steps{0};       // see CountUpdate
  std::atomic<int64_t> recipes{0};     // compiled by this process, not loaded
  std::atomic<int64_t> recompiled{0};  // of these, for other sizes or values of a cluster that had a recipe
  std::atomic<int64_t> hits{0};        // recipes that the cache had when they were asked for
  std::atomic<int64_t> busy{0};        // nanoseconds during which at least one launch ran, up to the last end
  std::atomic<int64_t> active{0};      // launches running now
  std::atomic<int64_t> busy_since{0};  // CLOCK_MONOTONIC, nanoseconds; of use while active > 0
  char chip[32] = {};
  char command[384] = {};
  // Busy nanoseconds of the last windows: (window number mod 2^32) << 32 | nanoseconds.
  std::atomic<uint64_t> windows[kWindows] = {};
};

static_assert(sizeof(CardRecord) <= kRecordBytes, "a record is one page");
static_assert(std::atomic<uint64_t>::is_always_lock_free, "the record is shared between processes");

// The file of the simulated machine and what may be claimed in it.
struct CardPlan {
  int descriptor = -1;       // open for reading and writing; never closed
  std::vector<int> modules;  // module ids to try, in this order
  std::string chip;
  std::string command;
  int64_t hbm_bytes = 0;
};

// From now on the device needs a card. Before, everything runs without one: loading checks the device with an
// op, and a process that only loads must hold none. A second call changes nothing once a card is held.
HABANA_EXPORT void ArmCard(CardPlan plan);

// False when the device needs a card and has none yet, or its file was damaged. One load on the road of every
// launch.
HABANA_EXPORT bool CardReady();

// Takes the first free card of the plan. True when one is held, also from before. Never waits.
HABANA_EXPORT bool ClaimCard();

// The same, but gives up for good after one failure: for copies, which TensorFlow does not let fail.
HABANA_EXPORT void ClaimCardQuietly();

// The path of the file of the simulated machine if it was cut short while a card of it was held, or nothing.
HABANA_EXPORT std::string DamagedFile();

// The module id of the card held, or -1.
HABANA_EXPORT int HeldCard();

// What is published; a record of this process alone while no card is held.
HABANA_EXPORT CardRecord& Published();

// The card took or gave back memory; `bytes` is what this process has now.
HABANA_EXPORT void PublishMemory(int64_t bytes);

// One launch, from its start to its end, in nanoseconds of CLOCK_MONOTONIC. Both get the same record.
HABANA_EXPORT void PublishStart(CardRecord& record, int64_t now);
HABANA_EXPORT void PublishEnd(CardRecord& record, int64_t now);

// A launch has updated variables; `by` stands for its node of the graph. A step is a repetition of one such
// launch, whichever others it has: one that comes in between, such as metrics, counts once the one that was
// counted so far is left out. One that a step runs several times counts each. Eager ops are not counted: each
// updates one variable of a step.
HABANA_EXPORT void CountUpdate(uint64_t by);

}  // namespace habana
