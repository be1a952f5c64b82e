"""Inputs for the SQLite shell: SQL and dot commands on standard input, with seeds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

from refactorbench.observe.model import Check

NUMBERS = (
    "0", "1", "-1", "2", "7", "10", "-10", "127", "255", "65536", "2147483647", "-2147483648", "4294967296",
    "9007199254740993", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "0.0", "-0.0", "0.1",
    "0.5", "-0.5", "1.5", "2.5", "1e15", "1e16", "123456789.125", "1e-7", "1e308", "-1e308", "1e400", "3.14159265358979",
)  # fmt: skip
TEXTS = ("''", "'a'", "'abc'", "'ABC'", "'12'", "'12.5'", "'1e3'", "' 7 '", "'0x10'", "'-3x'", "'äöü'", "'%_\\'", "'a''b'")
BLOBS = ("x''", "x'00'", "x'616263'", "x'ff00ff'", "x'3132'")
NULLS = ("NULL",)
VALUES = NUMBERS + TEXTS + BLOBS + NULLS
BINARY = ("+", "-", "*", "/", "%", "||", "<", "<=", "=", "<>", "IS", "IS NOT", "&", "|", "<<", ">>", "AND", "OR", "LIKE", "GLOB")
UNARY = ("-", "+", "~", "NOT ")
ONE = (
    "abs", "length", "lower", "upper", "hex", "quote", "typeof", "unicode", "trim", "ltrim", "rtrim", "round", "sign",
    "soundex", "zeroblob", "octet_length", "likely", "char", "last_insert_rowid", "date", "time", "julianday", "unixepoch",
)  # fmt: skip
TYPES = ("INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "VARCHAR(3)", "DECIMAL(5,2)", "BOOLEAN")
MODES = ("list", "csv", "column", "line", "html", "insert t", "json", "markdown", "quote", "tabs", "table", "box", "ascii", "tcl")
TABLE = (
    "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL, d);\n"
    "INSERT INTO t VALUES(1,'one',1.5,NULL),(2,'two',-2.25,x'0102'),(3,'three',0.0,'x''y'),(4,NULL,1e20,7),(5,'a,b\"c',3,'line\nbreak');\n"
)


def shell(name: str, module: str, sql: str, args: tuple[str, ...] = (":memory:",)) -> Check:
    argv = tuple(a.encode() for a in ("sqlite3", *args))
    return Check(f"{module}/{name}", module, "process", "bin/sqlite3", argv, sql.encode())


def some(rng: random.Random, n: int) -> list[str]:
    return [rng.choice(VALUES) for _ in range(n)]


def expressions(rng: random.Random) -> str:
    lines = []
    for _ in range(6):
        a, b = some(rng, 2)
        lines.append(f"SELECT quote({a} {rng.choice(BINARY)} {b});")
    a, b, c = some(rng, 3)
    lines.append(f"SELECT quote(CASE WHEN {a} THEN {b} ELSE {c} END), {a} BETWEEN {b} AND {c}, {a} IN ({b},{c});")
    lines.append(f"SELECT quote({rng.choice(UNARY)}({a}));")
    return "\n".join(lines) + "\n"


def functions(rng: random.Random) -> str:
    lines = [f"SELECT quote({rng.choice(ONE)}({v}));" for v in some(rng, 6)]
    a, b, c = some(rng, 3)
    n, m = rng.randint(-4, 5), rng.randint(-4, 5)
    lines += [
        f"SELECT quote(substr({a},{n},{m})), quote(replace({a},{b},{c})), quote(instr({a},{b}));",
        f"SELECT quote(coalesce({a},{b})), quote(nullif({a},{b})), quote(max({a},{b},{c})), quote(min({a},{b},{c}));",
        f"SELECT printf('%d|%5.2f|%s|%x|%+e|%q', {a}, {b}, {c}, {a}, {b}, {c});",
    ]
    return "\n".join(lines) + "\n"


def casts(rng: random.Random) -> str:
    lines = [f"SELECT quote(CAST({v} AS {rng.choice(TYPES)}));" for v in some(rng, 6)]
    kind = rng.choice(TYPES)
    lines.append(f"CREATE TABLE k(x {kind});")
    lines += [f"INSERT INTO k VALUES({v});" for v in some(rng, 6)]
    lines.append("SELECT quote(x), typeof(x) FROM k ORDER BY rowid; SELECT quote(x) FROM k ORDER BY x, rowid;")
    return "\n".join(lines) + "\n"


def dates(rng: random.Random) -> str:
    day = f"{rng.choice((0, 1, 1582, 1900, 1969, 2000, 2024, 9999)):04d}-{rng.randint(1, 12):02d}-{rng.randint(1, 31):02d}"
    when = f"'{day} {rng.randint(0, 24):02d}:{rng.randint(0, 60):02d}:{rng.randint(0, 59):02d}{rng.choice(('', '.5', 'Z'))}'"
    mods = ("'+1 day'", "'-1 month'", "'start of month'", "'weekday 0'", "'+1.5 hours'", "'start of year'", "'utc'", "'subsec'")
    m = ", ".join(rng.sample(mods, rng.randint(1, 3)))
    return (
        f"SELECT date({when}), time({when}), datetime({when}, {m}), julianday({when}), unixepoch({when}, {m});\n"
        f"SELECT strftime('%Y %m %d %H %M %f %j %J %s %w %W %u %e %k %I %p', {when}, {m});\n"
        f"SELECT timediff({when}, '2000-02-29');\n"
    )


def selects(rng: random.Random) -> str:
    columns = ("a", "b", "c", "d")
    x, y = rng.sample(columns, 2)
    value = rng.choice(VALUES)
    join = rng.choice(("JOIN", "LEFT JOIN", "CROSS JOIN", "FULL JOIN", "NATURAL JOIN"))
    on = "" if join in ("CROSS JOIN", "NATURAL JOIN") else f" ON t.{x} {rng.choice(('=', '<', '>'))} u.{y}"
    aggregate = rng.choice(("count(*)", "sum(a)", "total(c)", "avg(a)", "group_concat(b,'-')", "min(c)", "max(b)"))
    return (
        TABLE
        + "CREATE TABLE u(a,b); INSERT INTO u SELECT a%3, b FROM t;\n"
        + f"SELECT {x}, quote({y}) FROM t WHERE {x} > {value} ORDER BY {y} {rng.choice(('ASC', 'DESC'))}, a LIMIT {rng.randint(0, 4)};\n"
        + f"SELECT quote(t.a), quote(u.b) FROM t {join} u{on} ORDER BY 1, 2;\n"
        + f"SELECT {x} IS NULL, {aggregate} FROM t GROUP BY 1 HAVING count(*) > {rng.randint(0, 2)} ORDER BY 1;\n"
        + f"SELECT a, {rng.choice(('row_number()', 'rank()', 'sum(a)', 'lag(a)'))} OVER (ORDER BY c, a) FROM t ORDER BY a;\n"
        + f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+{rng.randint(1, 3)} FROM n WHERE i<9) SELECT sum(i), max(i) FROM n;\n"
    )


def changes(rng: random.Random) -> str:
    value, other = some(rng, 2)
    clause = rng.choice(("OR IGNORE", "OR REPLACE", "OR ABORT", "OR FAIL", ""))
    return (
        TABLE
        + "CREATE UNIQUE INDEX tb ON t(b); CREATE TABLE log(x);\n"
        + "CREATE TRIGGER tr AFTER UPDATE ON t BEGIN INSERT INTO log VALUES(old.a||':'||quote(new.d)); END;\n"
        + f"INSERT {clause} INTO t(a,b) VALUES({rng.randint(1, 7)},{rng.choice(TEXTS)}) RETURNING a, quote(b);\n"
        + f"INSERT INTO t(a,b) VALUES({rng.randint(1, 7)},'two') ON CONFLICT(b) DO UPDATE SET d={value};\n"
        + f"UPDATE t SET d = {other} WHERE a % {rng.randint(1, 3)} = 0;\n"
        + f"BEGIN; SAVEPOINT s; DELETE FROM t WHERE a > {rng.randint(0, 5)}; {rng.choice(('ROLLBACK TO s;', 'RELEASE s;'))} COMMIT;\n"
        + "SELECT a, quote(b), quote(c), quote(d) FROM t ORDER BY a; SELECT x FROM log ORDER BY rowid; SELECT changes(), total_changes();\n"
    )


def modes(rng: random.Random) -> str:
    extra = rng.choice(("", ".headers on\n", ".nullvalue NIL\n", ".headers on\n.nullvalue -\n", ".separator ; |\n"))
    return TABLE + f".mode {rng.choice(MODES)}\n{extra}SELECT * FROM t WHERE a <= {rng.randint(0, 5)};\n"


def json(rng: random.Random) -> str:
    doc = rng.choice(("'{\"a\":[1,2.5,null,\"x\"],\"b\":{\"c\":true}}'", "'[1,[2,3],{}]'", "'{bad'", "'\"s\"'", "'{a:1,}'", "NULL", "'1e3'"))
    path = rng.choice(("'$'", "'$.a'", "'$.a[1]'", "'$.b.c'", "'$[#-1]'", "'$.z'", "'a'"))
    return (
        f"SELECT json({doc}); SELECT json_valid({doc}), json_type({doc},{path});\n"
        f"SELECT quote(json_extract({doc},{path})), quote({doc} -> {path}), quote({doc} ->> {path});\n"
        f"SELECT json_set({doc},{path},{rng.choice(VALUES)}); SELECT json_remove({doc},{path});\n"
        f"SELECT key, quote(value), type, path FROM json_each({doc});\n"
        f"SELECT json_array({rng.choice(NUMBERS)},{rng.choice(TEXTS)}), json_quote({rng.choice(NUMBERS)});\n"
    )


def errors(rng: random.Random) -> str:
    bad = rng.choice(
        ("SELEC 1;", "SELECT * FROM nope;", "SELECT nope FROM t;", "SELECT nope(1);", "INSERT INTO t VALUES(1);", "CREATE TABLE t(a);",
         "SELECT 1 FROM t GROUP BY 99;", "SELECT (1,2);", "DROP VIEW t;", "SELECT 'open;", "INSERT INTO t(a) VALUES(1);", "SELECT 1 +;",
         ".nope", ".mode nope", "PRAGMA foreign_keys=5; PRAGMA foreign_keys;", "SELECT abs(-9223372036854775808);", "COMMIT;")
    )  # fmt: skip
    bail = rng.choice(("", ".bail on\n"))
    return TABLE + f"{bail}SELECT {rng.randint(0, 10**6)};\n{bad}\nSELECT 'after';\n"


DRAWN: dict[str, tuple[int, Callable[[random.Random], str]]] = {
    "expressions": (90, expressions),
    "functions": (90, functions),
    "casts": (60, casts),
    "dates": (60, dates),
    "selects": (70, selects),
    "changes": (70, changes),
    "modes": (50, modes),
    "json": (60, json),
    "errors": (50, errors),
}


def files() -> Iterator[Check]:
    """Database files: what is written is observed byte for byte, apart from the version-valid-for counters it holds."""
    for size, vacuum, encoding in itertools.product((512, 1024, 4096), (0, 1), ("UTF-8", "UTF-16le")):
        sql = f"PRAGMA page_size={size}; PRAGMA auto_vacuum={vacuum}; PRAGMA encoding='{encoding}';\n{TABLE}CREATE INDEX i ON t(b);\n"
        yield shell(f"write-{size}-{vacuum}-{encoding}", "files", sql, ("new.db",))
    for args in (("-csv",), ("-json",), ("-header",), ("-line",), ("-cmd", ".mode box"), ("-version",), ("-nope",), ("-bail",), ("-batch",)):
        yield shell("args" + "".join(args).replace(" ", ""), "files", TABLE + "SELECT * FROM t;", (*args, ":memory:"))


def fixed(seed: int) -> Iterator[Check]:
    """Every recorded check: the tables, then the random draws of each module."""
    yield from files()
    seen: set[str] = set()
    for module, (count, make) in DRAWN.items():
        rng = random.Random(f"{seed}/{module}")
        n = 0
        while n < count:
            check = shell(f"draw-{n:03d}", module, make(rng))
            if check.input_digest() not in seen:
                seen.add(check.input_digest())
                n += 1
                yield check


def draw(rng: random.Random, n: int) -> Iterator[Check]:
    """n fresh checks from the same random generators, in the same proportions."""
    names = list(DRAWN)
    weights = [DRAWN[m][0] for m in names]
    for i in range(n):
        module = rng.choices(names, weights)[0]
        check = shell("x", module, DRAWN[module][1](rng))
        yield Check(f"fresh/{i:05d}", module, check.observer, check.program, check.argv, check.stdin)
