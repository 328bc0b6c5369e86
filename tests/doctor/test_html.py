"""The page: self-contained, escaped, with its pictures."""

from __future__ import annotations

from html.parser import HTMLParser

from tests.doctor.made import NOW_S, finding, report, sstable, verdict
from treering.doctor.facts import NodeFacts, TableFacts
from treering.doctor.html import render_html
from treering.doctor.report import Diagnosis

EVIL = "<script>alert(1)</script>\"'&"


class Page(HTMLParser):
    """Notes the tags of a page, and whether they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def page_of(*reports: object, **facts: TableFacts) -> Page:
    diagnosis = Diagnosis(reports=reports, unseen=(EVIL,))  # type: ignore[arg-type]
    return Page(render_html(diagnosis, facts, now_s=NOW_S))


def test_every_text_of_strangers_is_escaped() -> None:
    sick = report(
        finding(id=EVIL, node=EVIL, evidence=EVIL, cause=EVIL, cure=EVIL, commands=(EVIL,)),
        table=EVIL,
        files=(verdict(path=EVIL, node=EVIL, window=EVIL, blocked_by=(EVIL,)),),
        missing=(EVIL,),
    )
    page = page_of(sick, sick)
    assert "script" not in {tag for tag, _ in page.tags}
    assert not page.open
    assert page.words.count("<script>alert(1)</script>") >= 20


def test_the_page_asks_for_nothing_from_elsewhere() -> None:
    page = page_of(report(finding()), report())
    for tag, attributes in page.tags:
        assert tag not in {"script", "link", "img", "iframe", "object"}
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")


def test_blockers_are_marked_among_the_files() -> None:
    blocker = verdict(path="b-Data.db", max_deletion_s=None, removable_at_s=None)
    kept = verdict(path="k-Data.db", is_fully_expired=True, blocked_by=("b-Data.db",))
    free = verdict(path="f-Data.db", is_fully_expired=True, removable="yes")
    page = page_of(report(finding(), files=(blocker, kept, free, verdict())))
    kinds = [attributes["class"] for tag, attributes in page.tags if tag == "rect"]
    assert sorted(map(str, kinds)) == ["blocked", "blocker", "live", "removable"]


def test_thousands_of_files_make_a_bounded_picture() -> None:
    files = tuple(verdict(path=f"nb-{n}-big-Data.db") for n in range(3_000))
    page = page_of(report(files=files))
    assert len([tag for tag, _ in page.tags if tag == "rect"]) == 400
    assert "2,500 more" in page.words


def test_write_times_in_a_wrong_unit_do_not_break_the_picture() -> None:
    files = (
        verdict(min_write_us=1, max_write_us=2**63 - 1),
        verdict(min_write_us=-(2**63), max_write_us=None),
        verdict(min_write_us=None, max_write_us=None, max_deletion_s=2**40),
    )
    assert not page_of(report(files=files)).open


def test_partitions_are_drawn_where_there_are_files() -> None:
    node = NodeFacts(node="n", collected_at_s=NOW_S, files=(sstable(),))
    facts = TableFacts(keyspace="plant", table="readings", schema=None, nodes=(node,))
    page = page_of(report(), **{"plant.readings": facts})
    assert "Partitions by size" in page.words
