"""Random texts that are JSON, or nearly: the numbers, characters and mistakes that readers differ
about."""

from __future__ import annotations

from random import Random

_NAMES = ("a", "a", "b", "b", "c", "c", "é", "a b", "A", "", "x:y", '\\"a', "\\u0061", "\\u00e9")
_NUMBERS = (
    *("0", "-0", "1", "-7", "12", "127", "128", "-129", "255", "32768", "2147483648", "19000"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "1" + "0" * 40),
    *("1.0", "1.50", "-0.0", "0.1", "1e3", "1E+2", "1e400", "-1e400", "1e-400", "4.9e-324"),
    *("123456789.125", "12345678.9", "9007199254740993", "0.045", "0.055", "99.995", "1e22"),
    *("01", "1.", ".5", "+1", "-", "1e", "NaN", "-Infinity", "Infinity", "+INF", "0x1", "1_0"),
)
_TEXTS = (
    *(
        "",
        " ",
        "x",
        "é",
        "😀",
        "日本",
        "NaN",
        "Infinity",
        "true",
        "1",
        "1.255",
        "1,000.5",
        " 1",
        "1_0",
    ),
    *("2024-01-02", "2024-01-02T03:04:05.5Z", "2024-02-30", "19000", "aGk=", "aGk", "aGl=", "YQ=="),
    *("\\n", "\\u0000", "\\ud83d\\ude00", "\\ud83d", "\\ude00", "\\x", '\\"', "\\/", "\\u00e9"),
    *("{}", "[1]", "a:b", '\\":', "'", "\t", "\x7f", "\u2028", "//", "[[", "}"),
)
_SPACES = ("", "", "", " ", "\n", "\t ", "\r", "\u00a0", "\x0b")
_MARKS = "{}[],:\"\\ 0-e'/tn"


def draw_texts(random: Random, count: int) -> list[str]:
    """Return texts of objects and arrays; one in five has a mistake somewhere."""
    return [_draw_text(random) for _ in range(count)]


def _draw_text(random: Random) -> str:
    text = _draw_space(random) + _draw_value(random, 3, root=True) + _draw_space(random)
    if random.random() < 0.2:
        at = random.randrange(len(text) + 1)
        text = text[:at] + random.choice((*_MARKS, "")) + text[at + random.randrange(2) :]
    return text


def _draw_space(random: Random) -> str:
    return random.choice(_SPACES) if random.random() < 0.1 else ""


def _draw_value(random: Random, depth: int, *, root: bool = False) -> str:
    kind = random.random() * (0.45 if root and random.random() < 0.95 else 1)
    if depth and kind < 0.3:
        members = (_draw_member(random, depth - 1) for _ in range(random.choice((0, 1, 2, 3, 4))))
        return f"{{{','.join(members)}}}"
    if depth and kind < 0.45:
        count = random.choice((0, 1, 2, 3))
        return f"[{','.join(_draw_value(random, depth - 1) for _ in range(count))}]"
    if kind < 0.7:
        # Half of the numbers are such as most types take.
        return random.choice(_NUMBERS[:12] if random.random() < 0.5 else _NUMBERS)
    if kind < 0.92:
        return f'"{random.choice(_TEXTS)}"'
    return random.choice(("null", "true", "false", "nul", "'x'"))


def _draw_member(random: Random, depth: int) -> str:
    space = _draw_space(random)
    return f'{space}"{random.choice(_NAMES)}"{space}:{_draw_value(random, depth)}{space}'
