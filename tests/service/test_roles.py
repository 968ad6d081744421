"""Tokens with roles: who may do what, rotated while the service serves, and what is noted of it."""

import json
import os
import signal
import sys

import pytest
import redis
from certificates import Authority
from commands import ONCE, TOKEN, insert, probe, reserve
from crawling import wait_for
from redis.exceptions import NoPermissionError
from services import Serving

import dedup
from dedup.model.errors import UsageError
from dedup.service.core.access import Tokens

CRAWL, READ, ADMIN = (f"{role}-token-of-this-test" for role in ("crawl", "read", "admin"))
NEXT = "the-next-token-of-the-crawl-role"
ITEM = {"items": [{"key": "k", "token": "t"}]}
PAGE = {"recipe": "words-0-9", "pages": []}


def written(path, *lines: str, mode: int = 0o600):
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(mode)
    return path


@pytest.fixture
def tokens(tmp_path):
    return written(
        tmp_path / "tokens",
        "# who may what",
        "",
        f"crawl {CRAWL}",
        f"read {READ}",
        f"admin {ADMIN}",
    )


def of(serving, token):
    return serving.client(password=token, decode_responses=True, **ONCE)


def no_permission(client, *command) -> str:
    """What the service says where it refuses a command for its client's role; "" elsewhere."""
    try:
        client.execute_command(*command)
    except NoPermissionError as error:
        return str(error)
    except redis.ResponseError:
        pass
    return ""


COMMANDS = [
    ("DEDUP.RESERVE d k", "crawl admin"),
    ("DEDUP.INSERT d k t", "crawl admin"),
    ("DEDUP.RELEASE d k t", "crawl admin"),
    ("DEDUP.PROBE d v", "crawl read admin"),
    ("DEDUP.MPROBE d", "crawl read admin"),
    ("DEDUP.INFO", "crawl read admin"),
    ("PING", "crawl read admin"),
    ("DEDUP.FORGET d k", "admin"),
    ("DEDUP.DROP d", "admin"),
]
REQUESTS = [
    ("POST", "/v1/judge", {"url": "http://a/", "html": "x"}, "crawl admin"),
    ("POST", "/v1/insert", ITEM, "crawl admin"),
    ("POST", "/v1/release", ITEM, "crawl admin"),
    ("POST", "/v1/forget", {"keys": ["k"]}, "admin"),
    ("GET", "/v1/export?ns=d", None, "admin"),
    ("GET", "/v1/documents?ns=d&key=k", None, "read admin"),
    ("GET", "/metrics", None, "read admin"),
]


def test_each_role_may_do_its_own_and_no_more(tmp_path, tokens, ask):
    """Over both ports, in a transaction and beside other commands; the error names the role."""
    with Serving(tmp_path / "store", "--tokens", tokens) as serving:
        for role, token in (("crawl", CRAWL), ("read", READ), ("admin", ADMIN)):
            client = of(serving, token)
            for command, roles in COMMANDS:
                refused = no_permission(client, *command.split())
                assert bool(refused) == (role not in roles.split()), (role, command, refused)
                assert not refused or f"role {roles.split()[0]}" in refused
            for method, path, body, roles in REQUESTS:
                given = None if body is None else body | {"ns": "d"}
                headers = {"Authorization": f"Bearer {token}"}
                headers |= {} if body is None else {"Content-Type": "application/json"}
                status, _, answer = ask(serving, method, path, given, headers)
                assert (status == 403) == (role not in roles.split()), (role, path, status, answer)
                if status == 403:
                    assert answer["error"]["code"] == "NOPERM"
        assert ask(serving, "GET", "/metrics")[0] == 401
        with pytest.raises(redis.RedisError), of(serving, "no-token-of-this-service") as stranger:
            stranger.ping()
        with of(serving, CRAWL) as client:
            for command in ("MULTI", "DEDUP.FORGET d k", "DEDUP.RESERVE d k"):
                assert bool(no_permission(client, *command.split())) == ("FORGET" in command)
            with pytest.raises(redis.exceptions.ExecAbortError):
                client.execute_command("EXEC")
            insert(client, "d", "k")
            assert probe(client, "d", 0x0123456789ABCDEF)
        with of(serving, READ) as client:
            two = client.pipeline(transaction=False)
            for key in ("a", "b"):  # inserts of one read are carried out together
                two.execute_command("DEDUP.INSERT", "d", key, "t" * 32)
            assert all(type(e) is NoPermissionError for e in two.execute(raise_on_error=False))
    assert not any(token in line for line in serving.log for token in (CRAWL, READ, ADMIN))


def test_the_token_of_the_environment_has_every_role(tmp_path, tokens):
    """DEDUP_TOKEN is as before, also beside a file."""
    with Serving(tmp_path / "store", "--tokens", tokens, token=TOKEN) as serving:
        with of(serving, TOKEN) as client:
            insert(client, "d", "k")
            assert client.execute_command("DEDUP.FORGET", "d", "k") == 1
        with of(serving, READ) as client:
            assert client.execute_command("DEDUP.INFO")


def test_tokens_are_rotated_while_it_serves(tmp_path, tokens):
    """After SIGHUP the old one ends, on open connections too; a file that is not right changes nothing."""
    with Serving(tmp_path / "store", "--tokens", tokens) as serving:
        old, admin = of(serving, CRAWL), of(serving, ADMIN)
        assert old.ping()
        assert admin.ping()

        def read_again(*lines: str) -> None:
            written(tokens, *lines)
            before = len(serving.log)
            serving.process.send_signal(signal.SIGHUP)
            wait_for(lambda: any("SIGHUP" in line for line in serving.log[before:]))

        read_again(f"crawl {CRAWL}", f"crawl {NEXT}", f"admin {ADMIN}")
        for client in (old, of(serving, NEXT)):
            assert reserve(client, "d", "k", "EXEMPT", "start")
        assert any("read again: file of tokens" in line for line in serving.log)
        read_again("crawl short")
        read_again("")
        assert of(serving, CRAWL).ping()
        assert any(line.count("tokens") and '"error"' in line for line in serving.log)
        read_again(f"crawl {NEXT}", f"crawl {ADMIN}")

        def ended() -> bool:
            try:
                old.execute_command("DEDUP.INFO")
            except (redis.RedisError, OSError):
                return True
            return False

        wait_for(ended)
        assert of(serving, NEXT).ping()
        wait_for(lambda: no_permission(admin, "DEDUP.DROP", "d"))
    assert not any("-token-of-this-test" in line or NEXT in line for line in serving.log)


@pytest.mark.parametrize(
    ("lines", "mode", "said"),
    [
        (("crawl",), 0o600, "line 1"),
        (("", f"owner {CRAWL}"), 0o600, "line 2"),
        (("read short",), 0o600, "16 bytes"),
        ((f"read {READ} more",), 0o600, "line 1"),
        (("# none",), 0o600, "no token"),
        ((f"read {READ}",), 0o644, "chmod"),
    ],
)
def test_a_file_that_is_not_right_is_refused(tmp_path, lines, mode, said):
    """By line and reason, never with the token; a file that others can read is none."""
    file = written(tmp_path / "tokens", *lines, mode=mode)
    with pytest.raises(UsageError, match=said) as raised:
        Tokens(None, file)
    assert READ not in str(raised.value)
    assert CRAWL not in str(raised.value)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no FIFOs")
def test_a_fifo_is_no_file_of_tokens(tmp_path, tokens):
    """It is refused at once, at the start and at SIGHUP, where it would have been waited for."""
    with Serving(tmp_path / "store", "--tokens", tokens) as serving:
        tokens.unlink()
        os.mkfifo(tokens, 0o600)
        with pytest.raises(UsageError, match="is not a regular file"):
            Tokens(None, tokens)
        serving.process.send_signal(signal.SIGHUP)
        said = "SIGHUP: cannot read the file of tokens, what is in use stays:"
        wait_for(lambda: any(said in line for line in serving.log))
        assert of(serving, CRAWL).ping()


def test_a_client_that_may_not_forget_goes_on(tmp_path, tokens):
    """The refusal is the caller's error: the service is not taken for one that is away."""
    with Serving(tmp_path / "store", "--tokens", tokens) as serving:
        where = f"redis://:{CRAWL}@127.0.0.1:{serving.port}"
        with dedup.open(where, namespace="d", timeout_seconds=60) as detector:
            with pytest.raises(UsageError, match="admin"):
                detector.forget("k")
            page = dedup.fingerprint_text("a few words that are enough for one page " * 9)
            assert detector.reserve(page, "http://a.example/").status == "unique"


def audits(serving) -> list[dict]:
    return [line for line in map(json.loads, filter(None, serving.log)) if "audit" in line]


def test_what_an_administrator_does_is_noted(tmp_path, tokens):
    """FORGET, DROP and exports have a line each: who, with which role and certificate, and what."""
    authority = Authority(tmp_path)
    cert, key = authority.sign("ops")
    tls = ["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", authority.file]
    with Serving(tmp_path / "store", "--tokens", tokens, *tls) as serving:
        client = redis.Redis(
            port=serving.port, password=ADMIN, ssl=True, ssl_ca_certs=str(authority.file),
            ssl_certfile=str(cert), ssl_keyfile=str(key), **ONCE,
        )  # fmt: skip
        insert(client, "d", "http://a/\n1")
        assert client.execute_command("DEDUP.FORGET", "d", "http://a/\n1") == 1
        assert client.execute_command("DEDUP.DROP", "d") == 1
        client.close()
    who = {
        "address": "127.0.0.1",
        "roles": "admin",
        "subject": "organizationName=crawl,commonName=ops",
    }
    assert [line["audit"] for line in audits(serving)] == [
        {"did": "FORGET", "namespace": "d", "key": "http://a/\n1", **who},
        {"did": "DROP", "namespace": "d", "key": None, **who},
    ]
    assert all("'http://a/\\n1'" in line["message"] for line in audits(serving)[:1])


def test_http_is_noted_too(tmp_path, tokens, ask):
    """A line for each document that is forgotten, and one for an export, however many answers it takes."""
    headers = {"Authorization": f"Bearer {ADMIN}"}
    with Serving(tmp_path / "store", "--tokens", tokens) as serving:
        with of(serving, ADMIN) as client:
            insert(client, "d", "k")
        for first in (0, 0, 1):
            assert ask(serving, "GET", f"/v1/export?ns=d&from={first}", headers=headers)[0] == 200
        body = {"ns": "d", "keys": ["k", "other"]}
        headers |= {"Content-Type": "application/json"}
        assert ask(serving, "POST", "/v1/forget", body, headers)[0] == 200
    done = [(line["audit"]["did"], line["audit"]["key"]) for line in audits(serving)]
    assert done == [("EXPORT", None), ("FORGET", "k")]
    assert {line["audit"]["address"] for line in audits(serving)} == {"127.0.0.1"}
