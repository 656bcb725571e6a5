"""S3 requests that concern many objects: deletion of up to 1,000, listing a folder or by prefix.

A listing by prefix returns the objects of all folders below it, 1,000 in each request, while a
listing of one folder takes a request for each of them.  The requests of one listing follow each
other, so the folders below the prefix are shared among several listings that run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from paimon_core.io.file_io import FileStat
from paimon_core.io.store_retries import ContextPool

MOST_DELETED: Final = 1_000
"""The number of objects that one request may delete, as S3 defines it."""
_LISTINGS: Final = 32
"""The number of listings that run side by side."""
_LEAST_FOLDERS: Final = 4
"""The fewest folders of a listing: each listing ends with a page that may be nearly empty."""

Call = Callable[..., Any]
"""A request: the name of the operation and its parameters; returns the reply."""


def delete_objects(call: Call, bucket: str, keys: Sequence[str]) -> list[str]:
    """Delete the objects by one request; return the keys that the store reports as failed."""
    objects = [{"Key": key} for key in keys]
    reply = call("delete_objects", Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
    return [error["Key"] for error in reply.get("Errors") or ()]


def list_folder(call: Call, bucket: str, prefix: str, path: str) -> list[FileStat]:
    """Return the objects and folders right below `prefix`, which ends with a slash (or is empty).

    An empty folder takes one request; `ls` of s3fs would also list its parent.
    """
    found = []
    for page in _pages(call, Bucket=bucket, Prefix=prefix, Delimiter="/"):
        for folder in page.get("CommonPrefixes") or ():
            name = folder["Prefix"][len(prefix) :].rstrip("/")
            if name:  # "a//b" is below no folder that a path names: without a name, it is "a" again
                found.append(FileStat(f"{path}/{name}", 0, 0, is_dir=True))
        found += [_stat(o, path, prefix) for o in page.get("Contents") or () if o["Key"] != prefix]
    return found


def list_objects(call: Call, bucket: str, prefix: str, path: str) -> list[FileStat]:
    """Return the objects below `prefix`, which ends with a slash and is the folder `path`.

    Objects whose names end with a slash stand for folders.
    """

    def stats(objects: Iterable[dict[str, Any]]) -> Iterator[FileStat]:
        # Made page by page: an object of a reply takes several times the memory.
        return (_stat(o, path, prefix) for o in objects if o["Key"] != prefix)

    first = call("list_objects_v2", Bucket=bucket, Prefix=prefix)
    objects = first.get("Contents") or ()
    found = list(stats(objects))
    if not first.get("IsTruncated"):
        return found
    keys = [o["Key"] for o in objects]
    after = keys[-1] if keys and keys == sorted(keys) else ""
    if not after:
        found = []
    folders: list[str] = []
    for page in _pages(call, Bucket=bucket, Prefix=prefix, Delimiter="/"):
        found += stats(o for o in page.get("Contents") or () if o["Key"] > after)
        here = [p["Prefix"] for p in page.get("CommonPrefixes") or ()]
        folders += [f for f in here if f > after or after.startswith(f)]
    folders.sort()
    size = max(_LEAST_FOLDERS, -(-len(folders) // _LISTINGS))
    ranges = [folders[i : i + size] for i in range(0, len(folders), size)] if folders else []

    def listed(part: list[str]) -> list[FileStat] | None:
        return _in_folders(call, bucket, prefix, part, after, stats)

    if ranges:
        with ContextPool(len(ranges), thread_name_prefix="list") as pool:
            for more in pool.map(listed, ranges):
                if more is None:  # the store returns the keys in another order
                    pages = _pages(call, Bucket=bucket, Prefix=prefix)
                    found = [s for page in pages for s in stats(page.get("Contents") or ())]
                    break
                found += more
    return found


def _in_folders(
    call: Call,
    bucket: str,
    prefix: str,
    folders: Sequence[str],
    after: str,
    stats: Callable[[Iterable[dict[str, Any]]], Iterator[FileStat]],
) -> list[FileStat] | None:
    """Return the objects in consecutive folders whose keys are after `after`.

    None if the keys are not in their order.
    """
    first, last = folders[0], folders[-1]
    # "dt=1" precedes "dt=1/", whose marker must be found, and also "dt=1-2/", which is skipped.
    begin = after if after.startswith(first) else first.rstrip("/")
    found: list[FileStat] = []
    before = ""
    for page in _pages(call, Bucket=bucket, Prefix=prefix, StartAfter=begin):
        here: list[dict[str, Any]] = []
        for o in page.get("Contents") or ():
            key = o["Key"]
            if key <= before:
                return None
            before = key
            if key > last and not key.startswith(last):
                return [*found, *stats(here)]
            if key >= first:
                here.append(o)
        found += stats(here)
    return found


def _pages(call: Call, **parameters: str) -> Iterator[dict[str, Any]]:
    while True:
        page = call("list_objects_v2", **parameters)
        yield page
        if not page.get("IsTruncated"):
            return
        parameters["ContinuationToken"] = page["NextContinuationToken"]


def _stat(o: dict[str, Any], path: str, prefix: str) -> FileStat:
    name = o["Key"][len(prefix) :]
    if name.endswith("/"):
        return FileStat(f"{path}/{name.rstrip('/')}", 0, 0, is_dir=True)
    return FileStat(f"{path}/{name}", int(o["Size"]), int(o["LastModified"].timestamp() * 1000))
