// stream.cpp -- streams and events: work in order, done at once or as late as allowed.
//
// A stream is a queue and a count of what has been done; an event is a place in a stream. The
// legacy default stream (0) waits for what all blocking streams had before, and they wait for it:
// both are done by noting the places to reach before a piece of work.
//
// SPDX-License-Identifier: MIT
#include <chrono>
#include <deque>
#include <set>
#include <utility>
#include <vector>
#include "tests/cudasim/cudart/runtime.h"

struct CUevent_st;

struct CUstream_st {
    struct Work {
        std::function<void()> run;
        std::vector<std::pair<CUstream_st *, uint64_t>> after; // places to reach first
    };
    std::deque<Work> queue;
    uint64_t issued = 0, done = 0;
    bool blocking = true; // waits for the default stream
    int priority = 0;
    bool running = false;
};

struct CUevent_st {
    CUstream_st *stream = nullptr; // nullptr: not recorded yet
    uint64_t place = 0;
    bool timing = true;
    double seconds = 0;
};

namespace cudasim
{
namespace rt
{

namespace
{

struct Streams {
    CUstream_st legacy;
    std::set<CUstream_st *> all; // of cudaStreamCreate
    std::set<CUevent_st *> events;
    bool deferred = env_number("CUDASIM_LAZY", 0) != 0 || env_number("CUDASIM_SEED", 0) != 0;
    bool random = env_number("CUDASIM_SEED", 0) != 0;
    uint64_t rng = env_number("CUDASIM_SEED", 0) * 0x9e3779b97f4a7c15ull + 1;
};

Streams &streams()
{
    static Streams *const s = new Streams;
    return *s;
}

// 0, cudaStreamLegacy and cudaStreamPerThread are one stream here.
CUstream_st *stream_of(cudaStream_t s)
{
    if (s == nullptr || s == cudaStreamLegacy || s == cudaStreamPerThread) {
        return &streams().legacy;
    }
    return streams().all.count(s) != 0 ? s : nullptr;
}

double now()
{
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

void run_to(CUstream_st *s, uint64_t place)
{
    while (s->done < place && !s->running) {
        CUstream_st::Work w = std::move(s->queue.front());
        s->queue.pop_front();
        s->running = true;
        for (const auto &a : w.after) run_to(a.first, a.second);
        w.run();
        s->running = false;
        ++s->done;
    }
}

// Some work of some stream, now and then.
void run_some()
{
    Streams &t = streams();
    if (!t.random) return;
    const auto some = [&t](CUstream_st *s) {
        t.rng ^= t.rng << 13;
        t.rng ^= t.rng >> 7;
        t.rng ^= t.rng << 17;
        if (t.rng % 4 == 0 && s->done < s->issued) run_to(s, s->done + 1);
    };
    some(&t.legacy);
    for (CUstream_st *s : t.all) some(s);
}

void add(CUstream_st *s, std::function<void()> work,
         std::vector<std::pair<CUstream_st *, uint64_t>> after)
{
    Streams &t = streams();
    if (s == &t.legacy) {
        for (CUstream_st *other : t.all) {
            if (other->blocking) after.emplace_back(other, other->issued);
        }
    } else if (s->blocking) {
        after.emplace_back(&t.legacy, t.legacy.issued);
    }
    s->queue.push_back({std::move(work), std::move(after)});
    ++s->issued;
    if (!t.deferred)
        run_to(s, s->issued);
    else
        run_some();
}

} // namespace

cudaError_t enqueue(cudaStream_t s, std::function<void()> work)
{
    CUstream_st *const to = stream_of(s);
    if (to == nullptr)
        return misuse(cudaErrorInvalidResourceHandle, "%p is no stream", static_cast<void *>(s));
    add(to, std::move(work), {});
    return cudaSuccess;
}

cudaError_t finish(cudaStream_t s)
{
    CUstream_st *const to = stream_of(s);
    if (to == nullptr)
        return misuse(cudaErrorInvalidResourceHandle, "%p is no stream", static_cast<void *>(s));
    if (to == &streams().legacy) {
        for (CUstream_st *other : streams().all) {
            if (other->blocking) run_to(other, other->issued);
        }
    }
    run_to(to, to->issued);
    return sticky();
}

void finish_all()
{
    run_to(&streams().legacy, streams().legacy.issued);
    for (CUstream_st *s : streams().all) run_to(s, s->issued);
}

namespace
{

cudaError_t no_graphs(const char *what)
{
    return misuse(cudaErrorNotSupported, "%s: CUDA graphs are not simulated", what);
}

cudaError_t check_event(cudaEvent_t e, const char *what)
{
    if (streams().events.count(e) != 0) return cudaSuccess;
    return misuse(cudaErrorInvalidResourceHandle, "%s: %p is no event", what,
                  static_cast<void *>(e));
}

} // namespace

} // namespace rt
} // namespace cudasim

using namespace cudasim;
using namespace cudasim::rt;

extern "C" {

// ---- streams ----
cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    CHECK(check_device());
    if (out == nullptr || flags > cudaStreamNonBlocking) return fail(cudaErrorInvalidValue);
    *out = new CUstream_st;
    (*out)->blocking = flags != cudaStreamNonBlocking;
    (*out)->priority = priority;
    streams().all.insert(*out);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    return cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithPriority(out, 0, 0);
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t s)
{
    CHECK(check_device());
    if (s == nullptr || stream_of(s) != s) {
        return misuse(cudaErrorInvalidResourceHandle, "cudaStreamDestroy: %p is no stream",
                      static_cast<void *>(s));
    }
    finish_all(); // others may hold places in this stream
    streams().all.erase(s);
    for (CUevent_st *e : streams().events) {
        if (e->stream == s) e->stream = nullptr;
    }
    delete s;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t s)
{
    CHECK(check_device());
    return finish(s);
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t s)
{
    CHECK(check_device());
    CUstream_st *const q = stream_of(s);
    if (q == nullptr) return fail(cudaErrorInvalidResourceHandle);
    if (q->done == q->issued) return sticky();
    run_to(q, q->done + 1); // somebody who only asks gets there in the end
    return cudaErrorNotReady;
}

cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t s, int *priority)
{
    CUstream_st *const q = stream_of(s);
    if (q == nullptr) return fail(cudaErrorInvalidResourceHandle);
    *priority = q->priority;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t s, unsigned *flags)
{
    CUstream_st *const q = stream_of(s);
    if (q == nullptr) return fail(cudaErrorInvalidResourceHandle);
    *flags = q->blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    CHECK(check_device());
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t fn, void *data)
{
    CHECK(check_device());
    if (fn == nullptr) return fail(cudaErrorInvalidValue);
    return enqueue(s, [fn, data] { fn(data); });
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void)
{
    CHECK(check_device());
    finish_all();
    mem_check();
    return sticky();
}

// ---- events ----
cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    CHECK(check_device());
    if (out == nullptr) return fail(cudaErrorInvalidValue);
    *out = new CUevent_st;
    (*out)->timing = (flags & cudaEventDisableTiming) == 0;
    streams().events.insert(*out);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t e)
{
    CHECK(check_device());
    CHECK(check_event(e, "cudaEventDestroy"));
    if (e->stream != nullptr) run_to(e->stream, e->place);
    streams().events.erase(e);
    delete e;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned)
{
    CHECK(check_device());
    CHECK(check_event(e, "cudaEventRecord"));
    CUstream_st *const q = stream_of(s);
    if (q == nullptr) return fail(cudaErrorInvalidResourceHandle);
    e->stream = q;
    e->place = q->issued + 1;
    add(q,
        [e] {
            if (streams().events.count(e) != 0) e->seconds = now();
        },
        {});
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    return cudaEventRecordWithFlags(e, s, 0);
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t e)
{
    CHECK(check_device());
    CHECK(check_event(e, "cudaEventSynchronize"));
    if (e->stream != nullptr) run_to(e->stream, e->place);
    return sticky();
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t e)
{
    CHECK(check_device());
    CHECK(check_event(e, "cudaEventQuery"));
    if (e->stream == nullptr || e->stream->done >= e->place) return sticky();
    run_to(e->stream, e->stream->done + 1);
    return cudaErrorNotReady;
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    CHECK(check_device());
    CHECK(check_event(from, "cudaEventElapsedTime"));
    CHECK(check_event(to, "cudaEventElapsedTime"));
    if (!from->timing || !to->timing || from->seconds == 0 || to->place == 0) {
        return misuse(cudaErrorInvalidResourceHandle,
                      "cudaEventElapsedTime: an event without timing or never recorded");
    }
    if (to->stream != nullptr && to->stream->done < to->place) return cudaErrorNotReady;
    *ms = static_cast<float>((to->seconds - from->seconds) * 1000);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    CHECK(check_device());
    CHECK(check_event(e, "cudaStreamWaitEvent"));
    CUstream_st *const q = stream_of(s);
    if (q == nullptr) return fail(cudaErrorInvalidResourceHandle);
    if (e->stream != nullptr && e->stream != q) add(q, [] {}, {{e->stream, e->place}});
    return cudaSuccess;
}

// ---- graphs ----
cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode)
{
    return no_graphs("cudaStreamBeginCapture");
}

cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t, cudaGraph_t *)
{
    return no_graphs("cudaStreamEndCapture");
}

cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus *status)
{
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGraphCreate(cudaGraph_t *, unsigned)
{
    return no_graphs("cudaGraphCreate");
}

cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t *, cudaGraph_t, unsigned long long)
{
    return no_graphs("cudaGraphInstantiate");
}

cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t, cudaStream_t)
{
    return no_graphs("cudaGraphLaunch");
}

cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t)
{
    return no_graphs("cudaGraphDestroy");
}

cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t)
{
    return no_graphs("cudaGraphExecDestroy");
}

} // extern "C"
