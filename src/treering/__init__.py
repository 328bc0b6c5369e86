"""treering: time series on Apache Cassandra that age well.

``treering.open`` gives a store; ``treering.plan_design`` the arithmetic behind a table;
``treering.bucket_of`` and ``treering.buckets_between`` the cut of time, for driver code of one's
own.
"""

from treering.clock import ManualClock
from treering.core.adopt import AdoptPlan
from treering.core.bucket import (
    Bucket,
    BucketWidth,
    bucket_of,
    buckets_between,
    parse_bucket,
)
from treering.core.delete_plan import DeletePlan, render_delete_plan
from treering.core.design import Design, Overrides, Verdict, Window, Workload, plan_design
from treering.core.histogram import LatencyStats
from treering.core.read_plan import PartitionRead, ReadPlan
from treering.core.render_plan import render_read_plan
from treering.core.retention import RetentionPlan, render_retention_plan
from treering.core.schema import Column, ColumnType
from treering.core.series import SeriesRecord
from treering.core.units import Interval, Precision
from treering.core.widths import WidthSince
from treering.core.write_plan import Reason, Refusal
from treering.engine.protocol import SeriesScan
from treering.errors import (
    CorruptDataError,
    DesignError,
    EngineError,
    EngineTimeoutError,
    FanOutTooWideError,
    MissingExtraError,
    OverloadedError,
    PartialReadError,
    RefusedReadingsError,
    SchemaMismatchError,
    SeriesNotFoundError,
    StoreBusyError,
    StoreClosedError,
    TableNotFoundError,
    TreeringError,
    UnavailableError,
    UsageError,
    WidthError,
    WriterFullError,
)
from treering.readings import Readings
from treering.stats import StoreStats, VerbStats
from treering.store import CreatePlan, Store
from treering.store import open_store as open
from treering.table import Table
from treering.table_removal import DeleteReport
from treering.write_report import WriteReport
from treering.writer import Writer
from treering.writer_report import WriterReport

__all__ = [
    "AdoptPlan",
    "Bucket",
    "BucketWidth",
    "Column",
    "ColumnType",
    "CorruptDataError",
    "CreatePlan",
    "DeletePlan",
    "DeleteReport",
    "Design",
    "DesignError",
    "EngineError",
    "EngineTimeoutError",
    "FanOutTooWideError",
    "Interval",
    "LatencyStats",
    "ManualClock",
    "MissingExtraError",
    "OverloadedError",
    "Overrides",
    "PartialReadError",
    "PartitionRead",
    "Precision",
    "ReadPlan",
    "Readings",
    "Reason",
    "Refusal",
    "RefusedReadingsError",
    "RetentionPlan",
    "SchemaMismatchError",
    "SeriesNotFoundError",
    "SeriesRecord",
    "SeriesScan",
    "Store",
    "StoreBusyError",
    "StoreClosedError",
    "StoreStats",
    "Table",
    "TableNotFoundError",
    "TreeringError",
    "UnavailableError",
    "UsageError",
    "VerbStats",
    "Verdict",
    "WidthError",
    "WidthSince",
    "Window",
    "Workload",
    "WriteReport",
    "Writer",
    "WriterFullError",
    "WriterReport",
    "bucket_of",
    "buckets_between",
    "open",
    "parse_bucket",
    "plan_design",
    "render_delete_plan",
    "render_read_plan",
    "render_retention_plan",
]
