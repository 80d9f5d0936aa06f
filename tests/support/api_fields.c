/* api_fields.c: see the header. */
#include "support/api_fields.h"

#include <dirent.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "support/test.h"

enum { SOURCE_BYTES_MAX = 1 << 20 };

static void add(struct api_fields *fields, const char *name, size_t len)
{
    assert_true(len < API_FIELD_BYTES && fields->count < API_FIELDS_MAX);
    for (size_t i = 0; i < fields->count; i++)
        if (strlen(fields->names[i]) == len && memcmp(fields->names[i], name, len) == 0)
            return;
    memcpy(fields->names[fields->count++], name, len);
}

/* json_read_str(reader, "model", ...), json_list(body, "tools"), read_seconds(body, "older_s", ...) */
static void add_file(struct api_fields *fields, const regex_t *read, const char *path)
{
    char *text = mem_alloc(SOURCE_BYTES_MAX);
    FILE *file = fopen(path, "r");
    regmatch_t match[3];

    assert_non_null(file);
    text[fread(text, 1, SOURCE_BYTES_MAX - 1, file)] = '\0';
    fclose(file);
    for (const char *at = text; regexec(read, at, COUNT_OF(match), match, 0) == 0;
         at += match[0].rm_eo)
        add(fields, at + match[2].rm_so, (size_t)(match[2].rm_eo - match[2].rm_so));
    mem_free(text);
}

void api_fields_add(struct api_fields *fields, const char *folder)
{
    size_t before = fields->count;
    DIR *dir = opendir(folder);
    char path[512];
    regex_t read;

    assert_non_null(dir);
    assert_int_equal(
        regcomp(&read, "(read|need|list)[a-z_]*\\([^,;\"]*,[ \n]*\"([a-z_0-9]+)\"", REG_EXTENDED),
        0);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t len = strlen(entry->d_name);
        if (len < 3 || strcmp(entry->d_name + len - 2, ".c") != 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        add_file(fields, &read, path);
    }
    regfree(&read);
    closedir(dir);
    assert_true(fields->count > before);
}
