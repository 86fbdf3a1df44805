"""Where tools copy to: a bucket of an S3 server, or a folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from benchmarks.data_plane.trees import remove_tree


@dataclass(frozen=True)
class Bucket:
    """A bucket, and who may use it."""

    endpoint: str
    name: str
    access_key: str
    secret_key: str

    def client(self) -> Any:
        """Return a client of boto3."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )

    def remove(self, prefix: str) -> None:
        """Remove all objects below a prefix."""
        client = self.client()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=f"{prefix}/"):
            if keys := [{"Key": row["Key"]} for row in page.get("Contents", ())]:
                client.delete_objects(Bucket=self.name, Delete={"Objects": keys, "Quiet": True})


@dataclass(frozen=True)
class Folder:
    """A folder on a disk of this machine."""

    path: Path

    def remove(self, prefix: str) -> None:
        """Remove all files below a prefix."""
        remove_tree(self.path / prefix)


Target = Bucket | Folder
