"""The Kafka of the tests: a real one.

    KAFKA_BOOTSTRAP_SERVERS, else Docker Compose, else brokers of our own (tests/support/brokers.py)

Where there is none to be had, tests are skipped; with CI=true they fail (needing.py).
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import brokers
from brokers import NoBroker, Node, brokers_answering
from fetch import fetched
from needing import lacking, program
from ports import free_ports

__all__ = ["Cluster", "NoBroker", "any_broker", "brokers_answering", "own_brokers", "shared_broker"]

COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"


class Cluster(brokers.Cluster):
    """Brokers of our own, each with a second listener, for TLS and SASL/PLAIN.

    There the user "crawler" (password "secret") may do anything, "stranger" (the same) nothing.
    """

    def __init__(self, nodes: int = 1, **settings: object) -> None:
        super().__init__(nodes, **settings)
        self._secured: dict[int, int] = {}

    @property
    def secured(self) -> str:
        """The first broker's address for TLS and SASL."""
        return f"127.0.0.1:{self._secured[1]}"

    @property
    def ca_file(self) -> Path:
        """The certificate of that listener, PEM."""
        assert self._folder is not None
        return self._folder / "cert.pem"

    def _properties(self, node: Node) -> dict[str, object]:
        keystore = self.ca_file.with_name("keystore.pem")
        if not keystore.exists():
            make_certificate(self.ca_file, keystore)
        port = self._secured[node.number] = free_ports(1)[0]
        usual = super()._properties(node)
        secured = f"SECURED://127.0.0.1:{port}"
        users = " ".join(f'user_{name}="secret"' for name in ("crawler", "stranger"))
        login = "org.apache.kafka.common.security.plain.PlainLoginModule"
        protocols = f"{usual['listener.security.protocol.map']},SECURED:SASL_SSL"
        return usual | {
            "listeners": f"{usual['listeners']},{secured}",
            "advertised.listeners": f"{usual['advertised.listeners']},{secured}",
            "listener.security.protocol.map": protocols,
            "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secured.plain.sasl.jaas.config": f"{login} required {users};",
            "listener.name.secured.ssl.keystore.type": "PEM",
            "listener.name.secured.ssl.keystore.location": keystore,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:crawler",
        }


def make_certificate(cert: Path, keystore: Path) -> None:
    """Make a certificate for 127.0.0.1, and the file of it and its key that Kafka takes."""
    key = cert.with_name("key.pem")
    command = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    keystore.write_text(key.read_text() + cert.read_text())


@contextlib.contextmanager
def composed() -> Iterator[str | None]:
    """Start the Kafka of docker-compose.yml and yield its address; None without a Docker engine."""
    docker = shutil.which("docker")
    if not docker or any(
        subprocess.run([docker, *asked], check=False, capture_output=True).returncode
        for asked in (["info"], ["compose", "version"])
    ):
        yield None
        return
    port = free_ports(1)[0]
    environment = {**os.environ, "DEDUP_KAFKA_PORT": str(port)}
    compose = [docker, "compose", "-f", str(COMPOSE), "-p", f"dedup-tests-{os.getpid()}"]
    try:
        up = [*compose, "up", "--wait", "--detach", "kafka"]
        done = fetched(up, env=environment)
        if done.returncode:
            raise NoBroker(f"`docker compose up kafka` failed: {done.stderr[-2000:]}")
        yield f"127.0.0.1:{port}"
    finally:
        down = [*compose, "down", "--volumes"]
        subprocess.run(down, check=False, capture_output=True, env=environment)


@contextlib.contextmanager
def any_broker() -> Iterator[str]:
    """Yield the address of a Kafka: the one that is set, else Docker's, else one of our own."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        if not brokers_answering(given):
            raise NoBroker(f"KAFKA_BOOTSTRAP_SERVERS is {given!r}, and no Kafka answers there")
        yield given
        return
    with composed() as address:
        if address is not None:
            yield address
            return
    with Cluster() as cluster:
        yield cluster.bootstrap


@contextlib.contextmanager
def own_brokers(nodes: int) -> Iterator[Cluster]:
    """Yield brokers of our own; without what they need, the test is skipped, in CI it fails."""
    try:
        made = Cluster(nodes)
    except NoBroker as error:
        lacking(f"a Kafka broker ({error})")
    with made:
        yield made


@contextlib.contextmanager
def shared_broker(folder: Path) -> Iterator[str]:
    """Yield the address of one Kafka for all processes of a run, which share this folder.

    The first that asks starts it. Each holds a shared lock on `users` while it needs the broker; the
    one that started it waits for the others before it ends it. `door` is held while it is started
    and ended.
    """
    import fcntl

    address = folder / "kafka.address"
    with (
        (folder / "kafka.door").open("w") as door,
        (folder / "kafka.users").open("w") as users,
        contextlib.ExitStack() as started,
    ):
        fcntl.flock(door, fcntl.LOCK_EX)
        mine = not address.exists()
        if mine:
            try:
                address.write_text(started.enter_context(any_broker()))
            except NoBroker as error:
                address.unlink(missing_ok=True)
                lacking(f"a Kafka broker ({error})")
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield address.read_text()
        while mine:
            fcntl.flock(users, fcntl.LOCK_EX)  # the others have ended
            fcntl.flock(users, fcntl.LOCK_UN)
            fcntl.flock(door, fcntl.LOCK_EX)  # and no other one begins
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                address.unlink()
                return
            fcntl.flock(door, fcntl.LOCK_UN)
