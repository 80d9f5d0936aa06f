#include "support/templates.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "support/test.h"

struct each {
    void (*fn)(const char *name, const char *source, void *arg);
    void *arg;
    int dir;
    size_t count;
};

static void on_file(const char *name, unsigned char type, void *arg)
{
    struct each *each = arg;
    struct errinfo info;
    char *text;
    size_t len;

    (void)type;
    if (!str_ends(str_from(name), STR(".jinja")))
        return;
    assert_ok(file_read_all(file_sys_real(), each->dir, name, 1 << 20, &text, &len, &info));
    each->fn(name, text, each->arg);
    each->count++;
    mem_free(text);
}

static size_t each_of(const char *folder, struct each *each)
{
    const struct file_sys *fs = file_sys_real();
    struct errinfo info;

    each->count = 0;
    assert_ok(file_open_dir(fs, folder, false, &each->dir, &info));
    assert_int_equal(fs->ops->list(fs->ctx, each->dir, on_file, each), 0);
    file_close(fs, &each->dir);
    return each->count;
}

size_t templates_each(void (*fn)(const char *name, const char *source, void *arg), void *arg)
{
    struct each each = {.fn = fn, .arg = arg};
    const char *published = test_shared("templates");

    assert_int_equal(each_of("tests/data/templates", &each), TEMPLATES_OWN);
    return published != NULL ? each_of(published, &each) : 0;
}
