// mllog.h -- the log of a benchmark run: lines as MLPerf's compliance checker reads them.
//
//     :::MLLOG {"namespace": "", "time_ms": 1682641168353, "event_type": "POINT_IN_TIME",
//               "key": "global_batch_size", "value": 768, "metadata": {}}        (on one line)
//
// Which keys there are and in what order is the caller's matter (engine/train/run_mllog.c); what a
// line is, this file's. Every line is written at once. A line that cannot be written is lost, which
// is told once: the log is void then, the run is not.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/base/file.h"

typedef struct MlLog {
    int fd; // -1: closed; events go nowhere
    char path[PATH_CAP];
    bool failing; // a line was lost
} MlLog;

typedef enum MlLogEvent { MLLOG_POINT = 0, MLLOG_START, MLLOG_END } MlLogEvent;

LT_C_BEGIN
// Lines are added to those that are there: `*empty` says whether there are none. A file that holds
// the log of a run is ERR_USAGE: two runs in one file are no log of either.
LT_MUST_CHECK Status mllog_open(MlLog *l, const char *path, bool *empty, Err *err);
int64_t mllog_now(void); // milliseconds since 1970

// value and metadata are JSON: "null", "0.72", "\"bert\""; metadata the members of an object, ""
// for none. The others are points in time, now, without metadata.
void mllog_event(MlLog *l, int64_t time_ms, MlLogEvent e, const char *key, const char *value,
                 const char *metadata);
void mllog_text(MlLog *l, const char *key, const char *text);
void mllog_int(MlLog *l, const char *key, int64_t v);
void mllog_number(MlLog *l, const char *key, double v); // not finite: null
void mllog_close(MlLog *l);                             // also of a closed or zeroed-with-fd--1 one
LT_C_END
