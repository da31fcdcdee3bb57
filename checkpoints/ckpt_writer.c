// ckpt_writer.c -- one thread that saves beside training.
//
//     idle --start--> given --thread takes it--> writing --done--> idle (with the outcome kept)
//
// The caller hands over one save at a time and keeps what it points to until wait or the next start
// has returned. The outcome of a save is reported once.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/checkpoint.h"

#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"

typedef enum Phase { IDLE, GIVEN, QUIT } Phase;

struct CkptWriter {
    Thread thread;
    Mutex mutex;
    Cond changed;
    Phase phase; // below: guarded by mutex, but for `save`, which the thread reads while GIVEN
    CkptSave save;
    Status status; // of the last save
    Err err;
};

static void *body(void *arg)
{
    CkptWriter *w = arg;
    mutex_lock(&w->mutex);
    while (w->phase != QUIT) {
        if (w->phase == IDLE) {
            cond_wait(&w->changed, &w->mutex);
            continue;
        }
        mutex_unlock(&w->mutex);
        Err err = {0};
        const Status s = ckpt_save(&w->save, &err);
        mutex_lock(&w->mutex);
        w->status = s;
        w->err = err;
        w->phase = IDLE;
        cond_broadcast(&w->changed);
    }
    mutex_unlock(&w->mutex);
    return NULL;
}

static void destroy(CkptWriter *w)
{
    cond_destroy(&w->changed);
    mutex_destroy(&w->mutex);
    mem_free(w);
}

Status ckpt_writer_open(CkptWriter **out, Err *err)
{
    *out = NULL;
    CkptWriter *w = mem_calloc(1, sizeof *w);
    if (!w) return mem_err(err, sizeof *w, "the checkpoint writer");
    mutex_init(&w->mutex);
    cond_init(&w->changed);
    const Status s = thread_start(&w->thread, body, w, err);
    if (s != ERR_NONE) {
        destroy(w);
        return s;
    }
    *out = w;
    return ERR_NONE;
}

Status ckpt_writer_wait(CkptWriter *w, Err *err)
{
    mutex_lock(&w->mutex);
    while (w->phase == GIVEN) cond_wait(&w->changed, &w->mutex);
    const Status s = w->status;
    if (s != ERR_NONE && err) *err = w->err;
    w->status = ERR_NONE;
    mutex_unlock(&w->mutex);
    return s;
}

Status ckpt_writer_start(CkptWriter *w, const CkptSave *s, Err *err)
{
    TRY(ckpt_writer_wait(w, err));
    mutex_lock(&w->mutex);
    ASSERT(w->phase == IDLE, "two threads start saves");
    w->save = *s;
    w->phase = GIVEN;
    cond_broadcast(&w->changed);
    mutex_unlock(&w->mutex);
    return ERR_NONE;
}

void ckpt_writer_close(CkptWriter *w)
{
    if (!w) return;
    mutex_lock(&w->mutex);
    while (w->phase == GIVEN) cond_wait(&w->changed, &w->mutex);
    w->phase = QUIT;
    cond_broadcast(&w->changed);
    mutex_unlock(&w->mutex);
    thread_join(&w->thread);
    destroy(w);
}
