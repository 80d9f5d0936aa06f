"""wrapper.py: tests of examples/hearth.py, run by examples_test.sh with that folder in PYTHONPATH. `wrapper.py --layout` prints a C file
which compiles when its structs and numbers are those of hearth.h."""

import ctypes
import gc
import sys
import unittest

import hearth
from hearth import Entry, Kind, ObjectKind, Reason, Tier

STRUCTS = {
    "options": hearth._Options,
    "model": hearth._Model,
    "object": hearth._Object,
    "plan_info": hearth._PlanInfo,
    "store_hints": hearth._Hints,
    "session_ops": hearth._SessionOps,
    "stats": hearth._Stats,
}
ENUMS = {"KIND": Kind, "OBJECT": ObjectKind, "ENTRY": Entry, "REASON": Reason, "TIER": Tier}
CONSTANTS = {"KEY_BYTES": hearth.KEY_BYTES, "SHAPE_BYTES_MAX": hearth.SHAPE_BYTES_MAX, "MESSAGE_BYTES": hearth.MESSAGE_BYTES}


def print_layout() -> None:
    print("#include <hearth/hearth.h>")
    for name, struct in STRUCTS.items():
        print(f'_Static_assert(sizeof(struct hearth_{name}) == {ctypes.sizeof(struct)}, "size of {name}");')
        for field, *_ in struct._fields_:
            c_field = field.rstrip("_")
            place = getattr(struct, field).offset
            print(f'_Static_assert(offsetof(struct hearth_{name}, {c_field}) == {place}, "{name}.{field}");')
    for prefix, values in ENUMS.items():
        for value in values:
            c_name = "COUNT" if value is Tier.ALL else value.name
            print(f'_Static_assert((int)HEARTH_{prefix}_{c_name} == {value.value}, "{prefix}_{value.name}");')
    print(f'_Static_assert(HEARTH_REASON_COUNT == {len(Reason)}, "reasons");')
    for name, number in CONSTANTS.items():
        print(f'_Static_assert(HEARTH_{name} == {number}, "{name}");')


class Bytes:
    """An engine whose state of a token is one byte."""

    def __init__(self, fail=""):
        self.state = bytearray()
        self.fail = fail
        self.imports = []

    def _maybe(self, name):
        if self.fail == name:
            raise RuntimeError(name)

    def capacity(self, kind, begin, end):
        self._maybe("capacity")
        return end - begin if kind == ObjectKind.ROWS else 0

    def export_to(self, kind, begin, end, memory):
        self._maybe("export_to")
        if self.fail == "shape":
            return 1, b"x" * (hearth.SHAPE_BYTES_MAX + 1)
        memory[: end - begin] = self.state[begin:end]
        return end - begin, b"%d" % begin

    def import_objects(self, objects, data, boundary):
        self._maybe("import_objects")
        self.imports.append(boundary)
        if self.fail == "refuse":
            return False
        assert all(item.shape == b"%d" % item.begin for item in objects)
        self.state = bytearray(boundary)
        for item, view in zip(objects, data):
            end = min(item.end, boundary)
            self.state[item.begin : end] = view[: end - item.begin]
        return True


class Wrapper(unittest.TestCase):
    def setUp(self):
        self.lines = []
        self.cache = hearth.Cache(ram_bytes=8 << 20, block_tokens=16, log=self.lines.append)
        self.addCleanup(self.cache.close)
        self.space = self.cache.space(hearth.Model(b"m" * hearth.KEY_BYTES, Kind.FULL))
        self.tokens = [i % 200 for i in range(100)]
        self.engine = Bytes()
        self.engine.state = bytearray(self.tokens)

    def test_round_trip(self):
        self.assertEqual(self.space.session_insert(self.engine, self.tokens), 100)
        self.assertEqual(self.space.session_insert(self.engine, self.tokens), 0)
        other = Bytes()
        self.assertEqual(self.space.session_lookup(other, self.tokens), 99)
        self.assertEqual(other.state, bytes(self.tokens[:99]))
        stats = self.cache.stats()
        self.assertEqual((stats["lookups"], stats["hits"], stats["tokens_reused"]), (1, 1, 99))
        self.assertEqual(stats["bytes_cap"], 8 << 20)
        self.assertEqual(len(stats["miss_by_reason"]), len(Reason))
        self.assertTrue(any("hit" in line for line in self.lines), self.lines)

    def test_rows_that_go_on_as_another_prompt(self):
        self.space.session_insert(self.engine, self.tokens)
        branch = self.tokens[:40] + [201] * 60
        self.engine.state = bytearray(branch)
        self.space.session_insert(self.engine, branch)
        other = Bytes()
        self.assertEqual(self.space.session_lookup(other, branch), 99)
        self.assertEqual(other.state, bytes(branch[:99]))

    def test_calls_below_the_session(self):
        with self.space.store(self.tokens, entry=Entry.USER) as store:
            for begin, end in store.missing():
                memory = store.reserve(ObjectKind.ROWS, begin, end, end - begin + 7)
                memory[: end - begin] = bytes(self.tokens[begin:end])
                store.commit(end - begin, b"shape")
                with self.assertRaises(ValueError):
                    memory[0]
        with self.space.lookup(self.tokens[:50] + [7] * 10) as plan:
            self.assertEqual((plan.boundary, plan.matched, plan.first_difference), (50, 50, 50))
            self.assertEqual((plan.match, plan.reason), ("lcp", Reason.DIVERGED))
            self.assertEqual([item.shape for item in plan.objects], [b"shape"] * len(plan.objects))
            plan.prefetch()
            views = [plan.fetch(i) for i in range(len(plan.objects))]
            self.assertTrue(all(view.readonly for view in views))
            self.assertEqual(b"".join(views)[:50], bytes(self.tokens[:50]))
            plan.lower(20)
            self.assertEqual(plan.boundary, 20)
            plan.accept()
        with self.assertRaises(ValueError):
            views[0][0]
        with self.assertRaises(ValueError):
            plan.boundary

    def test_damage_shortens(self):
        self.space.session_insert(self.engine, self.tokens)
        with self.space.lookup(self.tokens) as plan:
            before = plan.boundary
            plan.shorten(len(plan.objects) - 1, Reason.UNVERIFIED)
            self.assertLess(plan.boundary, before)
            self.assertEqual(plan.reason, Reason.UNVERIFIED)

    def test_a_refused_import_is_a_cold_start(self):
        self.space.session_insert(self.engine, self.tokens)
        other = Bytes(fail="refuse")
        self.assertEqual(self.space.session_lookup(other, self.tokens), 0)
        self.assertEqual(other.imports, sorted(other.imports, reverse=True))

    def test_exceptions_come_out_of_the_call(self):
        for name in ("capacity", "export_to"):
            self.engine.fail = name
            with self.assertRaisesRegex(RuntimeError, name):
                self.space.session_insert(self.engine, self.tokens)
        self.engine.fail = "shape"
        with self.assertRaisesRegex(ValueError, "shape"):
            self.space.session_insert(self.engine, self.tokens)
        self.engine.fail = ""
        self.space.session_insert(self.engine, self.tokens)
        self.engine.fail = "import_objects"
        with self.assertRaisesRegex(RuntimeError, "import_objects"):
            self.space.session_lookup(self.engine, self.tokens)

    def test_arrays_of_tokens_are_taken_as_they_are(self):
        array = (ctypes.c_int32 * 100)(*self.tokens)
        self.assertIs(hearth._tokens(array), array)
        self.assertEqual(self.space.session_insert(self.engine, array), 100)

    def test_tenants_and_models_share_nothing(self):
        self.space.session_insert(self.engine, self.tokens)
        for model, tenant in (("m", "other"), ("n", "")):
            space = self.cache.space(hearth.Model(model.encode() * hearth.KEY_BYTES, Kind.FULL), tenant)
            self.assertEqual(space.session_lookup(Bytes(), self.tokens), 0)

    def test_clear_and_pin(self):
        self.space.session_insert(self.engine, self.tokens)
        self.assertGreaterEqual(self.space.pin(self.tokens), 96)
        self.space.pin(self.tokens, False)
        self.assertGreater(self.cache.clear(self.space), 0)
        self.assertEqual(self.cache.stats()["objects"], 0)

    def test_errors_have_words(self):
        with self.assertRaisesRegex(hearth.HearthError, "policy"):
            hearth.Cache(ram_bytes=1 << 20, policy="none such")
        with self.assertRaises(hearth.HearthError):
            self.space.lookup([])
        with self.assertRaises(ValueError):
            hearth.Cache(ram_bytes=1 << 20, key=b"short")
        with self.assertRaises(ValueError):
            self.cache.space(hearth.Model(b"short", Kind.FULL))

    def test_closing_the_cache_closes_what_is_open(self):
        self.space.session_insert(self.engine, self.tokens)
        plan, store = self.space.lookup(self.tokens), self.space.store([9] * 100)
        store.reserve(ObjectKind.ROWS, 0, 16, 16)
        self.cache.close()
        for closed in (lambda: plan.boundary, lambda: store.wants_snapshot(1), lambda: self.space.lookup([1])):
            with self.assertRaisesRegex(ValueError, "closed"):
                closed()
        self.cache.close()

    def test_what_nobody_refers_to_is_closed(self):
        self.space.session_insert(self.engine, self.tokens)
        self.space.lookup(self.tokens)
        self.space.store(self.tokens)
        gc.collect()
        self.assertGreater(self.cache.clear(), 0)
        self.assertEqual(self.cache.stats()["objects"], 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--layout"]:
        print_layout()
    else:
        unittest.main()
