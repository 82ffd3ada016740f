"""Delta tables of many made-up files: a log with statistics as engines write them. The data files do not exist."""
import json
import random
import uuid
from pathlib import Path

COLUMNS = [("id", "long"), ("at", "timestamp"), ("user_id", "long"), ("kind", "string"), ("amount", "double"),
           ("price", "decimal(18,2)"), ("flag", "boolean"), ("name", "string"), ("payload", "string"), ("day", "date")]
ROWS = 90_000
START_MS = 1_767_225_600_000


def statistics(number, chance):
    low, day, hour = number * ROWS, f"2026-01-{1 + number % 28:02d}", number % 24
    return {
        "numRecords": ROWS,
        "minValues": {"id": low, "at": f"{day}T{hour:02d}:00:00.000Z", "user_id": chance.randrange(1000), "kind": "buy",
                      "amount": round(chance.random(), 6), "price": round(chance.random() * 10, 2), "name": "item-00001",
                      "payload": f"{chance.getrandbits(64):016x}", "day": day},
        "maxValues": {"id": low + ROWS - 1, "at": f"{day}T{hour:02d}:59:59.999Z", "user_id": 999_000 + chance.randrange(1000),
                      "kind": "view", "amount": round(900 + chance.random(), 6), "price": round(99_990 + chance.random() * 9, 2),
                      "name": "item-04999", "payload": f"{chance.getrandbits(64):016x}", "day": day},
        "nullCount": {name: number % 3 if name == "name" else 0 for name, _ in COLUMNS},
    }


class DeltaTable:
    """A log that grows by appends of made-up files."""

    def __init__(self, folder):
        self.folder, self.version, self.files, self.chance = Path(folder), 0, 0, random.Random(7)
        self.log = self.folder / "_delta_log"
        self.log.mkdir(parents=True, exist_ok=True)
        schema = {"type": "struct",
                  "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in COLUMNS]}
        self._write([
            {"commitInfo": {"timestamp": START_MS, "operation": "CREATE TABLE", "operationParameters": {}}},
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": {"id": self._uuid(), "format": {"provider": "parquet", "options": {}},
                          "schemaString": json.dumps(schema), "partitionColumns": [], "configuration": {},
                          "createdTime": START_MS}},
        ])

    def append(self, files):
        at = START_MS + self.version * 1000
        actions = [{"commitInfo": {"timestamp": at, "operation": "WRITE",
                                   "operationParameters": {"mode": "Append", "partitionBy": "[]"}}}]
        for number in range(self.files, self.files + files):
            actions.append({"add": {
                "path": f"part-{number:05d}-{self._uuid()}-c000.zstd.parquet", "partitionValues": {},
                "size": 4_200_000 + self.chance.randrange(100_000), "modificationTime": at, "dataChange": True,
                "stats": json.dumps(statistics(number, self.chance), separators=(",", ":"))}})
        self.files += files
        self._write(actions)

    def log_bytes(self):
        return sum(path.stat().st_size for path in self.log.iterdir())

    def _uuid(self):
        return str(uuid.UUID(int=self.chance.getrandbits(128)))

    def _write(self, actions):
        text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
        (self.log / f"{self.version:020d}.json").write_text(text)
        self.version += 1


def filled(folder, files, per_commit=1000):
    """A table of `files` files."""
    table = DeltaTable(folder)
    while table.files < files:
        table.append(min(per_commit, files - table.files))
    return table
