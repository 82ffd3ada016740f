"""Reads tables in an S3 endpoint with DuckDB.

s3.py ENDPOINT KEY SECRET SCAN...       prints for each scan its rows as tables.py prints them, or {"error": ...}
"""
import json
import sys

from tables import duck, rows


def seen(connection, scan):
    try:
        return rows(connection.execute(f"select * from {scan}").to_arrow_table())
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"[:600]}


if __name__ == "__main__":
    endpoint, key, secret, *scans = sys.argv[1:]
    connection = duck(("httpfs",))
    connection.execute(
        f"create secret (type s3, key_id '{key}', secret '{secret}', endpoint '{endpoint}', url_style 'path', use_ssl false, region 'us-east-1')")
    print(json.dumps([seen(connection, scan) for scan in scans]))
