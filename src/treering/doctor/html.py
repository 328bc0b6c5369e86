"""The report as one page: self-contained, no network, no script; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from treering.core.units import render_bytes, render_count
from treering.doctor.facts import TableFacts
from treering.doctor.finding import FileVerdict, Finding, TableReport
from treering.doctor.pictures import (
    FILES_SHOWN,
    draw_disk,
    draw_files,
    draw_partitions,
    kinds_of,
    plan_disk,
    render_moment,
)
from treering.doctor.report import Diagnosis, printable, render_cost
from treering.doctor.thresholds import Thresholds
from treering.sstable.histogram import merge_histograms

_ROWS_SHOWN: Final = 500
_WORDS: Final = {True: "healthy", False: "not healthy", None: "not fully known"}
_LEGEND: Final = (
    ("live", "live"),
    ("removable", "expired, may go now"),
    ("waiting", "expired, unless the memtable holds older writes"),
    ("blocked", "expired, kept by another file"),
    ("blocker", "keeps others"),
)
_STYLE: Final = """
body{font:15px/1.45 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;
color:#1c1f23;background:#fff}
h1,h2,h3{line-height:1.2}h2{border-top:1px solid #ccd;padding-top:1em;margin-top:2em}
table{border-collapse:collapse;width:100%;font-size:13px}
td,th{text-align:left;padding:.25em .6em;border-bottom:1px solid #e4e6ea;overflow-wrap:anywhere;
vertical-align:top}
code,pre{font:13px ui-monospace,monospace;background:#f3f4f7}
pre{padding:.6em;white-space:pre-wrap;overflow-wrap:anywhere}
svg{width:100%;height:auto;font:11px system-ui,sans-serif}
.ok,.healthy{color:#1a7f37}.notice{color:#0b62c4}.warning{color:#9a6700}.critical{color:#c0132b}
.unknown{color:#667}
.finding{border-left:4px solid currentColor;padding:.1em 0 .1em 1em;margin:1em 0}
.finding>*{color:#1c1f23}.finding>h3{color:inherit}
dt{font-weight:600;float:left;clear:left;width:6.5em}dd{margin-left:7em}
.axis{stroke:#889;stroke-width:1}.window{stroke:#dde;stroke-width:1}
.mark{stroke:#c0132b;stroke-width:1;stroke-dasharray:4 3}
.disk{fill:none;stroke:#0b62c4;stroke-width:2}
rect.live,i.live{fill:#5b8def;background:#5b8def}
rect.removable,i.removable{fill:#58b368;background:#58b368}
rect.waiting,i.waiting{fill:#b9c46a;background:#b9c46a}
rect.blocked,i.blocked{fill:#e8a33d;background:#e8a33d}
rect.blocker,i.blocker{fill:#c0132b;background:#c0132b}
i{display:inline-block;width:1em;height:.8em;margin:0 .3em 0 1em}
"""


PAGE_HEAD: Final = (
    "<!DOCTYPE html>",
    '<html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width">',
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "style-src 'unsafe-inline'\">",
    f"<title>treering doctor</title><style>{_STYLE}</style></head><body>",
)
"""How every page begins."""


def render_html(
    diagnosis: Diagnosis,
    facts: Mapping[str, TableFacts],
    *,
    now_s: int,
    thresholds: Thresholds | None = None,
) -> str:
    """Return the report as one HTML page.

    Args:
        diagnosis: What was found.
        facts: By keyspace and table, for the pictures; a table without them has fewer.
        now_s: When the report was made, epoch seconds.
        thresholds: Where a partition is too large; the usual ones by default.
    """
    limits = thresholds or Thresholds()
    parts = [
        *PAGE_HEAD,
        f"<h1>{render_count(len(diagnosis.reports), 'table')}: {_WORDS[diagnosis.is_healthy]}</h1>",
        f"<p>{render_moment(now_s)}</p>",
    ]
    if len(diagnosis.reports) > 1:
        parts += _contents(diagnosis.reports)
    for number, report in enumerate(diagnosis.reports):
        parts += _table(number, report, facts.get(report.table), now_s, limits)
    parts += _listed("Not seen", diagnosis.unseen)
    parts += _listed("Not known", diagnosis.missing)
    parts.append("</body></html>\n")
    # A lone surrogate of an odd file name cannot be written as UTF-8.
    return "\n".join(parts).encode("utf-8", "replace").decode()


def _text(text: str) -> str:
    return escape(printable(text))


def _contents(reports: Sequence[TableReport]) -> Iterator[str]:
    yield "<table><tr><th>table</th><th>state</th><th>findings</th></tr>"
    for number, report in enumerate(reports):
        yield (
            f'<tr><td><a href="#t{number}">{_text(report.table)}</a></td>'
            f"<td>{_WORDS[report.is_healthy]}</td><td>{len(report.findings)}</td></tr>"
        )
    yield "</table>"


def _table(
    number: int,
    report: TableReport,
    facts: TableFacts | None,
    now_s: int,
    limits: Thresholds,
) -> Iterator[str]:
    yield f'<h2 id="t{number}">{_text(report.table)}: {_WORDS[report.is_healthy]}</h2>'
    yield "<table><tr><th>check</th><th>status</th><th></th></tr>"
    for check in report.checks:
        text = "; ".join(filter(None, (check.summary, check.unknown)))
        yield (
            f'<tr><td>{check.check}</td><td class="{check.status}">{check.status}</td>'
            f"<td>{_text(text)}</td></tr>"
        )
    yield "</table>"
    if report.schema_from is not None:
        yield f"<p>options {_text(report.schema_from.text)}; what was altered since is not seen</p>"
    for finding in report.findings:
        yield from _finding(finding)
    yield from _pictures(report, facts, now_s, limits)
    yield from _files(report.files)
    yield from _listed("Not seen", report.missing)


def _finding(finding: Finding) -> Iterator[str]:
    yield f'<div class="finding {finding.severity}">'
    where = f" on {_text(finding.node)}" if finding.node else ""
    yield f"<h3>{finding.severity}: {_text(finding.id)}{where}</h3><dl>"
    for word, text in (
        ("seen", finding.evidence),
        ("cause", finding.cause),
        ("then", finding.consequence),
        ("cure", finding.cure),
        ("cost", render_cost(finding.cost)),
    ):
        if text:
            yield f"<dt>{word}</dt><dd>{_text(text)}</dd>"
    yield "</dl>"
    if finding.commands:
        yield f"<pre>{chr(10).join(_text(command) for command in finding.commands)}</pre>"
    yield "</div>"


def _pictures(
    report: TableReport, facts: TableFacts | None, now_s: int, limits: Thresholds
) -> Iterator[str]:
    files = draw_files(report.files, now_s=now_s)
    if files:
        shown = min(len(report.files), FILES_SHOWN)
        yield f"<h3>Files by write time ({shown:,} of {len(report.files):,})</h3>"
        yield "<p>" + "".join(f'<i class="{kind}"></i>{word}' for kind, word in _LEGEND) + "</p>"
        yield files
    disk = draw_disk(plan_disk(report.files, now_s=now_s))
    if disk:
        yield "<h3>Disk that the files of now will take, if nothing changes</h3>"
        yield disk
    partitions = (
        ""
        if facts is None
        else draw_partitions(_partition_bars(facts), limit_bytes=limits.partition_bytes_max)
    )
    if partitions:
        yield "<h3>Partitions by size, each in each file</h3>"
        yield partitions


def _partition_bars(facts: TableFacts) -> list[tuple[int, int]]:
    merged = merge_histograms(
        file.partition_bytes for node in facts.nodes for file in node.files or ()
    )
    return list(zip(merged.offsets.tolist(), merged.counts.tolist(), strict=True))


def _files(files: Sequence[FileVerdict]) -> Iterator[str]:
    if not files:
        return
    kinds = kinds_of(files)
    words = dict(_LEGEND)
    yield f"<details><summary>{render_count(len(files), 'file')}</summary><table>"
    heads = ("node", "file", "size", "oldest write", "newest write", "expires", "state", "kept by")
    yield "<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"
    for file in files[:_ROWS_SHOWN]:
        cells = (
            file.node,
            file.path.rpartition("/")[2],
            "" if file.data_bytes is None else render_bytes(file.data_bytes),
            _written(file.min_write_us),
            _written(file.max_write_us),
            "never" if file.max_deletion_s is None else render_moment(file.max_deletion_s),
            words[kinds[file.node, file.path]],
            ", ".join(path.rpartition("/")[2] for path in file.blocked_by[:5]),
        )
        yield "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>"
    yield "</table>"
    if len(files) > _ROWS_SHOWN:
        yield f"<p>and {len(files) - _ROWS_SHOWN:,} more; --json has all</p>"
    yield "</details>"


def _written(write_us: int | None) -> str:
    return "" if write_us is None else render_moment(write_us / 1e6)


def _listed(head: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield (
            f"<h3>{head}</h3><ul>" + "".join(f"<li>{_text(line)}</li>" for line in lines) + "</ul>"
        )
