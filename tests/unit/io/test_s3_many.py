"""Listing by prefix and deletion of many objects: the same result as one request for each."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from paimon_core.io.s3_many import delete_objects, list_folder, list_objects

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Bucket:
    """A bucket that answers as S3 documents it, in pages of `page` keys."""

    def __init__(self, keys: list[str], page: int, *, is_sorted: bool = True) -> None:
        self.keys = sorted(keys) if is_sorted else keys
        self.page = page
        self.requests = 0

    def __call__(self, operation: str, **p: Any) -> dict[str, Any]:
        assert operation == "list_objects_v2"
        self.requests += 1
        after = p.get("ContinuationToken") or p.get("StartAfter") or ""
        is_next = "ContinuationToken" in p
        found: dict[str, bool] = {}
        for key in self.keys:
            if not key.startswith(p["Prefix"]):
                continue
            rest = key[len(p["Prefix"]) :]
            if "Delimiter" in p and "/" in rest:
                found[p["Prefix"] + rest.split("/")[0] + "/"] = True
            else:
                found[key] = False
        names = list(found)
        if is_next:
            names = names[names.index(after) + 1 :]
        elif after:
            names = [n for n in names if n > after]
        page = names[: self.page]
        return {
            "Contents": [{"Key": n, "Size": 1, "LastModified": _NOW} for n in page if not found[n]],
            "CommonPrefixes": [{"Prefix": n} for n in page if found[n]],
            "IsTruncated": len(names) > self.page,
            "NextContinuationToken": page[-1] if len(names) > self.page else None,
        }


def listed(bucket: Bucket) -> list[tuple[str, bool]]:
    return sorted((f.path, f.is_dir) for f in list_objects(bucket, "b", "w/t/", "s3a://b/w/t"))


def expected(keys: list[str]) -> list[tuple[str, bool]]:
    inside = (k for k in keys if k.startswith("w/t/") and k != "w/t/")
    return sorted((f"s3a://b/{k.rstrip('/')}", k.endswith("/")) for k in inside)


def test_every_object_below_the_prefix_is_listed_once() -> None:
    chance = random.Random(7)
    for _ in range(300):
        names = ["a", "dt=1", "dt=1-2", "dt=1.x", "dt=10", "manifest", "~", "é", "\U0001f600"]
        folders = [f"{chance.choice(names)}{i}" for i in range(chance.randrange(60))] + names
        keys = {"w/t/", "w/tt/other", "w/t-1/other", "w/s"}
        for folder in folders:
            for _ in range(chance.randrange(4)):
                depth = "/".join(chance.choices(names, k=chance.randrange(1, 4)))
                keys.add(f"w/t/{folder}/{depth}")
        keys |= {f"w/t/{f}/" for f in chance.sample(folders, 3)}
        bucket = Bucket(list(keys), page=chance.choice([1, 3, 1000]))
        assert listed(bucket) == expected(list(keys))


def test_a_small_table_takes_one_request() -> None:
    bucket = Bucket([f"w/t/p={i}/bucket-0/f" for i in range(50)], page=1000)
    listed(bucket)
    assert bucket.requests == 1


def test_many_folders_take_no_request_each() -> None:
    keys = [f"w/t/p={i:04}/bucket-0/f" for i in range(2000)]
    bucket = Bucket(keys, page=100)
    assert listed(bucket) == expected(keys)
    assert bucket.requests < 1 + 20 + 32 * 3


def test_keys_in_another_order_are_all_found() -> None:
    keys = [f"w/t/p={i:04}/f{j}" for i in range(100) for j in range(2)]
    random.Random(3).shuffle(keys)
    assert listed(Bucket(keys, page=50, is_sorted=False)) == expected(keys)


def test_failed_deletions_are_returned() -> None:
    def call(operation: str, **p: Any) -> dict[str, Any]:
        assert operation == "delete_objects"
        assert [o["Key"] for o in p["Delete"]["Objects"]] == ["a", "b"]
        return {"Errors": [{"Key": "b", "Code": "InternalError"}]}

    assert delete_objects(call, "b", ["a", "b"]) == ["b"]


def test_a_folder_without_a_name_is_not_the_folder_itself() -> None:
    bucket = Bucket(["w/t/a", "w/t//b", "w/t/c//d"], 10)
    found = list_folder(bucket, "b", "w/t/", "s3a://b/w/t")
    assert sorted(f.name for f in found) == ["a", "c"]
