"""A ledger whose hours are written straight into the table, without polls."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from diagnostics import usage
from diagnostics.models import STATE_NUMBERS, Cluster, GpuModel, LedgerState, UsageHour, Workload
from diagnostics.snapshot import State

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MONDAY = datetime(2026, 6, 1, tzinfo=UTC)
LONG_AGO = MONDAY - 30 * DAY
SPAN_H = 80
MODELS = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "")
ONCE = ("cluster", "hour", "workload", "model", "state", "is_gap", "is_backfilled")
slugs = count()


class Ledger:
    """Hours are counted from MONDAY. Five workloads of three labels and two namespaces, three models."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        self.cluster = cluster or Cluster.objects.create(slug=f"lab-{next(slugs)}", name="lab")
        self.models = [GpuModel.objects.get_or_create(name=name)[0] for name in MODELS]
        ever = {"cluster": self.cluster, "first_seen": MONDAY, "last_seen": MONDAY + SPAN_H * HOUR}
        self.nobody = Workload.objects.create(**ever)
        self.workloads = [
            Workload.objects.create(
                kind="Job", namespace=f"space-{i % 2}", name=f"job-{i}", labels={"team": f"t{i % 3}"}, **ever
            )
            for i in range(5)
        ]
        self.waiting: list[UsageHour] = []

    def add(self, *what: Any, **how: bool) -> None:
        """Hour, number of the workload and of the model, state, milliseconds and wasted ones."""
        hour, who, model, state, gpu_ms, waste_ms = what
        row = self._row(hour, who, model, state, gpu_ms, waste_ms, **how)
        UsageHour.objects.filter(**{field: getattr(row, field) for field in ONCE}).delete()
        row.save()

    def later(self, *what: Any) -> None:
        """The same, when `write` is called: no line may come twice."""
        self.waiting.append(self._row(*what))

    def write(self) -> None:
        UsageHour.objects.bulk_create(self.waiting)
        self.waiting = []

    def complete(self, hours: float) -> None:
        """Everything before is final."""
        LedgerState.objects.update_or_create(
            cluster=self.cluster, defaults={"complete_through": MONDAY + hours * HOUR}
        )

    def roll_up(self) -> int:
        return usage.roll_up(self.cluster, LONG_AGO)

    def _row(
        self, hour: int, who: int, model: int, state: State, gpu_ms: int, waste_ms: int, **how: bool
    ) -> UsageHour:
        is_gap = state is State.NO_DATA and how.get("is_gap", False)
        is_free = is_gap or state in {State.FREE, State.STRANDED}
        return UsageHour(
            cluster=self.cluster,
            hour=MONDAY + hour * HOUR,
            workload=self.nobody if is_free else self.workloads[who],
            model=self.models[model],
            state=STATE_NUMBERS[state],
            is_gap=is_gap,
            is_backfilled=how.get("is_backfilled", False) and not is_gap,
            gpu_ms=gpu_ms,
            waste_ms=min(waste_ms, gpu_ms),
        )
