#!/usr/bin/env python3
"""The oracle of the template engine: Python's own jinja2, set up as Hugging Face does.

    oracle.py check [PUBLISHED]    do the committed results still agree with jinja2? (exit status 1: no, 77: no jinja2)
    oracle.py update [PUBLISHED]   write them anew
    oracle.py render               a line of JSON {"t": template, "v": variables} in, {"out"} or {"error"} out

Committed in cases/: language.jsonl, one case a line with what jinja2 makes of it ("out", or "error": true), its first
line being the variables of all cases that have none of their own; conversations.json; digests.txt, what every template of
tests/data gives for every conversation, as a digest; and digests_published.txt, the same of a folder of published templates,
which is not in the repository. The C tests compare the engine with these files, so that `make test` needs no Python.
"""
import datetime
import functools
import json
import os
import sys

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
NOW = datetime.datetime.fromtimestamp(1700000000, datetime.timezone.utc).replace(tzinfo=None)

try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("SKIP python3 has no jinja2")
    sys.exit(77)


class Generation(jinja2.ext.Extension):
    """{% generation %}: passes its body through, in a call block as Hugging Face has it."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_pass")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(lineno)

    @jinja2.pass_eval_context
    def _pass(self, context, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


@functools.lru_cache(maxsize=4)
def compiled(template):
    return environment().from_string(template)


def render(template, variables):
    """The text, or None when jinja2 refuses, for whatever reason."""
    try:
        return compiled(template).render(**variables)
    except Exception as error:  # every refusal is one
        render.reason = f"{type(error).__name__}: {error}"
        return None


def result(case, shared):
    out = render(case["t"], json.loads(json.dumps(case.get("v", shared))))
    return {"error": True} if out is None else {"out": out}


def digest(text):
    """FNV-1a, 64 bits, and the length in bytes."""
    value = 0xCBF29CE484222325
    data = text.encode()
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x} {len(data)}"


def language():
    """The shared variables and the cases."""
    with open(os.path.join(here, "language.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file.read().split("\n") if line]
    return lines[0]["v"], lines[1:]


def write_language(shared, cases):
    with open(os.path.join(here, "language.jsonl"), "w", encoding="utf-8") as file:
        for case in [{"v": shared}] + cases:
            file.write(json.dumps(case, ensure_ascii=False) + "\n")


def conversations():
    """Each entry is variables; "long" repeats a pair of messages."""
    with open(os.path.join(here, "conversations.json"), encoding="utf-8") as file:
        for item in json.load(file):
            variables = json.loads(json.dumps(item["vars"]))
            if "long" in item:
                variables["messages"] += item["long"]["messages"] * item["long"]["times"]
            yield item["name"], variables


def digests(templates):
    for name in sorted(os.listdir(templates)):
        if not name.endswith(".jinja"):
            continue
        with open(os.path.join(templates, name), encoding="utf-8", newline="") as file:
            source = file.read()
        for conversation, variables in conversations():
            out = render(source, variables)
            yield f"{name} {conversation} {'refused' if out is None else digest(out)}"


def sets(published):
    """Folders of templates, each with the file of its digests."""
    own = os.path.join(os.path.dirname(os.path.dirname(here)), "data", "templates")
    return [(own, "digests.txt")] + ([(published, "digests_published.txt")] if published else [])


def check(published):
    bad = 0
    shared, cases = language()
    for number, case in enumerate(cases, 2):
        now = result(case, shared)
        if any(case.get(key) != value for key, value in now.items()):
            bad += 1
            print(f"language.jsonl:{number}: {case['t']!r}: jinja2 says {now}")
    for folder, name in sets(published):
        with open(os.path.join(here, name), encoding="utf-8") as file:
            known = file.read().splitlines()
        for line in sorted(set(known) ^ set(digests(folder))):
            bad += 1
            print(f"{name}: {line}")
    print(f"{bad} differ")
    return 1 if bad else 0


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else "check"
    published = sys.argv[2] if len(sys.argv) > 2 else None
    if command == "render":
        for line in sys.stdin:
            case = json.loads(line)
            out = render(case["t"], case.get("v", {}))
            print(json.dumps({"error": render.reason} if out is None else {"out": out}))
        return 0
    if command == "update":
        shared, cases = language()
        write_language(shared, [{k: c[k] for k in ("t", "v") if k in c} | result(c, shared) for c in cases])
        for folder, name in sets(published):
            with open(os.path.join(here, name), "w", encoding="utf-8") as file:
                file.writelines(line + "\n" for line in digests(folder))
        return 0
    return check(published)


sys.exit(main())
