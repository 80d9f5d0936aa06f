/*
 * media_file.c: the path is opened one component at a time, each without following links. A client
 * learns the same whether a name does not exist, is a link, or is outside of the folder.
 */
#include "chat/media_file.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"

#define SCHEME "file://"

bool media_file_is_url(struct str url)
{
    return str_starts(url, STR(SCHEME));
}

/* The part of the path below the folder; false: it is not below. */
static bool cut_folder(const char *dir, struct str *path)
{
    size_t len = strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (path->len == 0 || path->ptr[0] != '/')
        return path->len > 0;
    if (path->len <= len || memcmp(path->ptr, dir, len) != 0 || (len > 1 && path->ptr[len] != '/'))
        return false;
    *path = str_skip(*path, len);
    return true;
}

/* Opens the next component; the last one is a regular file. */
static enum err open_below(int *at, struct str path)
{
    const struct file_sys *fs = file_sys_real();
    struct str name;

    while (path.len > 0 && path.ptr[0] == '/')
        path = str_skip(path, 1);
    while (str_next(&path, '/', &name)) {
        bool last = path.len == 0;
        char text[NAME_MAX + 1];
        int next;
        if (name.len == 0 || name.len > NAME_MAX || name.ptr[0] == '.')
            return ERR_NOT_FOUND;
        memcpy(text, name.ptr, name.len);
        text[name.len] = '\0';
        /* a pipe must not block */
        TRY(file_open_at(fs, *at, text,
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY), 0, &next,
                         NULL));
        file_close(fs, at);
        *at = next;
    }
    return ERR_OK;
}

static enum err read_open(int fd, size_t max, struct arena *arena, struct str *out,
                          struct errinfo *info)
{
    struct stat st;

    if (file_stat(file_sys_real(), fd, &st, NULL) != ERR_OK || !S_ISREG(st.st_mode))
        return ERR_NOT_FOUND;
    if ((uint64_t)st.st_size > max)
        return err_set(info, ERR_LIMIT, "has more than %zu MiB", max >> 20);
    char *bytes = arena_alloc(arena, (size_t)st.st_size + 1);
    if (bytes == NULL)
        return arena->err;
    *out = (struct str){bytes, (size_t)st.st_size};
    return file_read_at(file_sys_real(), fd, bytes, out->len, 0, NULL) == ERR_OK ? ERR_OK
                                                                                 : ERR_NOT_FOUND;
}

static enum err read_path(const char *dir, struct str path, size_t max, struct arena *arena,
                          struct str *out, struct errinfo *info)
{
    const struct file_sys *fs = file_sys_real();
    int fd = FILE_NO;

    if (!cut_folder(dir, &path))
        return ERR_NOT_FOUND;
    TRY(file_open_dir(fs, dir, false, &fd, info));
    enum err err = open_below(&fd, path);
    if (err == ERR_OK)
        err = read_open(fd, max, arena, out, info);
    file_close(fs, &fd);
    return err;
}

/* Slashes in a row are one, as everywhere. */
static struct str squeeze(struct buf *path)
{
    size_t n = 0;

    for (size_t i = 0; i < path->len; i++)
        if (path->data[i] != '/' || n == 0 || path->data[n - 1] != '/')
            path->data[n++] = path->data[i];
    buf_truncate(path, n);
    return buf_text(path);
}

enum err media_file_read(const char *dir, struct str url, size_t max, struct arena *arena,
                         struct str *out, struct errinfo *info)
{
    struct str escaped = str_skip(url, strlen(SCHEME));
    struct buf path;

    if (dir == NULL)
        return err_set(info, ERR_UNSUPPORTED,
                       "is a file:// URL: files are read only where the server was started with "
                       "--media-path DIR");
    buf_init(&path, PATH_MAX - 1);
    enum err err = buf_append_unescaped(&path, escaped, false) == ERR_OK
                       ? read_path(dir, squeeze(&path), max, arena, out, info)
                       : ERR_NOT_FOUND;
    buf_fini(&path);
    if (err == ERR_OK || err == ERR_LIMIT || (arena->err != ERR_OK && err == arena->err))
        return err;
    return err_set(info, ERR_INVALID,
                   "is not a file below the folder of --media-path (links are not followed)");
}
