"""Leads Schemathesis to things that exist, most of the time, so that it gets past the 404s."""

import os

import schemathesis

SEEDED = {
    "catalog": os.environ.get("FUZZ_CATALOG", ""),
    "namespace": "ns",
    "table": "t",
    "view": "v",
    "consumer": "c",
    "tableUuid": os.environ.get("FUZZ_TABLE_UUID", ""),
}
# Every so many requests keep the made-up value.
KEEP_EVERY = 8
_count = 0


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    global _count
    if path_parameters is None:
        return None
    for name, value in SEEDED.items():
        if name in path_parameters:
            _count += 1
            if _count % KEEP_EVERY:
                path_parameters[name] = value
    return path_parameters


@schemathesis.hook
def map_body(context, body):
    """Commits and alters that name the seeded table reach the rules behind the lookup, as do conversions of it."""
    global _count
    if isinstance(body, dict) and isinstance(body.get("source-table-path"), str):
        _count += 1
        if _count % KEEP_EVERY:
            body["source-table-path"] = os.environ.get("FUZZ_TABLE_PATH", "") + ["", "/_delta_log", "/metadata", "/"][_count % 4]
            body["source-format"] = ["DELTA", "delta", "ICEBERG", "PARQUET", "HUDI"][_count % 5]
            body["target-formats"] = [["ICEBERG"], ["DELTA", "HUDI"], ["iceberg", "HUDI"]][_count % 3]
            body["source-table-name"] = "fuzzed"
            body.pop("source-data-path", None)
            if _count % 3:
                body["configurations"] = {"sync-mode": ["full", "incremental", "x"][_count % 3]}
    if isinstance(body, dict):
        for side in ("appends", "deletes"):
            for entry in body.get(side) or []:
                if isinstance(entry, dict):
                    for field, value in (("namespace", "ns"), ("table", "t")):
                        if isinstance(entry.get(field), str):
                            entry[field] = value
                    for file in entry.get("files") or []:
                        if isinstance(file, dict) and isinstance(file.get("path"), str):
                            file["path"] = f"s3://lake/{SEEDED['catalog']}/{len(file['path'])}.parquet"
    return body
