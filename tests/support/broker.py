"""The Kafka of the tests: a real one, on loopback.

    KAFKA_BOOTSTRAP_SERVERS, else brokers of our own

    with Cluster(nodes=3) as cluster:       brokers of our own, in KRaft mode, in a temporary folder
        cluster.bootstrap                   "127.0.0.1:40001,127.0.0.1:40002,..."
        cluster.kill(2)                     kill -9 of one
        cluster.start(2)                    and back, with what it has on disk

They are Java processes: the jars that broker_pom.xml names, in Maven's cache (~/.m2), which `make kafka` fetches
once; leftovers.py ends those of a run that was killed. Topics are not created by being used. Where there is no Kafka
to be had, tests are skipped; with CI=true they fail (needing.py).
"""

import asyncio
import atexit
import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from needing import lacking, program
from ports import free_ports

from dedup.core.files import replace_file
from dedup.model.errors import DedupError

__all__ = ["Cluster", "NoBroker", "any_broker", "find_java", "own_brokers", "shared_broker"]

POM = Path(__file__).parent / "broker_pom.xml"
RESOLVE = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
START_SECONDS = 240.0  # a slow machine with many other things to do
TRIES = 3  # a port that was free may be taken by the time the broker binds it


class NoBroker(DedupError):
    """There is no Kafka here. The message says which command fetches it."""


INSTALL = "run `make kafka`, which fetches it with Maven, or set KAFKA_BOOTSTRAP_SERVERS"


def cache_folder() -> Path:
    """Return the folder outside the repository where what was fetched is kept."""
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crawl-dedup"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _java_version(java: str) -> int:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def find_java() -> str:
    """Return the path of a Java >= 17. Raises NoBroker."""
    home = os.environ.get("JAVA_HOME")
    for java in (home and str(Path(home) / "bin" / "java"), shutil.which("java")):
        if java and _java_version(java) >= 17:
            return java
    raise NoBroker(
        "there is no Java >= 17 for a Kafka broker: `make preflight` says how to install it"
    )


def find_jars(java: str, *, install: bool = False) -> str:
    """Return the class path of Apache Kafka; with install, Maven fetches it, checksums verified. Raises NoBroker."""
    import fcntl

    kept = cache_folder() / f"kafka-{uuid.uuid5(uuid.NAMESPACE_OID, POM.read_text())}.classpath"
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs resolve one after the other
        if kept.exists() and all(Path(jar).exists() for jar in kept.read_text().split(":")):
            return kept.read_text()
        mvn = shutil.which("mvn")
        if not install or not mvn:
            raise NoBroker(f"Apache Kafka is not on this machine: {INSTALL}")
        environment = {**os.environ, "JAVA_HOME": str(Path(java).resolve().parent.parent)}
        new = cache_folder() / "resolving.classpath"
        resolve = [mvn, "-B", "-q", "--strict-checksums", "-f", str(POM), RESOLVE]
        resolve += ["-DincludeScope=runtime", f"-Dmdep.outputFile={new}"]
        done = subprocess.run(resolve, check=False, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise NoBroker(
                f"Maven could not fetch Apache Kafka: {done.stdout[-2000:]}\n"
                "check that it reaches Maven Central, or set KAFKA_BOOTSTRAP_SERVERS"
            )
        jars = new.read_text()
        new.unlink()
        replace_file(kept, memoryview(jars.encode()))
        return jars


class Node:
    """One broker process, and the folder it keeps its log in."""

    def __init__(self, folder: Path, number: int, port: int, controller_port: int) -> None:
        self.folder = folder
        self.number = number
        self.port = port
        self.controller_port = controller_port
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it writes to its standard output and error."""
        return self.folder / "broker.log"


class Cluster:
    """Brokers of our own in KRaft mode, each a controller too. A context manager.

    Each has a second listener, for TLS and SASL/PLAIN: there the user "crawler" (password "secret") may do anything,
    "stranger" (the same) nothing. settings go into every server.properties, over the defaults below.
    """

    def __init__(self, nodes: int = 1, **settings: object) -> None:
        self._count = nodes
        self._settings = {k.replace("_", "."): v for k, v in settings.items()}
        self._java = find_java()
        self._jars = find_jars(self._java)
        self._id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._id = "A" + self._id[1:]  # an option's value must not begin with a dash
        self.nodes: dict[int, Node] = {}
        self._folder: Path | None = None
        self._secured: dict[int, int] = {}  # the ports of the second listeners

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, as clients take them."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())

    @property
    def secured(self) -> str:
        """The first broker's address for TLS and SASL."""
        return f"127.0.0.1:{self._secured[1]}"

    @property
    def ca_file(self) -> Path:
        """The certificate of that listener, PEM."""
        assert self._folder is not None
        return self._folder / "cert.pem"

    def __enter__(self) -> Self:
        for left in reversed(range(TRIES)):
            self._folder = Path(tempfile.mkdtemp(prefix="dedup-kafka-"))
            atexit.register(self.close)
            try:
                self._make()
                self.wait()
                return self
            except NoBroker as error:
                self.close()
                if not left or "already in use" not in str(error):
                    raise
            except BaseException:
                self.close()
                raise
        raise AssertionError

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill every broker and remove its folder."""
        atexit.unregister(self.close)
        for number in list(self.nodes):
            self.kill(number)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self, number: int = 1) -> None:
        """Kill a broker with -9, if it runs."""
        process = self.nodes[number].process
        if process is not None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
            self.nodes[number].process = None

    def pause(self, number: int = 1) -> None:
        """Suspend a broker: its connections stay open and nothing answers."""
        process = self.nodes[number].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)

    def resume(self, number: int = 1) -> None:
        """Let a paused broker go on."""
        process = self.nodes[number].process
        assert process is not None
        process.send_signal(signal.SIGCONT)

    def start(self, number: int = 1, *, wait: bool = True) -> None:
        """Start a broker that was killed, on its old port with its old log."""
        self._run(self.nodes[number])
        if wait:
            self.wait()

    def mend(self) -> None:
        """Start every broker that was killed, and resume every one that was paused."""
        for node in self.nodes.values():
            if node.process is None:
                self._run(node)
            elif node.process.poll() is None:
                node.process.send_signal(signal.SIGCONT)
        self.wait()

    def wait(self) -> None:
        """Return when every broker that runs answers, and knows of as many as run."""
        until = time.monotonic() + START_SECONDS
        running = [node for node in self.nodes.values() if node.process is not None]
        waiting = list(running)
        while True:
            for node in running:
                if node.process is not None and node.process.poll() is not None:
                    raise NoBroker(f"Kafka ended at its start:\n{_tail(node.log)}")
            if brokers_answering(f"127.0.0.1:{waiting[0].port}") >= len(running):
                waiting.pop(0)
            if not waiting:
                return
            if time.monotonic() > until:
                raise NoBroker(
                    f"Kafka does not answer {START_SECONDS:.0f} seconds after its start:\n"
                    + _tail(waiting[0].log)
                )
            time.sleep(0.1)

    def _make(self) -> None:
        assert self._folder is not None
        ports = free_ports(2 * self._count)
        self.nodes = {
            n: Node(self._folder / str(n), n, ports[2 * n - 2], ports[2 * n - 1])
            for n in range(1, self._count + 1)
        }
        for node in self.nodes.values():
            node.folder.mkdir()
            properties = "".join(f"{k}={v}\n" for k, v in self._properties(node).items())
            (node.folder / "server.properties").write_text(properties)
        formatting = [threading.Thread(target=self._format, args=[n]) for n in self.nodes.values()]
        for thread in formatting:
            thread.start()
        for thread in formatting:
            thread.join()
        for node in self.nodes.values():
            self._run(node)

    def _properties(self, node: Node) -> dict[str, object]:
        voters = (f"{n.number}@127.0.0.1:{n.controller_port}" for n in self.nodes.values())
        replicas = min(3, self._count)
        plain = f"PLAINTEXT://127.0.0.1:{node.port}"
        keystore = self.ca_file.with_name("keystore.pem")
        if not keystore.exists():
            make_certificate(self.ca_file, keystore)
        port = self._secured[node.number] = free_ports(1)[0]
        secured = f"SECURED://127.0.0.1:{port}"
        users = " ".join(f'user_{name}="secret"' for name in ("crawler", "stranger"))
        login = "org.apache.kafka.common.security.plain.PlainLoginModule"
        return {
            "process.roles": "broker,controller",
            "node.id": node.number,
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{plain},CONTROLLER://127.0.0.1:{node.controller_port},{secured}",
            "advertised.listeners": f"{plain},{secured}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
            "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secured.plain.sasl.jaas.config": f"{login} required {users};",
            "listener.name.secured.ssl.keystore.type": "PEM",
            "listener.name.secured.ssl.keystore.location": keystore,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:crawler",
            "log.dirs": node.folder / "data",
            "auto.create.topics.enable": "false",
            "default.replication.factor": replicas,
            "min.insync.replicas": min(2, replicas),
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": min(2, replicas),
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "background.threads": 2,
            "num.recovery.threads.per.data.dir": 1,
            "log.cleaner.dedupe.buffer.size": 16777216,
            "log.cleaner.backoff.ms": 200,
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
        } | self._settings

    def _java_command(self, heap: str, main: str, *arguments: str) -> list[str]:
        return [
            self._java,
            "-Xms64m",
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            self._jars,
            main,
            *arguments,
        ]

    def _format(self, node: Node) -> None:
        properties = str(node.folder / "server.properties")
        command = self._java_command(
            "128m", "kafka.tools.StorageTool", "format", "-t", self._id, "-c", properties
        )
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            node.log.write_text(done.stdout + done.stderr)

    def _run(self, node: Node) -> None:
        properties = str(node.folder / "server.properties")
        with node.log.open("ab") as log:
            node.process = subprocess.Popen(
                self._java_command("384m", "kafka.Kafka", properties),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=node.folder,
            )


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-3000:] if path.exists() else ""


def brokers_answering(bootstrap: str) -> int:
    """Return how many brokers the cluster says it has; 0 while none answers."""
    from aiokafka.admin import AIOKafkaAdminClient

    async def ask() -> int:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=3000)
        try:
            await asyncio.wait_for(admin.start(), 5)
            return len((await asyncio.wait_for(admin.describe_cluster(), 5))["brokers"])
        except Exception:
            return 0
        finally:
            await admin.close()

    import logging

    logger = logging.getLogger("aiokafka")
    before, logger.disabled = logger.disabled, True  # it logs at length that no broker answers yet
    try:
        return asyncio.run(ask())
    finally:
        logger.disabled = before


def make_certificate(cert: Path, keystore: Path) -> None:
    """Make a certificate for 127.0.0.1, and the file of it and its key that Kafka takes."""
    key = cert.with_name("key.pem")
    command = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    keystore.write_text(key.read_text() + cert.read_text())


@contextlib.contextmanager
def any_broker() -> Iterator[str]:
    """Yield the address of a Kafka: the one that is set, else one of our own."""
    given = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if given:
        if not brokers_answering(given):
            raise NoBroker(f"KAFKA_BOOTSTRAP_SERVERS is {given!r}, and no Kafka answers there")
        yield given
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


if __name__ == "__main__":  # make kafka
    find_jars(find_java(), install=True)
