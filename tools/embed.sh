#!/bin/sh
# embed.sh: `tools/embed.sh NAME=FILE...` prints a C source that has the files in it, as src/serve/web_files.h declares them.
#
# The assembler takes the bytes from the files (.incbin), so that nothing large goes through the compiler. The tag of a file is the
# beginning of its SHA-256: it changes when the file does, and only then.
set -eu

type_of() { # NAME
    case $1 in
        *.html) echo 'text/html; charset=utf-8' ;;
        *.css) echo 'text/css; charset=utf-8' ;;
        *.js) echo 'text/javascript; charset=utf-8' ;;
        *.svg) echo 'image/svg+xml' ;;
        *) echo "embed: error: no type is known for $1" >&2; return 1 ;;
    esac
}

echo '/* Written by tools/embed.sh. */'
echo '#include "serve/web_files.h"'
number=0
for pair in "$@"; do
    file=${pair#*=}
    [ -r "$file" ] || { echo "embed: error: cannot read $file" >&2; exit 1; }
    cat <<EOC
__asm__(".pushsection .rodata\\n"
        "web_file_$number: .incbin \\"$file\\"\\n"
        "web_file_${number}_end: .byte 0\\n"
        ".popsection");
extern const char web_file_$number[], web_file_${number}_end[];
EOC
    number=$((number + 1))
done
echo 'const struct web_file web_files[] = {'
number=0
for pair in "$@"; do
    type=$(type_of "${pair%%=*}")
    tag=$(sha256sum "${pair#*=}" | cut -c1-16)
    printf '    {"%s", "%s", "\\"%s\\"", web_file_%d, web_file_%d_end},\n' "${pair%%=*}" "$type" "$tag" "$number" "$number"
    number=$((number + 1))
done
echo '    {0},'
echo '};'
