"""Runs a real Apache Kafka: one broker in KRaft mode, from the jars that `./x setup` fetches."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from server import ROOT, free_port

JARS = ROOT / ".kafka"
READY_WITHIN_SECONDS = 60
JAVA = ("java", "-Xmx256m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*")
CLUSTER = "hoglake-e2e-cluster-1A"


@dataclass
class Broker:
    """One running broker. Its folder outlives `kill`, so that a test may start it again with its topics."""

    folder: pathlib.Path = field(default_factory=lambda: pathlib.Path(tempfile.mkdtemp(prefix="hoglake-kafka-")))
    settings: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    controller_port: int = field(default_factory=free_port)
    scram: tuple[str, str] | None = None
    tls: bool = False
    process: subprocess.Popen | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> pathlib.Path:
        return self.folder / "broker.log"

    @property
    def properties(self) -> pathlib.Path:
        return self.folder / "server.properties"

    @property
    def certificate(self) -> pathlib.Path:
        """Of a broker with `tls`: its own, and the authority that signed it."""
        return self.folder / "certificate.pem"

    @property
    def protocol(self) -> str:
        return ("SASL_" if self.scram else "") + ("SSL" if self.tls else "PLAINTEXT")

    def configuration(self) -> dict[str, str]:
        made = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"CLIENT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"CLIENT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": f"CLIENT:{self.protocol},CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "log.dirs": str(self.folder / "logs"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            # compaction as soon as a segment is closed
            "log.cleaner.backoff.ms": "200",
            "log.retention.check.interval.ms": "500",
        }
        if self.scram:
            user, password = self.scram
            login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
            made |= {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
                "listener.name.client.scram-sha-256.sasl.jaas.config": f'{login} username="{user}" password="{password}";',
            }
        if self.tls:
            made |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.folder / "keystore.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.certificate),
            }
        return made | self.settings

    def certify(self) -> None:
        key = self.folder / "key.pem"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        (self.folder / "keystore.pem").write_text(key.read_text() + self.certificate.read_text())

    def start(self) -> "Broker":
        if not self.properties.exists():
            if self.tls:
                self.certify()
            self.properties.write_text("".join(f"{k}={v}\n" for k, v in self.configuration().items()))
            command = [*JAVA, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self.properties)]
            if self.scram:
                user, password = self.scram
                command += ["--add-scram", f"SCRAM-SHA-256=[name={user},password={password}]"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stdout + done.stderr
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*JAVA, "kafka.Kafka", str(self.properties)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def client(self, **more) -> dict:
        """Settings of a client that may do everything."""
        made = {"bootstrap.servers": self.address, "reconnect.backoff.max.ms": 500, "log_level": 0}
        made |= {"security.protocol": self.protocol.lower()}
        if self.tls:
            made |= {"ssl.ca.location": str(self.certificate)}
        if self.scram:
            user, password = self.scram
            made |= {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": user,
                "sasl.password": password,
            }
        return made | more

    def admin(self) -> AdminClient:
        return AdminClient(self.client())

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        admin = self.admin()
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the broker ended with {self.process.returncode}:\n{self.tail()}")
            try:
                admin.list_topics(timeout=1)
                return
            except KafkaException:
                time.sleep(0.05)
        raise RuntimeError(f"the broker was not ready within {READY_WITHIN_SECONDS} s:\n{self.tail()}")

    def topic(self, name: str, partitions: int = 3, **settings: str) -> str:
        config = {key.replace("_", "."): str(value) for key, value in settings.items()}
        admin = self.admin()  # must outlive the answer
        (made,) = admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values()
        made.result(timeout=30)
        return name

    def kill(self) -> None:
        """Ends the broker without warning."""
        if self.process is not None:
            process, self.process = self.process, None
            process.kill()
            process.wait()

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.kill()
        if exc[0] is None:
            shutil.rmtree(self.folder)

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
