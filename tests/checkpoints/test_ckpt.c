// test_ckpt.c -- a run's checkpoints: complete or not there, the newest good one found, the old
// ones pruned, failures told and nothing lost by them.
//
// SPDX-License-Identifier: MIT
#include "tests/checkpoints/ckpt_fixture.h"

#include "checkpoints/safetensors.h"
#include "checkpoints/steps.h"
#include "engine/base/mem.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char trainer_json[] = "{\"step\": 7, \"best_loss\": 1.25}\n";

typedef struct Run { // a run folder, a model and what a save of it needs
    char     dir[PATH_CAP];
    Fixture  model;
    float    m[6];
    int64_t  count[2];
    Tensor   trainer[2];
    CkptSave save;
} Run;

static void run_open(Run *r)
{
    HfConfig c;
    fixture_mkdir(r->dir);
    fixture_config(&c);
    fixture_model(&r->model, &c, 1);
    for (int i = 0; i < 6; i++) r->m[i] = (float)i * 0.25f;
    r->count[0]   = 1;
    r->count[1]   = INT64_MAX;
    r->trainer[0] = (Tensor){.name = "adam.m", .rank = 2, .shape = {2, 3}, .data = r->m};
    r->trainer[1] =
        (Tensor){.name = "count", .dtype = DTYPE_I64, .rank = 1, .shape = {2}, .data = r->count};
    r->save       = (CkptSave){.config = c, .model_dtype = DTYPE_F32, .model = r->model.t,
                               .n_model = r->model.n, .trainer = r->trainer, .n_trainer = 2,
                               .trainer_json = trainer_json};
    memcpy(r->save.run_dir, r->dir, sizeof r->dir);
}

static void run_close(Run *r)
{
    fixture_free(&r->model);
    fixture_rmdir(r->dir);
}

static void save_step(Run *r, int64_t step)
{
    Err err;
    r->save.step = step;
    fixture_must(ckpt_save(&r->save, &err), &err);
}

// "1 2 best=2": the complete steps of the run, and the best.
static void assert_steps(const Run *r, const char *want)
{
    char    have[256] = "", dir[PATH_CAP];
    Steps   all;
    int64_t best = -1;
    assert_int_equal(steps_list(&all, r->dir, NULL), ERR_NONE);
    for (int i = 0; i < all.n; i++) {
        assert_int_equal(steps_path(dir, r->dir, all.step[i], NULL), ERR_NONE);
        if (ckpt_verify(dir, true, NULL) != ERR_NONE) continue;
        snprintf(have + strlen(have), sizeof have - strlen(have), "%s%d", *have ? " " : "",
                 (int)all.step[i]);
    }
    steps_free(&all);
    assert_int_equal(steps_best(r->dir, &best, NULL), ERR_NONE);
    if (best >= 0)
        snprintf(have + strlen(have), sizeof have - strlen(have), " best=%d", (int)best);
    assert_string_equal(have, want);
}

static int64_t newest(const Run *r)
{
    char    dir[PATH_CAP];
    int64_t step  = -1;
    bool    found = false;
    assert_int_equal(ckpt_newest(r->dir, dir, &step, &found, NULL), ERR_NONE);
    return found ? step : -1;
}

// stderr goes to a file between these two; the second returns what was said.
static int stderr_catch(const char *dir)
{
    char path[PATH_CAP];
    fflush(stderr);
    const int old = dup(2),
              fd = open(fixture_path(path, dir, "stderr"), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(fd, 2);
    close(fd);
    return old;
}

static char *stderr_release(const char *dir, int old)
{
    char path[PATH_CAP];
    Buf  text = {0};
    fflush(stderr);
    dup2(old, 2);
    close(old);
    assert_int_equal(file_read(fixture_path(path, dir, "stderr"), &text, NULL), ERR_NONE);
    return text.data;
}

static void a_saved_step_has_everything_and_loads(void **state)
{
    (void)state;
    Run  r;
    Err  err;
    char dir[PATH_CAP], tok[PATH_CAP], path[PATH_CAP];
    run_open(&r);
    fixture_path(tok, r.dir, "tok");
    fixture_must(file_mkdirs(tok, &err), &err);
    fixture_put(fixture_path(path, tok, "tokenizer.json"), "{}", 2);
    fixture_put(fixture_path(path, tok, "gpt2.tiktoken"), "x", 1);
    fixture_put(fixture_path(path, tok, "notes.txt"), "x", 1);
    memcpy(r.save.tokenizer_dir, tok, sizeof tok);
    save_step(&r, 1000);
    int64_t step = -1;
    fixture_must(ckpt_find(r.dir, NULL, dir, &step, &err), &err);
    assert_int_equal(step, 1000);
    assert_string_equal(path_base(dir), "step-00001000");
    FileList l;
    fixture_must(file_list(dir, &l, &err), &err);
    const char *const want[] = {"MANIFEST",          "config.json",  "gpt2.tiktoken",
                                "model.safetensors", "tokenizer.json", "trainer.json",
                                "trainer.safetensors"};
    assert_int_equal(l.n, LT_COUNT(want));
    for (int i = 0; i < l.n; i++) assert_string_equal(l.name[i], want[i]);
    file_list_free(&l);

    Fixture  again;
    HfConfig c;
    fixture_must(hf_config_read(&c, dir, &err), &err);
    fixture_model(&again, &c, 77);
    fixture_must(hf_load(dir, &c, again.t, again.n, &err), &err);
    assert_true(fixture_equal(&r.model, &again));
    fixture_free(&again);

    float   m[6]     = {0};
    int64_t count[2] = {0};
    Tensor  t[2]     = {r.trainer[1], r.trainer[0]};
    Buf     json     = {0};
    t[0].data        = count;
    t[1].data        = m;
    assert_true(ckpt_has_trainer(dir));
    fixture_must(ckpt_load_trainer(dir, &json, t, 2, &err), &err);
    assert_string_equal(json.data, trainer_json);
    assert_memory_equal(m, r.m, sizeof m);
    assert_memory_equal(count, r.count, sizeof count);
    buf_free(&json);
    run_close(&r);
}

static void trainer_state_must_fit(void **state)
{
    (void)state;
    Run  r;
    Err  err;
    char dir[PATH_CAP];
    Buf  json = {0};
    run_open(&r);
    save_step(&r, 1);
    assert_int_equal(steps_path(dir, r.dir, 1, NULL), ERR_NONE);
    float  m[8];
    Tensor t = {.name = "adam.v", .rank = 2, .shape = {2, 3}, .data = m};
    assert_int_equal(ckpt_load_trainer(dir, &json, &t, 1, &err), ERR_FORMAT);
    assert_non_null(strstr(err.text, "tensor \"adam.v\" is missing"));
    snprintf(t.name, sizeof t.name, "adam.m");
    t.shape[0] = 3;
    assert_int_equal(ckpt_load_trainer(dir, &json, &t, 1, &err), ERR_FORMAT);
    assert_non_null(strstr(err.text, "\"adam.m\" has another shape"));
    t.dtype = DTYPE_I32;
    assert_int_equal(ckpt_load_trainer(dir, &json, &t, 1, &err), ERR_FORMAT);
    assert_non_null(strstr(err.text, "\"adam.m\" has dtype F32, expected i32"));
    assert_null(json.data);
    run_close(&r);
}

static void names_resolve_as_a_user_means_them(void **state)
{
    (void)state;
    Run     r;
    Err     err;
    char    dir[PATH_CAP], path[PATH_CAP], golden[PATH_CAP];
    int64_t step = -7;
    run_open(&r);
    assert_int_equal(ckpt_find(r.dir, NULL, dir, &step, &err), ERR_IO);
    assert_non_null(strstr(err.text, "neither a run, a checkpoint nor a model folder"));
    save_step(&r, 5);
    r.save.best = true;
    save_step(&r, 10);
    r.save.best = false;
    save_step(&r, 15);
    fixture_must(ckpt_find(r.dir, NULL, dir, &step, &err), &err);
    assert_int_equal(step, 15);
    fixture_must(ckpt_find(r.dir, "", dir, &step, &err), &err);
    assert_int_equal(step, 15);
    fixture_must(ckpt_find(r.dir, "best", dir, &step, &err), &err);
    assert_int_equal(step, 10);
    fixture_must(ckpt_find(r.dir, "step-00000005", dir, &step, &err), &err);
    assert_int_equal(step, 5);
    snprintf(path, sizeof path, "%.3000s//", dir);
    fixture_must(ckpt_find(path, NULL, dir, &step, &err), &err); // a step folder, with slashes
    assert_int_equal(step, 5);
    assert_string_equal(path_base(dir), "step-00000005");
    fixture_must(ckpt_find(fixture_golden(golden, "single"), NULL, dir, &step, &err), &err);
    assert_int_equal(step, -1);
    assert_string_equal(dir, golden);
    assert_int_equal(ckpt_find(r.dir, "step-6", dir, &step, &err), ERR_USAGE);
    assert_int_equal(ckpt_find(r.dir, "step-00000006", dir, &step, &err), ERR_IO);
    assert_int_equal(ckpt_find(golden, "best", dir, &step, &err), ERR_USAGE);
    assert_int_equal(ckpt_find("/nowhere/at/all", NULL, dir, &step, &err), ERR_IO);
    assert_non_null(strstr(err.text, "/nowhere/at/all: no such folder"));
    // A step under another name knows its step from trainer.json.
    char from[PATH_CAP], to[PATH_CAP];
    assert_int_equal(steps_path(from, r.dir, 5, NULL), ERR_NONE);
    fixture_copy(fixture_path(to, r.dir, "copied"), from);
    fixture_must(ckpt_find(to, NULL, dir, &step, &err), &err);
    assert_int_equal(step, 7);
    run_close(&r);
}

static void old_steps_are_pruned_and_the_rest_is_kept(void **state)
{
    (void)state;
    Run r;
    run_open(&r);
    r.save.keep = 2;
    for (int64_t step = 10; step <= 60; step += 10) {
        r.save.best = step == 20;
        save_step(&r, step);
    }
    assert_steps(&r, "20 50 60 best=20");
    r.save.keep_every = 30;
    for (int64_t step = 70; step <= 110; step += 10) save_step(&r, step);
    assert_steps(&r, "20 60 90 100 110 best=20");
    r.save.best = true;
    save_step(&r, 120); // the best moves on: its old place is no longer exempt
    assert_steps(&r, "60 90 110 120 best=120");
    r.save.best = false;
    r.save.keep = 1;
    save_step(&r, 35); // saved by a run that went back: never removed by its own save
    assert_steps(&r, "35 60 90 120 best=120");
    r.save.keep = 0;
    for (int64_t step = 130; step <= 160; step += 10) save_step(&r, step);
    assert_steps(&r, "35 60 90 120 130 140 150 160 best=120");
    run_close(&r);
}

static void going_back_sets_newer_steps_aside(void **state)
{
    (void)state;
    Run     r;
    Err     err;
    int     n;
    char    dir[PATH_CAP], path[PATH_CAP];
    int64_t step;
    bool    found;
    run_open(&r);
    r.save.keep = 0;
    for (step = 10; step <= 40; step += 10) {
        r.save.best = step == 30;
        save_step(&r, step);
    }
    assert_int_equal(ckpt_set_aside(r.dir, 40, 0, &n, &err), ERR_NONE);
    assert_int_equal(n, 0);
    assert_steps(&r, "10 20 30 40 best=30");
    assert_int_equal(ckpt_set_aside(r.dir, 20, 0, &n, &err), ERR_NONE);
    assert_int_equal(n, 2);
    assert_int_equal(ckpt_newest(r.dir, dir, &step, &found, &err), ERR_NONE);
    assert_true(found && step == 20);
    snprintf(path, sizeof path, "%.3000s/checkpoints/aside-step-00000030", r.dir);
    assert_int_equal(ckpt_verify(path, true, &err), ERR_NONE); // given up, not lost
    snprintf(path, sizeof path, "%.3000s/checkpoints/best", r.dir);
    assert_false(file_exists(path));
    run_close(&r);
}

static bool is_aside(const Run *r, int64_t step)
{
    char path[PATH_CAP];
    snprintf(path, sizeof path, "%.3000s/checkpoints/aside-step-%08d", r->dir, (int)step);
    return ckpt_verify(path, true, NULL) == ERR_NONE;
}

static void given_up_steps_are_bounded_like_steps(void **state)
{
    (void)state;
    Run r;
    Err err;
    int n;
    run_open(&r);
    r.save.keep = 0;
    for (int64_t step = 10; step <= 60; step += 10) {
        r.save.best = step == 30;
        save_step(&r, step);
    }
    r.save.best = false;
    // 30 is the best, 50 and 60 are the newest two; 40 goes.
    assert_int_equal(ckpt_set_aside(r.dir, 20, 2, &n, &err), ERR_NONE);
    assert_int_equal(n, 4);
    assert_true(is_aside(&r, 30) && !is_aside(&r, 40) && is_aside(&r, 50) && is_aside(&r, 60));
    // Nothing newer: nothing is given up, nothing goes.
    assert_int_equal(ckpt_set_aside(r.dir, 20, 2, &n, &err), ERR_NONE);
    assert_true(n == 0 && is_aside(&r, 30) && is_aside(&r, 50) && is_aside(&r, 60));
    // The next time, those of the time before go, though their numbers are higher.
    save_step(&r, 25);
    assert_int_equal(ckpt_set_aside(r.dir, 20, 2, &n, &err), ERR_NONE);
    assert_true(n == 1 && is_aside(&r, 25) && !is_aside(&r, 50) && !is_aside(&r, 60));
    assert_steps(&r, "10 20");
    run_close(&r);
}

static void best_is_what_was_best_at_the_step_gone_back_to(void **state)
{
    (void)state;
    Run r;
    Err err;
    int n;
    run_open(&r);
    r.save.keep = 0;
    for (int64_t step = 10; step <= 40; step += 10) {
        r.save.best = step == 10 || step == 30;
        save_step(&r, step);
    }
    assert_int_equal(ckpt_set_aside(r.dir, 20, 0, &n, &err), ERR_NONE);
    assert_steps(&r, "10 20");
    assert_int_equal(ckpt_restore_best(r.dir, 10, &err), ERR_NONE);
    assert_steps(&r, "10 20 best=10");
    assert_int_equal(ckpt_restore_best(r.dir, 15, &err), ERR_NONE); // gone: nothing to point at
    assert_int_equal(ckpt_restore_best(r.dir, -1, &err), ERR_NONE);
    assert_steps(&r, "10 20 best=10");
    run_close(&r);
}

static void a_run_folder_that_is_gone_does_not_come_back_by_a_save(void **state)
{
    (void)state;
    Run r;
    Err err;
    run_open(&r);
    assert_int_equal(file_remove_tree(r.dir, NULL), ERR_NONE);
    assert_int_equal(ckpt_save(&r.save, &err), ERR_IO);
    assert_non_null(strstr(err.text, r.dir));
    assert_false(file_exists(r.dir));
    run_close(&r);
}

static void a_folder_that_another_run_took_is_left_to_it(void **state)
{
    (void)state;
    Run r;
    Err err;
    FileLock lock;
    char path[PATH_CAP];
    run_open(&r);
    fixture_must(file_lock(&lock, fixture_path(path, r.dir, "lock"), &err), &err);
    r.save.lock = &lock;
    r.save.keep = 1;
    save_step(&r, 1);
    fixture_must(file_remove(path, &err), &err);
    fixture_put(path, "1", 1); // the other run's
    r.save.step = 2;
    r.save.best = true;
    assert_int_equal(ckpt_save(&r.save, &err), ERR_IO);
    assert_non_null(strstr(err.text, "removed or moved"));
    assert_steps(&r, "1");
    file_unlock(&lock);
    run_close(&r);
}

static void a_damaged_best_line_stops_pruning_not_training(void **state)
{
    (void)state;
    Run  r;
    char path[PATH_CAP];
    run_open(&r);
    save_step(&r, 1);
    save_step(&r, 2);
    fixture_put(fixture_path(path, r.dir, "checkpoints/best"), "stop-3\n", 7);
    r.save.keep     = 1;
    const int old   = stderr_catch(r.dir);
    save_step(&r, 3);
    char *said = stderr_release(r.dir, old);
    assert_non_null(strstr(said, "best: does not name a step; nothing is removed"));
    mem_free(said);
    int64_t step;
    char    dir[PATH_CAP];
    assert_int_equal(ckpt_find(r.dir, "best", dir, &step, NULL), ERR_FORMAT);
    assert_int_equal(file_remove(path, NULL), ERR_NONE);
    assert_steps(&r, "1 2 3");
    run_close(&r);
}

// Each file of the newest step, cut, flipped and removed: the one before is taken, and it is said.
static void damage_falls_back_with_a_warning(void **state)
{
    (void)state;
    static const char *const files[] = {"MANIFEST", "config.json", "model.safetensors",
                                        "trainer.json", "trainer.safetensors"};
    enum { CUT, FLIP, REMOVE, EMPTY, GROW, KINDS };
    Run  r;
    Err  err;
    char newest_dir[PATH_CAP], path[PATH_CAP];
    run_open(&r);
    save_step(&r, 1);
    save_step(&r, 2);
    assert_int_equal(steps_path(newest_dir, r.dir, 2, NULL), ERR_NONE);
    for (size_t i = 0; i < LT_COUNT(files); i++)
        for (int kind = 0; kind < KINDS; kind++) {
            Buf keep = {0};
            fixture_path(path, newest_dir, files[i]);
            fixture_must(file_read(path, &keep, &err), &err);
            const size_t half = keep.len / 2;
            if (kind == CUT) fixture_put(path, keep.data, half);
            if (kind == EMPTY) fixture_put(path, "", 0);
            if (kind == REMOVE) assert_int_equal(unlink(path), 0);
            if (kind == GROW) {
                fixture_must(buf_puts(&keep, "x", &err), &err);
                fixture_put(path, keep.data, keep.len--);
            }
            if (kind == FLIP) {
                keep.data[half] ^= 16;
                fixture_put(path, keep.data, keep.len);
                keep.data[half] ^= 16;
            }
            const int     old  = stderr_catch(r.dir);
            const int64_t step = newest(&r);
            char         *said = stderr_release(r.dir, old);
            if (step != 1) fail_msg("%s, damage %d: step %d is taken", files[i], kind, (int)step);
            if (!strstr(said, "lathe: warning: step 2 is skipped: ") || !strstr(said, newest_dir))
                fail_msg("%s, damage %d: said: %s", files[i], kind, said);
            if (i && !strstr(said, files[i])) fail_msg("%s is not named: %s", files[i], said);
            mem_free(said);
            assert_int_equal(ckpt_verify(newest_dir, true, &err), ERR_FORMAT);
            fixture_put(path, keep.data, keep.len);
            buf_free(&keep);
            fixture_must(ckpt_verify(newest_dir, true, &err), &err);
        }
    assert_int_equal(newest(&r), 2);
    run_close(&r);
}

static void a_manifest_is_read_to_the_letter(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"lathe-manifest 2\nend\n", "does not begin with"},
        {"lathe-manifest 1\n", "no \"end\" line"},
        {"lathe-manifest 1\nend", "no \"end\" line"},
        {"lathe-manifest 1\nend\nx\n", "text behind its end"},
        {"lathe-manifest 1\nend\n", "does not list config.json"},
        {"lathe-manifest 1\n0000000g 1 a\nend\n", "line 2"},
        {"lathe-manifest 1\n00000000 -1 a\nend\n", "line 2"},
        {"lathe-manifest 1\n00000000 99999999999999999999 a\nend\n", "line 2"},
        {"lathe-manifest 1\n00000000 1 ../a\nend\n", "line 2"},
        {"lathe-manifest 1\n00000000 1 \nend\n", "line 2"},
        {"lathe-manifest 1\n00000000 1\nend\n", "line 2"},
        {"lathe-manifest 1\n00000000 1 absent\nend\n", "absent is missing"},
    };
    char dir[PATH_CAP], path[PATH_CAP];
    Err  err;
    fixture_mkdir(dir);
    fixture_path(path, dir, "MANIFEST");
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        fixture_put(path, cases[i].text, strlen(cases[i].text));
        if (ckpt_verify(dir, true, &err) != ERR_FORMAT || !strstr(err.text, cases[i].says))
            fail_msg("%s: %s", cases[i].text, err.text);
    }
    static const char behind[] = "lathe-manifest 1\nend\n\0more";
    fixture_put(path, behind, sizeof behind - 1);
    assert_int_equal(ckpt_verify(dir, true, &err), ERR_FORMAT);
    assert_non_null(strstr(err.text, "a zero byte"));
    fixture_rmdir(dir);
}

static void a_complete_step_is_left_alone_and_a_damaged_one_replaced(void **state)
{
    (void)state;
    Run         r;
    struct stat before, after;
    char        dir[PATH_CAP], path[PATH_CAP];
    run_open(&r);
    save_step(&r, 4);
    assert_int_equal(steps_path(dir, r.dir, 4, NULL), ERR_NONE);
    fixture_path(path, dir, "model.safetensors");
    assert_int_equal(stat(path, &before), 0);
    save_step(&r, 4);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    fixture_put(path, "junk", 4);
    save_step(&r, 4);
    assert_steps(&r, "4");
    run_close(&r);
}

static void leftovers_of_a_kill_are_invisible_and_swept(void **state)
{
    (void)state;
    Run  r;
    Err  err;
    char dir[PATH_CAP], tmp[PATH_CAP], path[PATH_CAP];
    run_open(&r);
    fixture_must(ckpt_clean(r.dir, &err), &err); // no checkpoints folder yet: fine
    save_step(&r, 1);
    assert_int_equal(steps_path(dir, r.dir, 1, NULL), ERR_NONE);
    fixture_copy(fixture_path(tmp, r.dir, "checkpoints/.tmp-step-00000002"), dir);
    fixture_copy(fixture_path(path, r.dir, "checkpoints/.tmp-old-step-00000000"), dir);
    fixture_put(fixture_path(path, r.dir, "checkpoints/best.tmp"), "step", 4);
    assert_int_equal(newest(&r), 1);
    fixture_must(ckpt_clean(r.dir, &err), &err);
    FileList l;
    fixture_must(file_list(fixture_path(path, r.dir, "checkpoints"), &l, &err), &err);
    assert_int_equal(l.n, 1);
    file_list_free(&l);
    run_close(&r);
}

static Status save_with_limit(CkptSave *s, rlim_t bytes, Err *err)
{
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small          = old;
    small.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status e = ckpt_save(s, err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    return e;
}

static void a_full_disk_is_told_and_loses_nothing(void **state)
{
    (void)state;
    Run r;
    Err err;
    run_open(&r);
    r.save.keep = 1;
    save_step(&r, 1);
    static const rlim_t limits[] = {0, 100, 5000}; // in the tensors, in their header, in the middle
    for (size_t i = 0; i < LT_COUNT(limits); i++) {
        r.save.step = 2;
        assert_int_equal(save_with_limit(&r.save, limits[i], &err), ERR_IO);
        assert_non_null(strstr(err.text, "File too large"));
        assert_non_null(strstr(err.text, "while saving step 2"));
        assert_steps(&r, "1");
        FileList l;
        char     path[PATH_CAP];
        assert_int_equal(file_list(fixture_path(path, r.dir, "checkpoints"), &l, NULL), ERR_NONE);
        assert_int_equal(l.n, 1); // what was half written is gone again
        file_list_free(&l);
    }
    save_step(&r, 2);
    assert_steps(&r, "2");
    run_close(&r);
}

static void a_folder_that_cannot_be_written_is_told(void **state)
{
    (void)state;
    Run  r;
    Err  err;
    char path[PATH_CAP];
    run_open(&r);
    save_step(&r, 1);
    fixture_path(path, r.dir, "checkpoints");
    assert_int_equal(chmod(path, 0555), 0);
    // The administrator may write anywhere; another user may not.
    const bool admin = geteuid() == 0;
    if (admin) {
        assert_int_equal(chmod(r.dir, 0755), 0);
        assert_int_equal(seteuid(65534), 0);
    }
    r.save.step    = 2;
    const Status s = ckpt_save(&r.save, &err);
    if (admin) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(s, ERR_IO);
    assert_non_null(strstr(err.text, "Permission denied"));
    assert_steps(&r, "1");

    // A file where the folder should be.
    fixture_rmdir(path);
    fixture_put(path, "x", 1);
    assert_int_equal(ckpt_save(&r.save, &err), ERR_IO);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(file_remove(path, NULL), ERR_NONE);
    save_step(&r, 2); // a folder that was removed is made again
    assert_steps(&r, "2");
    memcpy(r.save.tokenizer_dir, "/nowhere/tok", 13);
    r.save.step = 3;
    assert_int_equal(ckpt_save(&r.save, &err), ERR_IO);
    assert_non_null(strstr(err.text, "/nowhere/tok"));
    assert_steps(&r, "2");
    run_close(&r);
}

static void a_background_save_equals_one_in_front(void **state)
{
    (void)state;
    Run         r;
    Err         err;
    CkptWriter *w = NULL;
    run_open(&r);
    save_step(&r, 1);
    fixture_must(ckpt_writer_open(&w, &err), &err);
    fixture_must(ckpt_writer_wait(w, &err), &err);
    for (int64_t step = 2; step <= 6; step++) {
        r.save.step = step;
        fixture_must(ckpt_writer_start(w, &r.save, &err), &err);
        r.save.step = -1; // the writer has its own copy of the request
    }
    fixture_must(ckpt_writer_wait(w, &err), &err);
    assert_steps(&r, "1 2 3 4 5 6");
    uint32_t crc[2];
    uint64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        char dir[PATH_CAP], path[PATH_CAP];
        assert_int_equal(steps_path(dir, r.dir, i ? 6 : 1, NULL), ERR_NONE);
        fixture_must(file_crc(fixture_path(path, dir, "MANIFEST"), &crc[i], &bytes[i], &err), &err);
    }
    assert_int_equal(crc[0], crc[1]);
    r.save.step = 7;
    fixture_must(ckpt_writer_start(w, &r.save, &err), &err);
    ckpt_writer_close(w); // finishes what it was given
    assert_steps(&r, "1 2 3 4 5 6 7");
    ckpt_writer_close(NULL);
    run_close(&r);
}

static void errors_of_a_background_save_come_out_once(void **state)
{
    (void)state;
    Run         r;
    Err         err;
    char        path[PATH_CAP];
    CkptWriter *w = NULL;
    run_open(&r);
    fixture_put(fixture_path(path, r.dir, "checkpoints"), "x", 1);
    fixture_must(ckpt_writer_open(&w, &err), &err);
    r.save.step = 1;
    fixture_must(ckpt_writer_start(w, &r.save, &err), &err);
    assert_int_equal(ckpt_writer_wait(w, &err), ERR_IO);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "while saving step 1"));
    fixture_must(ckpt_writer_wait(w, &err), &err);
    fixture_must(ckpt_writer_start(w, &r.save, &err), &err);
    assert_int_equal(ckpt_writer_start(w, &r.save, &err), ERR_IO); // start reports it, too
    assert_int_equal(file_remove(path, NULL), ERR_NONE);
    fixture_must(ckpt_writer_start(w, &r.save, &err), &err);
    fixture_must(ckpt_writer_wait(w, &err), &err);
    assert_steps(&r, "1");
    ckpt_writer_close(w);
    run_close(&r);
}

int main(void)
{
    signal(SIGXFSZ, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_step_has_everything_and_loads),
        cmocka_unit_test(trainer_state_must_fit),
        cmocka_unit_test(names_resolve_as_a_user_means_them),
        cmocka_unit_test(old_steps_are_pruned_and_the_rest_is_kept),
        cmocka_unit_test(going_back_sets_newer_steps_aside),
        cmocka_unit_test(given_up_steps_are_bounded_like_steps),
        cmocka_unit_test(best_is_what_was_best_at_the_step_gone_back_to),
        cmocka_unit_test(a_run_folder_that_is_gone_does_not_come_back_by_a_save),
        cmocka_unit_test(a_folder_that_another_run_took_is_left_to_it),
        cmocka_unit_test(a_damaged_best_line_stops_pruning_not_training),
        cmocka_unit_test(damage_falls_back_with_a_warning),
        cmocka_unit_test(a_manifest_is_read_to_the_letter),
        cmocka_unit_test(a_complete_step_is_left_alone_and_a_damaged_one_replaced),
        cmocka_unit_test(leftovers_of_a_kill_are_invisible_and_swept),
        cmocka_unit_test(a_full_disk_is_told_and_loses_nothing),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_told),
        cmocka_unit_test(a_background_save_equals_one_in_front),
        cmocka_unit_test(errors_of_a_background_save_come_out_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
