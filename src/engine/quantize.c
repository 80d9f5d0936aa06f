/*
 * quantize.c: libllama's quantization in a child, which reports through a pipe:
 *
 *      "P 12/ 291\n"   tensors done, and in all: taken from the library's log
 *      "E text\n"      the last error in that log
 */
#include "engine/quantize.h"

#include <errno.h>
#include <fcntl.h>
#include <llama.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "engine/backend.h"
#include "engine/gguf_file.h"

enum { PATH_BYTES = 4096, REASON_BYTES = 240, POLL_MS = 100, REPORTS_MAX = 4096 };

/* X(name, the library's number, bits per weight): numbers, because older releases lack some of the
 * names, and bits as measured on large models. */
#define QUANTIZE_TABLE(X)   \
    X("F32", 0, 32)         \
    X("F16", 1, 16)         \
    X("BF16", 32, 16)       \
    X("Q8_0", 7, 8.5)       \
    X("Q6_K", 18, 6.6)      \
    X("Q5_K_M", 17, 5.7)    \
    X("Q5_K_S", 16, 5.6)    \
    X("Q5_1", 9, 6.0)       \
    X("Q5_0", 8, 5.6)       \
    X("Q4_K_M", 15, 4.9)    \
    X("Q4_K_S", 14, 4.7)    \
    X("Q4_1", 3, 5.1)       \
    X("Q4_0", 2, 4.7)       \
    X("Q3_K_L", 13, 4.3)    \
    X("Q3_K_M", 12, 4.0)    \
    X("Q3_K_S", 11, 3.7)    \
    X("Q2_K", 10, 3.2)      \
    X("Q2_K_S", 21, 3.0)    \
    X("IQ4_NL", 25, 4.7)    \
    X("IQ4_XS", 30, 4.5)    \
    X("IQ3_M", 27, 3.8)     \
    X("IQ3_S", 26, 3.7)     \
    X("IQ3_XS", 22, 3.5)    \
    X("IQ3_XXS", 23, 3.3)   \
    X("IQ2_M", 29, 2.9)     \
    X("IQ2_S", 28, 2.7)     \
    X("IQ2_XS", 20, 2.6)    \
    X("IQ2_XXS", 19, 2.4)   \
    X("IQ1_M", 31, 2.2)     \
    X("IQ1_S", 24, 2.0)     \
    X("TQ2_0", 37, 2.3)     \
    X("TQ1_0", 36, 1.9)     \
    X("MXFP4_MOE", 38, 4.7) \
    X("Q3_K", 12, 4.0)      \
    X("Q4_K", 15, 4.9)      \
    X("Q5_K", 17, 5.7)

const char *const quantize_types[] = {
#define X(name, number, bits) name,
    QUANTIZE_TABLE(X)
#undef X
        NULL,
};

struct type {
    int number;
    double bits;
};

static const struct type types[] = {
#define X(name, number, bits) {number, bits},
    QUANTIZE_TABLE(X)
#undef X
};

const char *quantize_type_name(uint64_t number)
{
    for (size_t i = 0; quantize_types[i] != NULL; i++)
        if ((uint64_t)types[i].number == number)
            return quantize_types[i];
    return "unknown";
}

struct work {
    const struct quantize_options *options;
    const struct type *type;
    char part[PATH_BYTES]; /* temporary name of the output */
    int dir;               /* the folder of it */
    pid_t child;
    int reports; /* the reading end of the pipe */
    char reason[REASON_BYTES];
    float done;
};

/* ---- checks ---- */

static enum err find_type(const char *name, const struct type **type, struct errinfo *info)
{
    struct buf names;

    for (size_t i = 0; quantize_types[i] != NULL; i++) {
        *type = &types[i];
        if (str_eq_nocase(str_from(name), str_from(quantize_types[i])))
            return ERR_OK;
    }
    buf_init(&names, 1024);
    for (size_t i = 0; quantize_types[i] != NULL; i++)
        buf_appendf(&names, "%s%s", i > 0 ? ", " : "", quantize_types[i]);
    err_set(info, ERR_INVALID, "unknown type \"%s\"; expected one of %s", name, buf_str(&names));
    buf_fini(&names);
    return ERR_INVALID;
}

/* Also through a link, which rename would replace by a file. */
static enum err check_output(const struct quantize_options *options, struct errinfo *info)
{
    struct stat st;

    if (lstat(options->out, &st) == 0)
        return err_set(info, ERR_INVALID, "%s exists already: choose another name, or remove it",
                       options->out);
    return errno == ENOENT ? ERR_OK : err_set_errno(info, errno, "%s", options->out);
}

/* A tenth more than the weights, for metadata and tensors that stay larger. */
static enum err check_space(struct work *work, const struct gguf_file *file, struct errinfo *info)
{
    uint64_t need = (uint64_t)((double)gguf_file_elements(file) * work->type->bits / 8 * 1.1), has;
    char needs[UNITS_TEXT_BYTES], free_text[UNITS_TEXT_BYTES];

    TRY(file_free_bytes(work->options->fs, work->dir, &has, info));
    if (need <= has)
        return ERR_OK;
    return err_set(info, ERR_NO_SPACE, "%s needs about %s, and the disk has %s", work->options->out,
                   units_format_size(need, needs), units_format_size(has, free_text));
}

static enum err open_folder(struct work *work, struct errinfo *info)
{
    const char *out = work->options->out, *slash = strrchr(out, '/');
    char folder[PATH_BYTES];

    snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - out) + 1 : 1,
             slash != NULL ? out : ".");
    int len = snprintf(work->part, sizeof(work->part), "%s.part-%ld", out, (long)getpid());
    if (len >= (int)sizeof(work->part))
        return err_set(info, ERR_LIMIT, "a path of %d bytes is too long", len);
    return file_open_dir(work->options->fs, folder, false, &work->dir, info);
}

static enum err check(struct work *work, struct errinfo *info)
{
    struct gguf_file *file;

    TRY(find_type(work->options->type, &work->type, info));
    TRY(gguf_file_open(&file, work->options->in, info));
    enum err err = check_output(work->options, info);
    if (err == ERR_OK)
        err = open_folder(work, info);
    if (err == ERR_OK)
        err = check_space(work, file, info);
    gguf_file_close(&file);
    return err;
}

/* ---- the child ---- */

static int report_fd; /* of the child */

/* "[  12/ 291] token_embd.weight ...": "P   12/ 291" */
static bool is_progress(const char *text)
{
    return text[0] == '[' && strspn(text + 1, " 0123456789/") == strcspn(text + 1, "]");
}

static void on_log(enum ggml_log_level level, const char *text, void *arg)
{
    char line[REASON_BYTES];

    (void)arg;
    if (is_progress(text))
        snprintf(line, sizeof(line), "P %.*s\n", (int)strcspn(text + 1, "]"), text + 1);
    else if (level == GGML_LOG_LEVEL_ERROR)
        snprintf(line, sizeof(line), "E %.*s\n", (int)strcspn(text, "\n"), text);
    else
        return;
    if (write(report_fd, line, strlen(line)) < 0) /* the parent is gone, and so are we soon */
        _exit(1);
}

static void run_child(const struct work *work)
{
    struct llama_model_quantize_params params = llama_model_quantize_default_params();

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    backend_init(work->options->backends);
    llama_log_set(on_log, NULL);
    params.nthread = (int32_t)work->options->threads;
    params.ftype = (enum llama_ftype)work->type->number;
    params.allow_requantize = work->options->requantize;
    _exit(llama_model_quantize(work->options->in, work->part, &params) == 0 ? 0 : 1);
}

static enum err start_child(struct work *work, struct errinfo *info)
{
    int fds[2];

    if (pipe(fds) != 0)
        return err_set_errno(info, errno, "pipe");
    work->child = fork();
    if (work->child == 0) {
        close(fds[0]);
        report_fd = fds[1];
        run_child(work);
    }
    int error = errno;
    close(fds[1]);
    work->reports = fds[0];
    return work->child > 0 ? ERR_OK : err_set_errno(info, error, "fork");
}

/* ---- the parent ---- */

static void read_report(struct work *work, struct str line)
{
    struct str rest = {line.ptr + 2, line.len - MIN(line.len, (size_t)2)}, first;
    uint64_t done, total;

    if (line.len < 2)
        return;
    if (line.ptr[0] == 'E')
        snprintf(work->reason, sizeof(work->reason), STR_FMT, STR_ARG(rest));
    else if (str_next(&rest, '/', &first) && str_to_u64(str_trim(first), &done) &&
             str_to_u64(str_trim(rest), &total) && done > 0 && done <= total)
        work->done = (float)(done - 1) / (float)total; /* it is named before it is worked on */
}

/* Whole lines of the buffer. */
static void read_reports(struct work *work, struct buf *text)
{
    size_t end;

    while ((end = str_find((struct str){text->data, text->len}, STR("\n"))) != SIZE_MAX) {
        read_report(work, (struct str){text->data, end});
        buf_consume(text, end + 1);
    }
}

/* Until the child closes the pipe. False: cancelled. */
static bool follow(struct work *work)
{
    struct pollfd pipe_fd = {.fd = work->reports, .events = POLLIN};
    char bytes[512];
    struct buf text;
    bool wanted = true;

    buf_init(&text, REPORTS_MAX);
    while (wanted) {
        ssize_t got =
            poll(&pipe_fd, 1, POLL_MS) > 0 ? read(work->reports, bytes, sizeof(bytes)) : 1;
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        if (pipe_fd.revents != 0 && got > 0 && buf_append(&text, bytes, (size_t)got) == ERR_OK)
            read_reports(work, &text);
        pipe_fd.revents = 0;
        wanted = work->options->on_progress == NULL ||
                 work->options->on_progress(work->done, work->options->arg);
    }
    buf_fini(&text);
    return wanted;
}

static enum err end_child(struct work *work, bool wanted, struct errinfo *info)
{
    int status = 0;

    if (!wanted)
        kill(work->child, SIGKILL);
    while (waitpid(work->child, &status, 0) < 0 && errno == EINTR)
        continue;
    close(work->reports);
    /* Ctrl-C reaches the child as well, and may end it before we have looked. */
    if (wanted && work->options->on_progress != NULL)
        wanted = work->options->on_progress(work->done, work->options->arg);
    if (!wanted)
        return err_set(info, ERR_CANCELLED, "cancelled; %s was not written", work->options->out);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return ERR_OK;
    if (WIFSIGNALED(status))
        return err_set(info, ERR_ENGINE, "the library was ended by a signal (%s)%s%s",
                       strsignal(WTERMSIG(status)), work->reason[0] != '\0' ? ": " : "",
                       work->reason);
    return err_set(info, ERR_ENGINE, "the library failed: %s",
                   work->reason[0] != '\0' ? work->reason : "it gave no reason");
}

/* The file must be on the disk before its name is: otherwise a power failure leaves an empty one. */
static enum err publish(const struct work *work, struct errinfo *info)
{
    const struct file_sys *fs = work->options->fs;
    int fd;

    TRY(file_open_at(fs, AT_FDCWD, work->part, O_RDONLY, 0, &fd, info));
    enum err err = file_sync(fs, fd, info);
    file_close(fs, &fd);
    TRY(err);
    TRY(check_output(work->options, info)); /* another process may have written it meanwhile */
    TRY(file_rename_at(fs, AT_FDCWD, work->part, AT_FDCWD, work->options->out, info));
    return file_sync(fs, work->dir, info);
}

enum err quantize_file(const struct quantize_options *options, struct errinfo *info)
{
    struct work *work = mem_alloc(sizeof(*work));

    work->options = options;
    work->dir = FILE_NO;
    enum err err = check(work, info);
    if (err == ERR_OK) {
        err = start_child(work, info);
        if (err == ERR_OK)
            err = end_child(work, follow(work), info);
        if (err == ERR_OK)
            err = publish(work, info);
        if (err != ERR_OK)
            unlink(work->part);
    }
    file_close(options->fs, &work->dir);
    mem_free(work);
    return err;
}
