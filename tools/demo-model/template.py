"""Prints the chat template that is written down in lab/model_vocab.c (`template.py FILE`)."""
import re
import sys

source = open(sys.argv[1], encoding='utf-8').read()
body = source.split('static const char chat_template[] =')[1].split(';\n\n')[0]
body = re.sub(r'/\*.*?\*/', '', body, flags=re.S)
escapes = {'n': '\n', '"': '"', '\\': '\\', 't': '\t'}
sys.stdout.write(''.join(re.sub(r'\\(.)', lambda m: escapes[m.group(1)], s) for s in re.findall(r'"((?:[^"\\]|\\.)*)"', body)))
