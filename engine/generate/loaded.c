// loaded.c -- see loaded.h.
//
// SPDX-License-Identifier: MIT
#include "engine/generate/loaded.h"
#include "checkpoints/checkpoint.h"
#include "engine/base/mem.h"

#include <string.h>

static Status read_weights(Loaded *m, Err *err)
{
    m->bytes = (size_t)m->params.total * dtype_bytes(m->prec.param);
    TRY(device_alloc(m->device, m->bytes, &m->weights, err));
    Tensor *t = mem_calloc((size_t)m->params.n, sizeof *t);
    void *host = m->device->is_host ? m->weights : mem_map(m->bytes);
    Status st = t && host ? ERR_NONE : mem_err(err, m->bytes, "weights");
    if (st == ERR_NONE) {
        params_tensors(&m->params, host, m->prec.param, "", t);
        st = hf_load(m->dir, &m->hf, t, m->params.n, err);
    }
    if (st == ERR_NONE && !m->device->is_host)
        st = device_upload(m->device, m->weights, host, m->bytes, err);
    if (!m->device->is_host) mem_unmap(host, m->bytes);
    mem_free(t);
    return st;
}

static Status open_model(Loaded *m, const char *path, const char *which, const char *precision,
                         Err *err)
{
    TRY(ckpt_find(path, which && which[0] ? which : NULL, m->dir, &m->step, err));
    TRY(hf_config_read(&m->hf, m->dir, err));
    TRY_CTX(model_from_hf(&m->c, &m->hf, err), err, "reading the model in %s", m->dir);
    if (strcmp(precision, "auto") == 0)
        precision = strcmp(m->hf.dtype, "bfloat16") == 0 ? "bf16" : "fp32";
    TRY(precision_from_name(&m->prec, precision, "f32", err));
    TRY(params_layout(&m->params, &m->c, err));
    return read_weights(m, err);
}

Status loaded_open(Loaded *m, const char *path, const char *which, const char *precision,
                   Device *device, Err *err)
{
    *m = (Loaded){.device = device};
    const Status st = open_model(m, path, which, precision, err);
    if (st != ERR_NONE) loaded_close(m);
    return st;
}

void loaded_close(Loaded *m)
{
    if (m->weights) device_free(m->device, m->weights, m->bytes);
    params_free(&m->params);
    *m = (Loaded){0};
}
