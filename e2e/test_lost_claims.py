"""A cleaner that is kept waiting for longer than its claims last deletes nothing: another one may have removed the objects
since, and their paths may be those of live files."""

import json
import os
import socket
import subprocess
import threading
import time

from pyhoglake import HoglakeClient

from lake import Lake, client, ok
from readers import key, read
from server import BINARY
from test_restore_drill import SCHEMA, Catalog, append, bucket, duck, postgres, s3  # noqa: F401  (fixtures)


class Gate:
    """Stands before an object store, and lets nothing through until it is opened."""

    def __init__(self, endpoint: str):
        self.store = endpoint.rsplit(":", 1)
        self.reached, self.opened = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.opened.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket):
        with client, socket.create_connection((self.store[0], int(self.store[1]))) as store:
            back = threading.Thread(target=self.pass_on, args=(store, client), daemon=True)
            back.start()
            self.pass_on(client, store)
            back.join()

    def pass_on(self, source: socket.socket, sink: socket.socket):
        try:
            while received := source.recv(65536):
                self.reached.set()
                self.opened.wait()
                sink.sendall(received)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # either end may go first


def test_who_lost_its_claims_deletes_nothing(postgres, bucket, s3, duck):  # noqa: F811
    postgres.sql("create database lake", "postgres")
    filesystem = s3.filesystem()
    with (
        Gate(bucket.s3_endpoint) as gate,
        Catalog(postgres, bucket) as server,
        HoglakeClient(server.url, s3=s3) as hog,
        client(server.url) as api,
    ):
        lake, drill = Lake(api, "drill"), hog.create_catalog("drill", "s3://lake/drill")
        table = drill.create_namespace("ns").create_table("t", SCHEMA)
        for n in range(5):
            append(table, n)
        dead = {f.path: filesystem.open_input_stream(key(f.path)).read() for f in table.files()}
        assert ok(api.post(lake.url("maintenance", "compact"), params={"batch": 10}))["files_in"] == 5
        drill.set_retention(1)
        time.sleep(1.2)
        append(table, 300)
        assert drill.expire().data_files_queued == 5

        # One cleaner claims, and waits for its store.
        env = {name: value for name, value in os.environ.items() if not name.startswith("HOGLAKE_")} | server.store
        command = [BINARY, "clean", "drill", "--json", "--database-url", postgres.url]
        waiting = subprocess.Popen(
            list(map(str, command)), env=env | {"HOGLAKE_S3_ENDPOINT": gate.url}, stdout=subprocess.PIPE, text=True
        )
        assert gate.reached.wait(60)
        # Its claims end, another one takes them, and the paths are written and registered once more.
        postgres.sql("update hoglake.file_removal set claimed_until = now() - interval '1 second'")
        assert ok(api.post(lake.url("maintenance", "cleanup")))["removed"] == 5
        for path, content in dead.items():
            with filesystem.open_output_stream(key(path)) as stream:
                stream.write(content)
        again = [{"path": path, "record_count": 1, "file_size_bytes": len(content)} for path, content in dead.items()]
        lake.append(*again)

        gate.opened.set()
        told, _ = waiting.communicate(timeout=120)
        assert waiting.returncode == 0, told
        assert json.loads(told) == {"removed": 0, "missing": 0, "still_referenced": 0}
        rows = read(table, filesystem, duck)
        assert sorted(row["id"] for row in rows) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 300]
        lake.verify(deep="true")
