"""`dedup find-all` and `dedup find-clusters`: which lines are read, and what comes out."""

import json
import subprocess
import sys

import pytest
from command_line import LARGEST, call
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples


def test_find_all_lists_pairs():
    """Pairs a < b, sorted, each an array a line; a value that occurs twice pairs with itself; with --hex 16 digits."""
    result = call("find-all", data="1000\n0\n\n3\n  1000 \r\n")
    assert result.exit_code == 0
    assert result.stdout == "[0, 3]\n[1000, 1000]\n"
    result = call("find-all", "--hex", data="FFFFFFFFFFFFFFFF\n1\n0\n")
    assert result.stdout == '["0000000000000000", "0000000000000001"]\n'


@given(
    st.lists(st.integers(-(2**63), LARGEST), min_size=1, max_size=30),
    st.sampled_from(["", "\n", "\n\n"]),
)
@settings(max_examples=examples(100))
def test_signed_numbers_are_those_with_the_same_bits(values, end):
    """A database's or Java's signed integers, also among unsigned ones; the output has no signs."""
    signed = call("find-all", data="\n".join(map(str, values)) + end)
    plain = call("find-all", data="\n".join(str(value % 2**64) for value in values))
    assert (signed.exit_code, signed.stdout) == (0, plain.stdout)


@pytest.mark.parametrize("more", [(), ("--hex",)])
def test_hex_digits_may_begin_with_0x(more):
    """With --hex and without it, as whole columns or short."""
    digits = ["0x00000000000000ff", "0xfe", "0X0000000000000f00"]
    found = call("find-clusters", *more, data="\n".join(digits))
    columns = call("find-clusters", *more, data="".join(f"{int(d, 16):#018x}\n" for d in digits))
    members = '"00000000000000fe", "00000000000000ff"' if more else "254, 255"
    assert found.stdout == columns.stdout == f"[{members}]\n"


@pytest.mark.parametrize("command", ["find-all", "find-clusters"])
@pytest.mark.parametrize("data", ["", "\n\n", "5\n", "5"])
def test_nothing_in_nothing_out(command, data):
    """No fingerprint, or one, gives no line and no error."""
    result = call(command, data=data)
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("abc", "give --hex for hex digits"),
        (str(-(2**63) - 1), "correct or remove it"),
        ("0x", "correct or remove it"),
        ("+1", "correct or remove it"),
        ("18446744073709551616", "correct or remove it"),
        ("9" * 5000, "correct or remove it"),
        ("\u0663", "correct or remove it"),
    ],
)
def test_a_bad_line_is_named(text, advice):
    """What is no decimal number up to 2**64-1 is an error with the number and text of the line."""
    data = "7\n" * 14 + f"\n{LARGEST}\n{text}\nbad too\n"
    result = call("find-all", data=data)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"dedup: stdin: line 17: {text[:40]!r} is not a decimal number 0 to 2**64-1, or from -2**63; {advice}\n"
    )


@pytest.mark.parametrize("text", ["0123456789abcdef0", "0x", "0x0123456789abcdef0", "xyz", "-1"])
def test_a_bad_hex_line_is_named(text):
    """With --hex more than 64 bits, a sign or other letters are errors."""
    result = call("find-all", "--hex", data=f"0123456789abcdef\n{text}\n")
    assert result.exit_code == 1
    assert f"line 2: {text!r} is not 1 to 16 hex digits; " in result.stderr


@pytest.mark.parametrize("as_hex", [False, True])
def test_a_bad_line_far_down_is_named(tmp_path, as_hex):
    """The line number holds across the chunks in which a long file is read."""
    file = tmp_path / "values"
    file.write_text("".join(f"{i:016x}\n" if as_hex else f"{i}\n" for i in range(250_000)) + "x\n")
    result = call("find-all", "--input", file, *["--hex"] * as_hex)
    assert result.stderr.startswith(f"dedup: {file}: line 250001: 'x' is not ")


@pytest.mark.parametrize("byte", ["0", " "])
def test_a_line_without_end_is_refused(byte):
    """Megabytes without a newline are an error, not a number and not a blank line."""
    result = call("find-all", data="1\n" + byte * 3_000_000)
    assert result.exit_code == 1
    assert result.stderr == "dedup: stdin: line 2 is too long; give one fingerprint a line\n"


@given(
    st.lists(st.integers(0, LARGEST) | st.sampled_from([0, LARGEST]), max_size=30), st.booleans()
)
@settings(deadline=None, max_examples=examples(60))
def test_every_number_is_read_as_it_is(values, as_hex):
    """Clusters at distance 0 of each number given twice are those numbers, fast path or slow."""
    lines = [f"{v:016x}" if as_hex else str(v) for v in values]
    options = ["--distance", 0, *["--hex"] * as_hex]
    plain = call("find-all", *options, data="".join(f"{t}\n" for t in lines * 2))
    spaced = call("find-all", *options, data="\r\n".join(f" {t}\t" for t in lines * 2))
    seen = [
        [int(n, 16) for n in json.loads(x)] if as_hex else json.loads(x)
        for x in plain.stdout.splitlines()
    ]
    assert seen == [[v, v] for v in sorted(set(values))]
    assert spaced.stdout == plain.stdout


def test_find_with_files(tmp_path):
    """--input and --output name files; a missing one is an error, and leaves the output alone."""
    (tmp_path / "in").write_text("1\n2\n")
    result = call("find-all", "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "out").read_text() == "[1, 2]\n"
    result = call("find-all", "--input", tmp_path / "none", "--output", tmp_path / "out")
    assert result.exit_code == 1
    assert f"{tmp_path / 'none'}: No such file" in result.stderr
    assert (tmp_path / "out").read_text() == "[1, 2]\n"


@pytest.mark.parametrize(
    ("options", "code", "found"),
    [
        ((), 0, "[0, 7]\n[7, 15]\n"),  # k is 3, the paper's, where none is given
        (("--distance", 4, "--blocks", 64), 0, "[0, 7]\n[0, 15]\n[7, 15]\n"),
        (("--blocks", 3), 2, ""),
        (("--blocks", 65), 2, ""),
        (("--distance", 6, "--blocks", 6), 2, ""),
        (("--distance", 16), 2, ""),
        (("--distance", -1), 2, ""),
    ],
)
def test_blocks_and_distance_are_checked(options, code, found):
    """--blocks is more than the distance and up to 64, the distance 0 to 15; else usage."""
    result = call("find-all", *options, data="0\n7\n15\n")
    assert (result.exit_code, result.stdout) == (code, found)


def test_a_closed_pipe_is_quiet():
    """`dedup find-all | head -1` ends with 0 and without a word on stderr, also under pipefail."""
    data = "\n".join(str(i) for i in range(3000)).encode()
    with subprocess.Popen(
        [sys.executable, "-m", "dedup", "find-all"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdin.write(data)
        process.stdin.close()
        assert process.stdout.readline() == b"[0, 1]\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=120) == 0
