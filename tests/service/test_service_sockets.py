"""Where a service listens beside plain TCP: a Unix socket, and TLS for who has a certificate."""

import signal
import socket
import ssl
import stat
import sys

import pytest
import redis
from certificates import Authority
from commands import ONCE, TOKEN, insert, probe
from crawling import wait_for
from detecting import page
from forking import completed
from needing import linux_only
from services import Serving, few_files

import dedup
from dedup.model.errors import ServiceUnavailable
from dedup.wire.client.services import addresses_of

PROGRAM = "from dedup.cli import main; main()"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no Unix sockets")


@pytest.fixture
def short(tmp_path, monkeypatch):
    """The folder of the sockets, by a name that is short enough for one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_unix_socket_is_for_its_owner_and_goes_with_the_service(short):
    """Mode 0600; redis-py and our client come by it; removed at the end."""
    place = short / "s"
    with Serving(short / "store", "--unix", place) as serving:
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        with redis.Redis(unix_socket_path="s", **ONCE) as client:
            insert(client, "d", "http://example.com/1", value=0)
        with redis.Redis.from_url(f"unix://{place}") as client:
            assert probe(client, "d", 0)
        for scheme in ("unix", "redis+unix"):
            where = f"{scheme}://{place}"
            with dedup.open(where, namespace="d", timeout_seconds=60) as detector:
                assert detector.reserve(page(), "http://example.com/2").of == "http://example.com/1"
        with serving.client() as client:
            assert client.ping()
    assert not place.exists()


def test_a_socket_that_a_kill_left_is_replaced_and_others_are_not(short):
    """Only a socket that no one answers at is taken away."""
    place = short / "s"
    with Serving(short / "store", "--unix", place) as serving:
        serving.kill()
        assert place.is_socket()
        serving.start()
        with redis.Redis(unix_socket_path="s") as client:
            assert client.ping()
        (short / "file").write_text("mine")
        for taken in (place, short / "file"):
            where = ["--listen", "127.0.0.1:0", "--http", "none", "--unix", taken]
            done = completed(PROGRAM, ["serve", "--path", short / "other", *where])
            assert done.returncode == 1
            assert str(taken) in done.stderr
            assert "Traceback" not in done.stderr
        with redis.Redis(unix_socket_path="s") as client:
            assert client.ping()
    assert (short / "file").read_text() == "mine"


def test_without_tcp_the_token_is_asked_for_all_the_same(short):
    """--listen none leaves the Unix socket alone; the token is in the URL as redis-py has it."""
    with Serving(short / "store", "--unix", "s", "--listen", "none", token=TOKEN) as serving:
        assert serving.port == 0
        with (
            redis.Redis(unix_socket_path="s", **ONCE) as client,
            pytest.raises(redis.AuthenticationError),
        ):
            client.execute_command("DEDUP.INFO")
        secret = TOKEN.replace(" ", "%20")
        for url in (f"unix://:{secret}@{short}/s", f"unix://{short}/s?password={secret}"):
            with redis.Redis.from_url(url) as client:
                assert client.ping()
            with dedup.open(url, namespace="d", timeout_seconds=60) as detector:
                assert detector.probe(page()) == []
            assert TOKEN not in str(addresses_of(url)[0])


def showing(url: str, authority: Authority) -> str:
    """Return the URL of a client that shows a certificate of an authority."""
    return url + "&ssl_certfile={}&ssl_keyfile={}".format(*authority.sign("spider"))


def comes_in(url: str) -> bool:
    with redis.Redis.from_url(url, **ONCE) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


def test_only_who_has_a_certificate_of_the_authority_comes_in(tmp_path):
    """Over both ports; our client has settings for its own, as redis-py spells them."""
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    cert, key = ours.sign("service")
    tls = ["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ours.file]
    with Serving(tmp_path / "store", *tls) as serving:
        where = f"rediss://127.0.0.1:{serving.port}?ssl_ca_certs={ours.file}"
        context = ssl.create_default_context(cafile=ours.file)
        for url in (where, showing(where, other)):
            assert not comes_in(url)
            with pytest.raises(ServiceUnavailable):
                dedup.open(url, namespace="d", timeout_seconds=2).probe(page())
        stranger = ssl.create_default_context(cafile=ours.file)
        stranger.load_cert_chain(*other.sign("scraper"))
        for each in (context, stranger):
            with pytest.raises(OSError):
                serving.get("/readyz", each)
        context.load_cert_chain(*ours.sign("scraper"))
        assert serving.get("/readyz", context)[0] == 200
        url = showing(where, ours)
        assert comes_in(url)
        with dedup.open(url, namespace="d", timeout_seconds=60) as detector:
            assert detector.probe(page()) == []


def test_a_removed_authority_is_not_trusted_after_sighup(tmp_path):
    """Who has a certificate of it came in before, and does not any more; who has one of the new one does."""
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(first.file.read_bytes())
    cert, key = first.sign("service")
    tls = ["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", trusted]

    with Serving(tmp_path / "store", *tls) as serving:
        where = f"rediss://127.0.0.1:{serving.port}?ssl_ca_certs={first.file}"
        urls = [showing(where, each) for each in (first, second)]
        assert [comes_in(url) for url in urls] == [True, False]
        trusted.write_bytes(second.file.read_bytes())
        serving.process.send_signal(signal.SIGHUP)
        wait_for(lambda: any("SIGHUP: read again: certificate" in line for line in serving.log))
        assert [comes_in(url) for url in urls] == [False, True]


def test_a_client_s_certificate_that_cannot_be_read_is_named(tmp_path):
    """As a fault of the settings' files, not of the network."""
    url = f"rediss://127.0.0.1:1?ssl_certfile={tmp_path}/no.pem"
    with pytest.raises((dedup.DedupError, OSError), match="no.pem"):
        dedup.open(url, namespace="d", timeout_seconds=1).probe(page())


@linux_only
def test_handshakes_end_in_time(tmp_path):
    """Who connects and does not shake hands is ended in time, also where that takes every file; clients are served."""
    authority = Authority(tmp_path)
    cert, key = authority.sign("service")
    limits = {"greeting_seconds": 3.0, "http_connections": 10}
    options = ["--tls-cert", cert, "--tls-key", key, "--max-namespaces", "16"]
    few = Serving(tmp_path / "store", *options, limits=limits, setup=few_files(256))
    with few as serving:
        context = ssl.create_default_context(cafile=authority.file)
        where = {"port": serving.port, "ssl": True, "ssl_ca_certs": str(authority.file)}
        for count in (40, 300):
            silent = [
                socket.create_connection(("127.0.0.1", port), timeout=120)
                for port in [serving.port, serving.http_port] * (count // 2)
            ]
            if count == 40:
                with redis.Redis(**where, **ONCE) as client:
                    assert client.ping()
                assert serving.get("/livez", context)[0] == 200
            wait_for(lambda: _gone(silent) == count)  # noqa: B023  (done before the next one)
            with redis.Redis(**where, **ONCE) as client:
                insert(client, f"n{count}", "http://example.com/1")
            assert serving.get("/livez", context)[0] == 200
            for each in silent:
                each.close()
    assert len([line for line in serving.log if '"error"' in line]) <= 4, serving.log


def _gone(sockets) -> int:
    """How many the service has closed."""
    count = 0
    for each in sockets:
        each.setblocking(False)
        try:
            count += each.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            pass
        except OSError:
            count += 1
    return count


def test_what_is_said_at_once_after_the_handshake_is_heard(tmp_path):
    """Bytes that come with the handshake's last ones are the first command's."""
    authority = Authority(tmp_path)
    cert, key = authority.sign("service")
    context = ssl.create_default_context(cafile=authority.file)
    with Serving(tmp_path / "store", "--tls-cert", cert, "--tls-key", key) as serving:
        for _ in range(50):
            with (
                serving.connect() as plain,
                context.wrap_socket(
                    plain, server_hostname="127.0.0.1", do_handshake_on_connect=False
                ) as tls,
            ):
                tls.do_handshake()
                tls.sendall(b"*1\r\n$4\r\nPING\r\n")
                assert tls.recv(100) == b"+PONG\r\n"
