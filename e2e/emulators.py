"""Azure Blob Storage and Google Cloud Storage, as their emulators are: Azurite, and fake-gcs-server with its XML API."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time
from dataclasses import dataclass

import httpx
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import AzureFileSystem, GcsFileSystem
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from server import ROOT, free_port

READY_WITHIN_SECONDS = 30
CONTAINER = "lake"
# The account that every Azurite knows.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass
class Emulator:
    """A store of another platform: how hoglake and the engines reach it."""

    prefix: str
    endpoint: str
    process: subprocess.Popen
    # The variables of hoglake's command line.
    environment: dict[str, str]
    # `configurations` of a conversion over REST.
    configurations: dict[str, str]
    delta_options: dict[str, str]
    iceberg_properties: dict[str, str]

    def at(self, name: str) -> str:
        return f"{self.prefix}/{name}"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def write_delta(self, name: str, rows: pa.Table, **how) -> str:
        write_deltalake(self.at(name), rows, storage_options=self.delta_options, **how)
        return self.at(name)

    def delta(self, location: str) -> DeltaTable:
        return DeltaTable(location.removesuffix("/_delta_log"), storage_options=self.delta_options)

    def write_iceberg(self, name: str, rows: pa.Table, folder: pathlib.Path):
        catalog = SqlCatalog("made", uri=f"sqlite:///{folder}/{name}.db", warehouse=self.prefix, **self.iceberg_properties)
        catalog.create_namespace_if_not_exists("ns")
        table = catalog.create_table(f"ns.{name}", rows.schema, location=self.at(name))
        table.append(rows)
        return table

    def iceberg(self, metadata: str) -> pa.Table:
        return StaticTable.from_metadata(metadata, self.iceberg_properties).scan().to_arrow()


def answering(process: subprocess.Popen, url: str) -> None:
    until = time.monotonic() + READY_WITHIN_SECONDS
    while True:
        try:
            httpx.get(url)
            return
        except httpx.TransportError:
            assert process.poll() is None, f"the emulator at {url} ended with {process.returncode}"
            assert time.monotonic() < until, f"nothing answers at {url}"
            time.sleep(0.1)


def started(command: list, log: pathlib.Path, url: str) -> subprocess.Popen:
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    answering(process, url)
    return process


def azure(folder: pathlib.Path) -> Emulator:
    port = free_port()
    authority = f"127.0.0.1:{port}"
    endpoint = f"http://{authority}/{ACCOUNT}"
    process = started(
        [ROOT / ".tools/azurite/node_modules/.bin/azurite-blob", "--location", folder, "--blobHost", "127.0.0.1"]
        + ["--blobPort", str(port), "--skipApiVersionCheck", "--loose"],
        folder / "azurite.log",
        endpoint,
    )
    authorities = {
        f"{kind}_storage_{what}": value for kind in ("blob", "dfs") for what, value in (("authority", authority), ("scheme", "http"))
    }
    AzureFileSystem(ACCOUNT, account_key=KEY, **authorities).create_dir(CONTAINER)
    return Emulator(
        prefix=f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net",
        endpoint=endpoint,
        process=process,
        environment={"HOGLAKE_AZURE_ENDPOINT": endpoint, "AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": KEY},
        configurations={"azure.endpoint": endpoint, "azure.access-key": KEY},
        delta_options={
            "azure_storage_account_name": ACCOUNT,
            "azure_storage_account_key": KEY,
            "azure_endpoint": endpoint,
            "allow_http": "true",
        },
        iceberg_properties={
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
            "adls.connection-string": f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};",
        },
    )


def gcs(folder: pathlib.Path) -> Emulator:
    port = free_port()
    authority = f"127.0.0.1:{port}"
    endpoint = f"http://{authority}"
    binary = os.environ.get("HOGLAKE_GCS_EMULATOR", ROOT / ".tools/fake-gcs-server/fake-gcs-server")
    process = started(
        [binary, "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", authority]
        + ["-external-url", endpoint],
        folder / "gcs.log",
        endpoint,
    )
    GcsFileSystem(anonymous=True, scheme="http", endpoint_override=authority, project_id="p").create_dir(CONTAINER)
    # Of delta-rs and of hoglake's command line: this emulator asks for no credentials.
    account = folder / "account.json"
    account.write_text(
        json.dumps({"gcs_base_url": endpoint, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""})
    )
    return Emulator(
        prefix=f"gs://{CONTAINER}",
        endpoint=endpoint,
        process=process,
        environment={"HOGLAKE_GCS_ENDPOINT": endpoint, "GOOGLE_SERVICE_ACCOUNT": str(account)},
        configurations={"gcs.endpoint": endpoint, "gcs.oauth2-token": "any"},
        delta_options={"google_service_account": str(account), "allow_http": "true"},
        iceberg_properties={
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
            "gcs.service.host": endpoint,
            "gcs.oauth2.token": "any",
            "gcs.oauth2.token-expires-at": "4102444800000",
        },
    )
