"""Stored files in columns are a list of stored files."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from paimon_core.reachability.files import Role, StoredFile
from paimon_core.reachability.stored_files import (
    NO_FILES,
    NOTHING_PLANNED,
    StoredFiles,
    StoredFilesBuilder,
)

FILES = st.lists(
    st.builds(
        StoredFile,
        path=st.builds(
            "{}/{}".format,
            st.sampled_from(["/t/bucket-0", "/t/bucket-1", "s3://b/é"]),
            st.text("ab-é$", min_size=1, max_size=3),
        ),
        role=st.sampled_from(list(Role)),
        size=st.none() | st.integers(0, 2**40),
    ),
    max_size=12,
)


@given(FILES, FILES, st.integers(0, 12), st.integers(0, 12))
def test_columns_are_a_list(
    files: list[StoredFile], others: list[StoredFile], start: int, end: int
) -> None:
    found = StoredFiles.of(files)
    assert list(found) == files
    assert [found[i] for i in range(len(files))] == files
    assert list(found[start:end]) == files[start:end]
    assert found.bytes == sum(f.size or 0 for f in files)
    assert found.counts() == Counter(str(f.role) for f in files)
    assert list(found.counts()) == list(Counter(str(f.role) for f in files))
    roles = (Role.DATA, Role.MANIFEST)
    assert list(found.of_roles(*roles)) == [f for f in files if f.role in roles]
    assert found.total(*roles) == (len(found.of_roles(*roles)), found.of_roles(*roles).bytes)
    first = {f.path.rpartition("/")[0]: f for f in reversed(files)}
    assert set(found.one_of_each_folder()) == set(first.values())
    distinct = {f.path: f for f in reversed(files)}
    assert set(found.distinct()) == set(distinct.values())
    wanted = StoredFiles.of(others).distinct()
    paths = {f.path for f in others}
    assert list(found.only(wanted.planned())) == [f for f in files if f.path in paths]
    again = StoredFiles.of(list(wanted))
    assert again.only(wanted.planned()) is again
    assert (found.planned() == wanted.planned()) == ({f.path for f in files} == paths)
    joined = StoredFiles.joined(found, wanted)
    assert list(joined) == [*files, *wanted]
    assert joined == StoredFiles.of([*files, *wanted])
    assert (found == wanted) == (files == list(wanted))


def test_nothing_is_a_list_too() -> None:
    assert not NO_FILES
    assert NO_FILES.counts() == {}
    assert list(NO_FILES.only(NOTHING_PLANNED)) == []
    assert StoredFilesBuilder().finish() == NO_FILES
