"""The reads that SQLite and PostgreSQL share: one SQL text with named parameters for both."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any, Literal, NamedTuple, TypeVar

from tool_call_evaluators.agent_tree import MOST_TEXT, called_tools
from tool_call_evaluators.evaluator import Scope
from tool_call_evaluators.outcomes.calibration import calibration_name, standing
from tool_call_evaluators.texts import excerpt
from tool_call_evaluators.visibility import visibility_in

from ..turn import STARTS_TRACE, Turn, TurnLinks, rfc3339_at
from .base import (
    MAX_EXAMINED,
    MAX_PAGE_BYTES,
    STATUSES,
    ConversationKey,
    KeptVerdict,
    Page,
    RunSummary,
    RunVerdict,
    ScoredConversation,
    TurnJson,
    TurnQuery,
)
from .dialects import SqlDialect
from .encoding import json_text, stored_text
from .observations import ObservationTable
from .schema import OUTCOMES
from .turn_filter import ANY_TURN, TurnFilter, turn_verdict

T = TypeVar("T")

_KEPT = (
    "turn_id", "run", "case_id", "conversation_id", "task_id", "state", "status",
    "started_at", "first_event_at", "ended_at",
)  # fmt: skip


def turn_summary(turn: TurnJson) -> TurnJson:
    """Ids, times, state, verdict, the beginnings of the texts, the called tools, what is known of calls, the codes of
    findings, which of several agents it is of, and how people assessed the turn and its results, if they did."""
    calls = turn["tool_calls"]
    summary = {
        **{name: turn[name] for name in _KEPT},
        "user_text": excerpt(turn["user_text"], MOST_TEXT),
        "response_text": excerpt(turn["response_text"], MOST_TEXT),
        **called_tools([(call["name"], call["error"]) for call in calls]),
        "calls": visibility_in(turn).calls.value,
        "findings": list(dict.fromkeys(finding["code"] for finding in turn["findings"])),
        "verdict": turn_verdict(turn["evaluations"]),
    }
    if name := turn.get("agent_name"):
        summary["agent_name"] = name
    if annotations := turn.get("annotations"):
        said = [annotation["assessment"] for annotation in annotations if annotation["assessment"] is not None]
        summary |= {"assessments": said} if said else {}
    return summary


MAX_COUNTED = 1_000
"""The newest turns that `calls` and the following figures count: they cost the same in a store of any size."""


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """`turns` is the number of all turns of the query; `failed` and `errored` count turns. `seconds` is sorted."""

    turns: int
    counted: int
    calls: int
    failed: int
    errored: int
    seconds: tuple[float, ...]


MOST_OF_A_TURN = 100  # annotations of one turn, of all raters


@dataclass(frozen=True, slots=True)
class Annotation:
    """An assessment, "right" or "wrong", of a turn or of the result of one `evaluator`; or a `label`, which says what
    that evaluator should have found (None: see there).

    `score`, `passed` and `version` are those of that result when it was annotated. Times are RFC 3339. Ids ascend with
    time. `by` is "person" or "model".
    """

    annotation_id: str
    turn_id: str
    assessment: str | None
    note: str
    who: str
    at: str
    evaluator: str | None = None
    score: float | None = None
    passed: bool | None = None
    version: str | None = None
    label: str | float | None = None
    """"pass", "fail", a grade on the evaluator's scale, or the name of one of its labels."""
    by: str = "person"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, as in the `annotations` of a turn."""
        return asdict(self)


INSERT = (
    "INSERT INTO annotations (annotation_id, turn_id, body)"  # noqa: S608  # fixed texts
    " SELECT CAST(:annotation_id AS TEXT), turn_id, CAST(:body AS TEXT) FROM turns WHERE turn_id = :turn_id"
    f" AND (SELECT count(*) FROM annotations WHERE annotations.turn_id = turns.turn_id) < {MOST_OF_A_TURN}"
)
PUT_CALIBRATION = (
    "INSERT INTO calibrations (name, body) VALUES (:name, :body) ON CONFLICT (name) DO UPDATE SET body = excluded.body"
)
DELETE = "DELETE FROM annotations WHERE annotation_id = :annotation_id AND turn_id = :turn_id"


Rows = Iterable[Any]

Order = Literal["ASC", "DESC"]  # of turns by their `seq`
BEYOND: dict[Order, str] = {"ASC": ">", "DESC": "<"}  # how a `seq` that follows another one compares with it
MAX_PAGE = 1_000
_LARGEST = 2**63 - 1

_NEWEST_OF_CASES = (
    "{newest} AND t.case_id IS NOT NULL"
    " AND t.conversation_id != '' AND t.status = 'done' GROUP BY t.run, t.case_id, t.conversation_id"
)
_POSITIONS = f"SELECT t.run, t.case_id, t.conversation_id, count(*) FROM turns AS t WHERE {_NEWEST_OF_CASES}"  # noqa: S608  # fixed texts
_UNSCORED = (
    "SELECT t.run, t.conversation_id, t.case_id FROM turns AS t LEFT JOIN conversations AS c"  # noqa: S608  # fixed texts
    " ON c.run = t.run AND c.conversation_id = t.conversation_id AND c.case_id = t.case_id AND c.agent_name = {agent}"
    f" WHERE {_NEWEST_OF_CASES} HAVING count(*) > coalesce(max(c.turns), 0) ORDER BY min(t.seq)"
)
_SUMS = ", ".join(f"sum({outcome}) AS {outcome}" for outcome in OUTCOMES)
_TOTALS = ", ".join(f"t.{outcome} + coalesce(c.{outcome}, 0)" for outcome in OUTCOMES)
_RUNS = (
    f"SELECT run, turns, pending, {_TOTALS}, started, ended, suite, v.status, numbers, v.conversations FROM"  # noqa: S608  # fixed texts
    " (SELECT run, min(seq) AS first, count(*) AS turns, count(*) FILTER (WHERE status = 'pending') AS pending,"
    f" min(started_at) AS started, max(ended_at) AS ended, {_SUMS} FROM turns WHERE {{conditions}} GROUP BY run) AS t"
    f" LEFT JOIN (SELECT run, {_SUMS} FROM conversations WHERE {{conditions}} GROUP BY run) AS c USING (run)"
    " LEFT JOIN verdicts AS v USING (run) ORDER BY first"
)
"""The columns of RunSummary; `{conditions}` selects the run."""
_KEEP = (
    "INSERT INTO verdicts (key, run, suite, plan, status, verdict, numbers, conversations)"
    " VALUES (:key, :run, :suite, :plan, :status, :verdict, :numbers, :conversations)"
    " ON CONFLICT (key) DO UPDATE SET suite = excluded.suite, plan = excluded.plan, status = excluded.status,"
    " verdict = excluded.verdict, numbers = excluded.numbers, conversations = excluded.conversations"
)
_OF_TRAFFIC = "verdicts.numbers != ''"
"""The condition that a verdict follows the traffic: what `run` and `evaluate` say stands."""
_JUDGED = (
    "UPDATE verdicts SET status = :status, verdict = :verdict, numbers = :numbers, conversations = :conversations"  # noqa: S608  # fixed texts
    f" WHERE key = :key AND {_OF_TRAFFIC}"
)


LinkedBy = Literal["trace_id", "task_id", "conversation_id"]


class LinkedTurn(NamedTuple):
    """A turn, the number of its row, and what it shows of the turns that caused it or that it caused."""

    seq: int
    turn: TurnJson
    parent_span_id: str
    links: TurnLinks

    @classmethod
    def of(cls, seq: int, status: str, body: str, evaluations: str, links: str) -> LinkedTurn:
        """From the columns of its row."""
        shown = json.loads(links) if links else {}
        known = TurnLinks.from_dict(shown) if shown else STARTS_TRACE
        return cls(seq, turn_json(status, body, evaluations), shown.get("parent_span_id", ""), known)


_CHUNK = 2_000  # turns that are examined at once where not all of them need be on the page

_TURNS = (
    "WITH found AS (SELECT seq, row_number() OVER page AS place, sum(size) OVER page - size AS earlier FROM"
    " (SELECT seq, size FROM turns WHERE {conditions} ORDER BY seq {order} LIMIT :one_more) AS sized"
    " WINDOW page AS (ORDER BY seq {order})) SELECT seq, status, body, evaluations,"
    " (SELECT '[' || {joined}(a.body, ',') || ']' FROM annotations AS a WHERE a.turn_id = turns.turn_id),"
    " (SELECT count(*) FROM found) FROM found JOIN turns USING (seq)"
    " WHERE place <= :limit AND earlier < :bytes ORDER BY seq {order}"
)
"""The rows of `StoreReads._turns`."""

_LINKED = (
    "SELECT seq, status, body, evaluations, links FROM turns JOIN"
    " (SELECT seq, sum(size) OVER (ORDER BY seq) - size AS earlier FROM turns WHERE seq IN ({selected})) AS summed"
    " USING (seq) WHERE earlier < :bytes ORDER BY seq"
)
"""The columns of `LinkedTurn.of`."""


class StoreReads(ABC):
    """The reading half of a store. Raises StoreError while the store cannot be read."""

    shared: bool  # whether other proxies use it too: then what is pending may be on its way elsewhere

    _dialect: SqlDialect

    @abstractmethod
    async def _read(
        self, statement: str, values: dict[str, Any], decode: Callable[[Rows], T], *, search: bool = False
    ) -> T:
        """Run a statement with parameters `:name` and return its decoded rows. `search`: it examines thousands of
        turns, for which others are not to wait."""

    @abstractmethod
    async def _change(self, statement: str, values: dict[str, Any]) -> int:
        """Run a statement with parameters `:name` in a transaction; returns the number of changed rows."""

    def _conditions(self, **equal: str | None) -> tuple[str, dict[str, Any]]:
        """Returns the condition that these columns have these values (None: any), and its parameters."""
        values = {column: stored_text(value) for column, value in equal.items() if value is not None}
        return " AND ".join(["true", *map(self._dialect.has, values)]), values

    async def _turns(
        self,
        conditions: str,
        values: dict[str, Any],
        order: Order,
        limit: int,
        content: TurnFilter = ANY_TURN,
        *,
        summary: bool = False,
    ) -> tuple[list[TurnJson], int | None]:
        """Returns the first turns that fulfil the conditions and have the content, up to the limits of `Page`, and the
        `seq` of the last one that was examined if more fulfil the conditions."""
        chunk = max(limit, _CHUNK) if content else limit
        values = {**values, "limit": chunk, "one_more": chunk + 1, "bytes": MAX_PAGE_BYTES}
        turns: list[TurnJson] = []
        size = last = 0

        def is_full() -> bool:
            return len(turns) == limit or size >= MAX_PAGE_BYTES

        def take(rows: Rows) -> bool:
            """Add turns until the page is full; returns whether more rows follow."""
            nonlocal size, last
            taken = found = 0
            for seq, status, body, evaluations, annotated, found in rows:  # noqa: B007  # the same number in each row
                if is_full():
                    return True
                last = seq
                taken += 1
                if content.matches(body, evaluations):
                    size += len(body.encode()) + len(evaluations.encode())
                    turn = turn_json(status, body, evaluations, annotated)
                    turns.append(turn_summary(turn) if summary else turn)
            return found > taken

        while True:
            statement = _TURNS.format(conditions=conditions, order=order, joined=self._dialect.joined)
            more = await self._read(statement, values, take, search=bool(content))
            if not more or is_full():
                break
            conditions += "" if "after" in values else f" AND seq {BEYOND[order]} :after"
            values["after"] = last
        if not summary:
            await self._with_standing([result for turn in turns for result in turn["evaluations"]])
        return turns, last if more else None

    async def _linked(self, selected: str, values: dict[str, Any]) -> list[LinkedTurn]:
        """Returns the turns with the selected `seq`, oldest first, up to about `MAX_PAGE_BYTES`."""
        statement = _LINKED.format(selected=selected)
        values = {**values, "bytes": MAX_PAGE_BYTES}
        return await self._read(statement, values, lambda rows: [LinkedTurn.of(*row) for row in rows])

    async def agents(self, run: str | None = None) -> list[str]:
        """The agents that have turns, of a run or of all (`Turn.agent_key`)."""
        conditions, values = self._conditions(run=run)
        statement = f"SELECT DISTINCT agent FROM turns WHERE {conditions} AND agent != '' ORDER BY agent"  # noqa: S608  # fixed texts
        return await self._read(statement, values, lambda rows: [agent for (agent,) in rows])

    def observations(self, agent: str) -> ObservationTable:
        """What was observed of the tasks of an agent (`Agent.key`)."""
        return ObservationTable(self._read, self._change, stored_text(agent))

    async def turns(self, query: TurnQuery) -> Page:
        order: Order = "DESC" if query.newest_first else "ASC"
        conditions, values = self._conditions(
            run=query.run, conversation_id=query.conversation, case_id=query.case, agent=query.agent
        )
        if query.status is not None:
            if query.status not in STATUSES:
                raise ValueError(f"status: expected one of {', '.join(STATUSES)}, got {query.status!r}")
            condition = f"status = '{query.status}'"
            if query.status != "done":  # few are open or pending: their indexes have the condition as it is here
                condition = f"seq IN (SELECT seq FROM turns WHERE {condition})"  # noqa: S608  # fixed texts
            conditions += f" AND {condition}"
        if query.cursor is not None:
            if not (query.cursor.isascii() and query.cursor.isdigit()):
                raise ValueError(f"cursor: expected the next_cursor of a page, got {query.cursor!r}")
            conditions += f" AND seq {BEYOND[order]} :cursor"
            values["cursor"] = min(int(query.cursor), _LARGEST)
        end = None
        if query.content:
            if query.conversation is None:
                end = await self._last_examined(conditions, values, order)
            if end is not None:
                conditions += f" AND NOT seq {BEYOND[order]} :end"
                values["end"] = end
            conditions, values = self._with_content(conditions, values, query.content)
        limit = max(1, min(query.limit, MAX_PAGE))
        turns, last = await self._turns(conditions, values, order, limit, query.content, summary=query.summary)
        last = end if last is None else last
        return Page(turns, None if last is None else str(last))

    async def _newest(self, conditions: str, values: dict[str, Any], most: int) -> list[TurnJson]:
        """Returns the last turns that fulfil the conditions, oldest first, up to the limits of `Page`."""
        turns, _ = await self._turns(conditions, values, "DESC", most)
        return turns[::-1]

    async def _last_examined(self, conditions: str, values: dict[str, Any], order: Order) -> int | None:
        """The `seq` of the turn that is the last to examine for a page; None: all may be examined."""
        statement = f"SELECT seq FROM turns WHERE {conditions} ORDER BY seq {order} LIMIT 1 OFFSET :examined"  # noqa: S608  # fixed texts
        found = await self._read(statement, {**values, "examined": MAX_EXAMINED - 1}, list)
        return found[0][0] if found else None

    def _with_content(self, conditions: str, values: dict[str, Any], content: TurnFilter) -> tuple[str, dict[str, Any]]:
        """Adds conditions that all turns with this content fulfil."""
        parameters: dict[str, Any] = {}
        for number, (column, pattern) in enumerate(content.patterns()):
            conditions += f" AND {self._dialect.like(column, f'pattern_{number}')}"
            parameters[f"pattern_{number}"] = pattern
        if content.cases is not None:
            conditions += f" AND {self._dialect.one_of('case_id', 'cases')}"
            parameters["cases"] = json_text([stored_text(case_id) for case_id in sorted(content.cases)])
        return conditions, values | parameters

    async def turn(self, turn_id: str) -> TurnJson | None:
        return next(iter(await self._newest("turn_id = :turn_id", {"turn_id": stored_text(turn_id)}, 1)), None)

    async def cursor_after(self, turn_id: str) -> str | None:
        """The cursor of the page that begins after this turn; None where the store does not have it."""
        found = await self._read(
            "SELECT seq FROM turns WHERE turn_id = :turn_id", {"turn_id": stored_text(turn_id)}, list
        )
        return str(found[0][0]) if found else None

    async def earlier(
        self, turn: Turn, most: int, agent_name: str | None = None, case_id: str | None = None
    ) -> list[TurnJson]:
        """The last turns of its conversation and run that were added before it, oldest first: at most `most`, and no
        more once they reach `MAX_PAGE_BYTES`. Those of one of several agents, or (None) of any; likewise of a case."""
        if not turn.conversation_id:
            return []
        conditions, values = self._conditions(
            conversation_id=turn.conversation_id, run=turn.run, agent=agent_name, case_id=case_id
        )
        conditions += " AND seq < (SELECT seq FROM turns WHERE turn_id = :turn_id)"
        return await self._newest(conditions, {**values, "turn_id": turn.turn_id}, most)

    async def of_task(self, task_id: str, agent: str, most: int) -> list[TurnJson]:
        """The last turns of a task of an agent (`Turn.agent_key`), whatever their status, oldest first: as many as in
        `earlier`."""
        return await self._newest(*self._conditions(task_id=task_id, agent=agent), most)

    async def linked_turn(self, turn_id: str) -> LinkedTurn | None:
        """A turn with its links; None where the store does not have it."""
        selected = "SELECT seq FROM turns WHERE turn_id = :turn_id"
        return next(iter(await self._linked(selected, {"turn_id": stored_text(turn_id)})), None)

    async def linked_by(self, column: LinkedBy, identifier: str, near: int, most: int) -> list[LinkedTurn]:
        """Turns with this id, with their links: at most `most`, those whose `seq` is nearest to `near`."""
        selected = f"SELECT seq FROM turns WHERE {self._dialect.has(column)} AND {column} != ''"  # noqa: S608  # fixed texts
        if column == "trace_id":  # `EncodedTurn.trace_id` leaves that of a turn which begins its trace to the turn's id
            selected += " UNION ALL SELECT seq FROM turns WHERE turn_id = :trace_id"
        return await self._nearest(selected, {column: stored_text(identifier)}, near, most)

    async def linked_by_names(self, names: Collection[str], near: int, most: int) -> list[LinkedTurn]:
        """Turns that name one of these (`encoding.name_key`), as in `linked_by`."""
        listed = self._dialect.listed.format(":names")
        selected = f"SELECT seq FROM turn_names JOIN turns USING (turn_id) WHERE name IN ({listed})"  # noqa: S608  # fixed texts
        return await self._nearest(selected, {"names": json_text(list(names))}, near, most)

    async def _nearest(self, selected: str, values: dict[str, Any], near: int, most: int) -> list[LinkedTurn]:
        nearest = f"SELECT seq FROM ({selected}) AS found ORDER BY abs(seq - :near), seq LIMIT :most"  # noqa: S608  # fixed texts
        return await self._linked(nearest, {**values, "near": near, "most": most})

    async def conversations(self, run: str | None = None, conversation: str | None = None) -> list[ScoredConversation]:
        """Returns the evaluations of whole conversations: of a run, of one conversation, or all."""
        conditions, values = self._conditions(run=run, conversation_id=conversation)
        columns = "run, conversation_id, case_id, agent_name, turns, evaluations"
        statement = f"SELECT {columns} FROM conversations WHERE {conditions}"  # noqa: S608  # fixed texts
        found = await self._read(
            statement,
            values,
            lambda rows: [
                ScoredConversation(
                    ConversationKey(run, conversation, case_id or None, agent or None), turns, json.loads(evaluations)
                )
                for run, conversation, case_id, agent, turns, evaluations in rows
            ],
        )
        await self._with_standing([result for one in found for result in one.evaluations], "conversation")
        return found

    async def newest_conversations(
        self, run: str | None, most: int, agent: str | None = None
    ) -> list[tuple[str, list[dict[str, Any]]]]:
        """The id of the first turn of each scored conversation, and its evaluations: those of the newest `most`
        conversations, of a run and an agent (None: of any), the newest first. Turns before the newest `MAX_EXAMINED` do
        not count."""
        conditions, values = self._conditions(run=run, agent=agent)
        if (end := await self._last_examined(conditions, values, "DESC")) is not None:
            conditions, values = f"{conditions} AND seq >= :end", {**values, "end": end}
        statement = (
            "SELECT first.turn_id, whole.evaluations FROM (SELECT min(t.began) AS began, max(t.ended) AS ended,"  # noqa: S608  # fixed texts
            " c.evaluations FROM (SELECT run, conversation_id, coalesce(case_id, '') AS case_id, agent,"
            f" min(seq) AS began, max(seq) AS ended FROM turns WHERE {conditions} AND conversation_id != ''"
            f" GROUP BY run, conversation_id, coalesce(case_id, ''), agent ORDER BY ended DESC LIMIT {int(most)}) AS t"
            " JOIN conversations AS c ON c.run = t.run AND c.conversation_id = t.conversation_id"
            " AND c.case_id = t.case_id AND c.agent_name IN ('', t.agent)"
            " GROUP BY c.run, c.conversation_id, c.case_id, c.agent_name, c.evaluations) AS whole"
            " JOIN turns AS first ON first.seq = whole.began ORDER BY whole.ended DESC"
        )
        return await self._read(statement, values, lambda rows: [(first, json.loads(said)) for first, said in rows])

    async def unscored_conversations(self, newest: int, agent_name: str | None = None) -> list[ConversationKey]:
        """Returns the conversations of cases, among the `newest` turns, with scored turns not evaluated yet. The turns
        are those of one of several agents, or (None) of any."""
        statement, values = self._of_newest(_UNSCORED, newest, agent_name)
        return await self._read(
            statement,
            values,
            lambda rows: [
                ConversationKey(run, conversation, case_id, agent_name) for run, conversation, case_id in rows
            ],
        )

    async def positions(self, newest: int, agent_name: str | None = None) -> dict[tuple[str, str, str], int]:
        """Returns the number of scored turns among the `newest`, by run, case and conversation. The turns are those of
        one of several agents, or (None) of any."""
        statement, values = self._of_newest(_POSITIONS, newest, agent_name)
        return await self._read(
            statement, values, lambda rows: {(run, case, id_): count for run, case, id_, count in rows}
        )

    def _of_newest(self, statement: str, newest: int, agent_name: str | None) -> tuple[str, dict[str, Any]]:
        of_agent, values = self._conditions(agent=agent_name)
        condition = "seq > (SELECT coalesce(max(seq), 0) FROM turns) - :newest"
        if agent_name is not None:
            condition = f"seq IN (SELECT seq FROM turns WHERE {of_agent} ORDER BY seq DESC LIMIT :newest)"  # noqa: S608  # fixed texts
        agent = "''" if agent_name is None else ":agent"
        return statement.format(newest=condition, agent=agent), {**values, "newest": newest}

    async def annotate(self, annotation: Annotation) -> bool:
        """Add it to its turn; False where the store does not have the turn, or it has `MOST_OF_A_TURN` already."""
        body = json_text(annotation.to_dict())
        ids = {"annotation_id": annotation.annotation_id, "turn_id": stored_text(annotation.turn_id)}
        return await self._change(INSERT, {**ids, "body": body}) == 1

    async def remove_annotation(self, turn_id: str, annotation_id: str) -> bool:
        """Delete it; False where the turn has none with this id."""
        ids = {"annotation_id": stored_text(annotation_id), "turn_id": stored_text(turn_id)}
        return await self._change(DELETE, ids) == 1

    async def annotations(self, run: str | None = None) -> list[dict[str, Any]]:
        """All annotations (JSON forms) of the turns of a run, or (None) of all, in no order."""
        conditions, values = self._conditions(run=run)
        statement = f"SELECT annotations.body FROM annotations JOIN turns USING (turn_id) WHERE {conditions}"  # noqa: S608  # fixed texts
        return await self._read(statement, values, lambda rows: [json.loads(body) for (body,) in rows])

    async def calibrations(self) -> list[dict[str, Any]]:
        """The calibrations of judges (`tool_call_evaluators.outcomes.calibration`), in no order."""
        return await self._read(
            "SELECT body FROM calibrations", {}, lambda rows: [json.loads(body) for (body,) in rows]
        )

    async def put_calibration(self, made: dict[str, Any]) -> None:
        """Keep a calibration in place of an earlier one of the same judge."""
        await self._change(PUT_CALIBRATION, {"name": stored_text(calibration_name(made)), "body": json_text(made)})

    async def _with_standing(self, results: Sequence[dict[str, Any]], scope: Scope = "turn") -> None:
        """Write into the results of judges what calibrations say about them: `details.judge.calibration`."""
        judged = [result for result in results if isinstance(result.get("details", {}).get("judge"), dict)]
        made = await self.calibrations() if judged else []
        for result in judged:
            if found := standing(result, made, scope):
                result["details"]["judge"]["calibration"] = found

    async def agent_cards(self, most: int) -> list[tuple[str, dict[str, str]]]:
        """Returns the runs whose agent has a known version, with `Turn.agent_card` of their first and of their last
        turns; the newest first, at most `most` of these turns."""
        ends = "SELECT min(seq) FROM turns GROUP BY run UNION SELECT max(seq) FROM turns GROUP BY run"
        statement = (
            f"SELECT run, {self._dialect.card} FROM turns WHERE seq IN ({ends})"  # noqa: S608  # fixed texts
            f" AND {self._dialect.card} IS NOT NULL ORDER BY seq DESC LIMIT :most"
        )
        return await self._read(statement, {"most": most}, lambda rows: [(run, json.loads(card)) for run, card in rows])

    async def run_names(self, most: int, agent: str | None = None) -> list[str]:
        """Returns the names of the runs with the newest turns, of one of several agents or (None) of any, at most
        `most`, the newest first."""
        conditions, values = self._conditions(agent=agent)
        statement = f"SELECT run FROM turns WHERE {conditions} GROUP BY run ORDER BY max(seq) DESC LIMIT :most"  # noqa: S608  # fixed texts
        return await self._read(statement, {**values, "most": most}, lambda rows: [name for (name,) in rows])

    async def figures(self, run: str | None = None, agent: str | None = None) -> TurnFigures:
        """Figures of the newest turns, of a run or of all, of one of several agents or of all."""
        conditions, values = self._conditions(run=run, agent=agent)
        statement = f"SELECT count(*) FROM turns WHERE {conditions}"  # noqa: S608  # fixed texts
        ((turns,),) = await self._read(statement, values, list)
        statement = (
            f"SELECT {self._dialect.calls}, failed > 0, failed = 0 AND errored > 0, ended_at - started_at"  # noqa: S608  # fixed texts
            f" FROM turns WHERE {conditions}"
            f" ORDER BY seq DESC LIMIT {MAX_COUNTED}"
        )
        rows = await self._read(statement, values, list)
        calls, failed, errored, seconds = zip(*rows, strict=True) if rows else ((), (), (), ())
        timed = sorted(round(one, 3) for one in seconds if one is not None)
        return TurnFigures(turns, len(rows), sum(calls), sum(failed), sum(errored), tuple(timed))

    async def keep_verdict(self, run: str, kept: KeptVerdict) -> None:
        """Keep it with the run. Suites and verdicts that follow the traffic (`KeptVerdict.of`) never replace others."""
        await self._change(_KEEP + (f" WHERE {_OF_TRAFFIC}" if kept.of else ""), _columns(run, kept))

    async def judged(self, run: str, kept: KeptVerdict) -> None:
        """Replace the verdict, which follows the traffic. The suites stay: others may have come meanwhile."""
        values = _columns(run, kept)
        written = ("key", "status", "verdict", "numbers", "conversations")
        await self._change(_JUDGED, {name: values[name] for name in written})

    async def kept_verdict(self, run: str) -> KeptVerdict | None:
        statement = "SELECT suite, plan, status, verdict, numbers, conversations FROM verdicts WHERE key = :key"

        def decode(rows: Rows) -> KeptVerdict | None:
            for suite, plan, status, verdict, numbers, conversations in rows:
                return KeptVerdict(suite, json.loads(plan), status, json.loads(verdict), numbers, conversations)
            return None

        return await self._read(statement, {"key": _verdict_key(run)}, decode)

    async def runs(self, name: str | None = None) -> list[RunSummary]:
        conditions, values = self._conditions(run=name)
        return await self._read(_RUNS.format(conditions=conditions), values, lambda rows: list(map(_summary, rows)))


def _summary(row: Any) -> RunSummary:
    *counts, started, ended, suite, status, of, conversations = row
    times: list[Any] = [rfc3339_at(started), rfc3339_at(ended)]
    run = RunSummary(*counts, *times)
    if suite is None:
        return run
    stands = of in ("", run.numbers)
    return replace(run, verdict=RunVerdict(suite, status, conversations) if stands else RunVerdict(suite, "pending"))


def _verdict_key(run: str) -> str:
    return sha256(stored_text(run).encode()).hexdigest()


def _columns(run: str, kept: KeptVerdict) -> dict[str, str]:
    return {
        "key": _verdict_key(run),
        "run": stored_text(run),
        "suite": stored_text(kept.suite),
        "plan": json_text(kept.plan),
        "status": kept.status,
        "verdict": json_text(kept.verdict),
        "numbers": kept.of,
        "conversations": kept.conversations,
    }


def turn_json(status: str, body: str, evaluations: str, annotated: str | None = None) -> TurnJson:
    """Returns the turn of a row as in /api/turns. `annotated`: its annotations as a JSON list."""
    turn = {**json.loads(body), "status": status, "evaluations": json.loads(evaluations)}
    if annotated is not None:
        turn["annotations"] = sorted(json.loads(annotated), key=lambda item: str(item["annotation_id"]))
    return turn
