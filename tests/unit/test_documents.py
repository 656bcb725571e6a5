"""The documents hold together: links, numbers of decisions, names of files and of tests, rules of Java."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *(
            file
            for folder in ("docs", "docker", "benchmarks", "tests/golden")
            for file in (ROOT / folder).rglob("*.md")
        ),
    ]
)
PACKAGES = ("paimon_core", "paimon_spark", "maintenance", "plugins", "dags")
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
SECTION = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
PATH = re.compile(
    r"`((?:tests|benchmarks|docs|paimon_core|paimon_spark|maintenance|plugins|dags)/[\w./-]+)`"
)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+(?:::\w+)?)`")
# Made by whoever follows the text, or standing for any name.
NOT_THERE = {"docker/.env", "maintenance/paimon_maintenance/jobs/JOB/definition.py"}


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_a_document_names_is_there(file: Path) -> None:
    text = file.read_text("utf-8")
    broken = [link for link in LINK.findall(text) if not (file.parent / link).exists()]
    broken += [p for p in PATH.findall(text) if p not in NOT_THERE and not (ROOT / p).exists()]
    assert broken == []


def test_every_test_that_a_document_names_exists() -> None:
    named = {
        (file, path, name)
        for file in DOCUMENTS
        for path, name in TEST.findall(file.read_text("utf-8"))
    }
    assert named
    missing = [
        (str(file.relative_to(ROOT)), path, name)
        for file, path, name in sorted(named)
        if f"def {name.rpartition('::')[2]}(" not in (ROOT / path).read_text("utf-8")
    ]
    assert not missing


def anchors(text: str) -> set[str]:
    """What a link can name behind its `#`: headings as GitHub spells them, and ids."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r"<a id=\"(\w+)\">", text))


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_section_that_a_link_names_is_there(file: Path) -> None:
    text = file.read_text("utf-8")
    targets = [
        (file.parent / name if name else file, anchor) for name, anchor in SECTION.findall(text)
    ]
    assert [
        f"{target.name}#{anchor}"
        for target, anchor in targets
        if anchor not in anchors(target.read_text("utf-8"))
    ] == []


def test_every_decision_has_a_number_of_its_own_and_is_listed() -> None:
    numbers = [file.name[:4] for file in DECISIONS]
    assert numbers == [f"{n:04}" for n in range(1, len(DECISIONS) + 1)]
    listed = re.findall(r"^\| \[(\d+)\]\((\S+)\) \| (.+) \|$", _decisions(), re.MULTILINE)
    titles = [file.read_text("utf-8").splitlines()[0] for file in DECISIONS]
    assert listed == [
        (file.name[:4], file.name, title.removeprefix(f"# {file.name[:4]}  "))
        for file, title in zip(DECISIONS, titles, strict=True)
    ]


def test_every_decision_has_a_status() -> None:
    texts = {file.name: file.read_text("utf-8") for file in DECISIONS}
    status = re.compile(r"^Status: (accepted|replaced by \d{4})\b", re.MULTILINE)
    assert [name for name, text in texts.items() if not status.search(text)] == []


def _decisions() -> str:
    return (ROOT / "docs" / "decisions" / "README.md").read_text("utf-8")


def test_every_benchmark_is_described() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    scripts = sorted(file.name for file in (ROOT / "benchmarks").glob("*.py"))
    assert [name for name in scripts if f"`{name}`" not in text] == []


def test_every_option_of_our_own_is_described() -> None:
    files = (f for top in PACKAGES for f in (ROOT / top).rglob("*.py"))
    found = {o for f in files for o in re.findall(r'"(caretaker\.[a-z-]+)"', f.read_text("utf-8"))}
    # Names of files, and what a commit of a stream stores in its snapshot.
    options = found - {
        "caretaker.py",
        "caretaker.toml",
        "caretaker.zip",
        "caretaker.spark-query-id",
    }
    text = (ROOT / "docs" / "table-kinds.md").read_text("utf-8")
    assert len(options) > 4
    assert [o for o in sorted(options) if f"| `{o}` |" not in text] == []


RULES_OF_JAVA = ROOT / "docs" / "java-rules.md"
RULE = re.compile(r"^<a id=\"(\w+)\"></a>\n\*\*([A-Z]\d+)\. ", re.MULTILINE)
GROUP = re.compile(r"^## ([A-Z])\. ", re.MULTILINE)
CITATION = re.compile(r"java-rules(?!\.md)((?:,? (?:(?:to|and) )?[A-Z]\d*\b)*)")
# Where rules and goals were before they came into this repository; nobody else can read those files.
OLD_CITATION = re.compile("JAVA" + "_RULES|shared" + "/design|hand" + "book")


def _texts() -> Iterator[tuple[str, str]]:
    """Name and text of every file of the checkout; not of the tables under tests/golden."""
    tops = [p for p in ROOT.iterdir() if p.name == ".ci" or not p.name.startswith(".")]
    for top in sorted(tops):
        for file in [top] if top.is_file() else sorted(top.rglob("*")):
            if not file.is_file() or "warehouse" in file.parts or "__pycache__" in file.parts:
                continue
            try:
                yield str(file.relative_to(ROOT)), file.read_text("utf-8")
            except UnicodeDecodeError:
                continue  # not a text


def test_every_rule_of_java_has_an_id_of_its_own_and_an_anchor() -> None:
    text = RULES_OF_JAVA.read_text("utf-8")
    rules = RULE.findall(text)
    ids = [rule for _, rule in rules]
    assert ids == re.findall(r"^\*\*([A-Z]\d+)\. ", text, re.MULTILINE)
    assert [anchor for anchor, _ in rules] == [rule.lower() for rule in ids]
    expected = [
        f"{group}{n}"
        for group in GROUP.findall(text)
        for n in range(1, 1 + sum(rule[0] == group for rule in ids))
    ]
    assert ids == expected


def test_every_rule_of_java_that_is_cited_exists() -> None:
    text = RULES_OF_JAVA.read_text("utf-8")
    known = {*GROUP.findall(text), *(rule for _, rule in RULE.findall(text))}
    cited = [
        (name, re.findall(r"[A-Z]\d*", match[1]))
        for name, body in _texts()
        if ROOT / name != Path(__file__)
        for match in CITATION.finditer(body)
    ]
    assert len(cited) > 40
    assert [(name, ids) for name, ids in cited if not ids or not known.issuperset(ids)] == []


def test_nothing_cites_rules_that_only_their_authors_can_read() -> None:
    assert [name for name, body in _texts() if OLD_CITATION.search(body)] == []


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]


@pytest.mark.parametrize("package", ["paimon_core", "paimon_maintenance", "paimon_airflow"])
def test_the_picture_of_a_package_has_the_layers_of_its_contract(package: str) -> None:
    layers = next(
        contract["layers"]
        for contract in CONTRACTS["contracts"]
        if contract.get("containers") == [package]
    )
    rows = [re.findall(r"\w+", layer) for layer in layers]
    picture = re.search(
        rf"^## {package}\n.*?^```\n(.*?)^```$", ARCHITECTURE, re.MULTILINE | re.DOTALL
    )
    assert picture is not None
    lines = [re.findall(r"[\w]+", line) for line in picture[1].splitlines()]
    assert [line[: len(row)] for row, line in zip(rows, lines, strict=True)] == rows
