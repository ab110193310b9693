"""JSON Schemas of what the admin API answers, by the names that the OpenAPI document gives them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Literal, get_args

from a2a_tool_capture.models import Severity, ToolCallSource
from pydantic import BaseModel, StringConstraints
from tool_call_evaluators.agent_tree import EdgeEvidence
from tool_call_evaluators.matching.explain import ChangeKind
from tool_call_evaluators.model import Status
from tool_call_evaluators.report.timeline import KINDS
from tool_call_evaluators.runs.calibration import BY
from tool_call_evaluators.runs.comparison import CaseStatus
from tool_call_evaluators.runs.regression import Answer
from tool_call_evaluators.visibility import Calls

from ..store.base import STATUSES, RunStatus
from ..store.turn_filter import VERDICTS
from .agent_report import Health
from .api_operation import Schema

ANY: Schema = {}
TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
TEXTS: Schema = {"type": "array", "items": TEXT}
TIME: Schema = {"type": "string", "format": "date-time", "description": "RFC 3339 in UTC, with microseconds"}
OPEN: Schema = {"type": "object"}  # an object of any content


def record(*, optional: Collection[str] = (), **properties: Schema) -> Schema:
    """An object with these properties, all but the `optional` ones required."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def choice(values: Sequence[str]) -> Schema:
    return {"type": "string", "enum": list(values)}


def nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def page_of(*names: str) -> Schema:
    """A list in the form of every list of the API."""
    items = named(names[0]) if len(names) == 1 else {"anyOf": [named(name) for name in names]}
    return record(items=listed(items), next_cursor=nullable(TEXT))


ASSESSMENTS = ("right", "wrong")
MAX_NOTE, MAX_WHO = 2_000, 100  # characters

_Id = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class NewAnnotation(BaseModel, extra="forbid"):
    """An assessment of a turn or of one of its results, or a label of a result."""

    assessment: Literal["right", "wrong"] | None = None
    evaluator: str | None = None
    label: str | float | bool | None = None
    by: Literal["person", "model"] = "person"
    note: Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_NOTE)] = ""
    who: Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_WHO)] = ""


class NewBinding(BaseModel):
    case_id: _Id


class NewSuiteCase(BaseModel):
    turn_id: _Id
    case_id: _Id | None = None


_LABEL: Schema = {
    "anyOf": [TEXT, NUMBER],
    "description": "What the evaluator should have found: pass, fail, a grade on its scale, or one of its labels",
}
_TIMES = {"started_at": TIME, "first_event_at": nullable(TIME), "ended_at": nullable(TIME)}
_ASKED = {
    "evidence": choice(list(EdgeEvidence)), "certain": BOOLEAN,
    "reason": {"type": "string", "description": "How it is known, for people"},
}  # fmt: skip
_RESULTS = dict.fromkeys(("passed", "failed", "errored", "skipped"), COUNT)
_RUN = {
    "name": TEXT, "turns": COUNT, "pending": COUNT, **_RESULTS,
    "started_at": nullable(TIME), "ended_at": nullable(TIME),
}  # fmt: skip
_VERDICT = {"suite": TEXT, "passed": BOOLEAN, "status": choice(get_args(RunStatus))}
_EVALUATION = {
    "evaluator": TEXT, "score": nullable(NUMBER), "passed": nullable(BOOLEAN), "threshold": nullable(NUMBER),
    "reason": TEXT, "details": OPEN, "status": choice(list(Status)), "label": nullable(TEXT),
    "scale": listed(NUMBER), "version": TEXT,
}  # fmt: skip
_USAGE = record(
    optional=["unanswered"], requests=COUNT, prompt_tokens=nullable(COUNT), completion_tokens=nullable(COUNT),
    cost=nullable(NUMBER), unanswered=COUNT,
)  # fmt: skip

_HEADERS = listed({"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2})
_CONTENT = {"bytes": COUNT, "text": TEXT, "base64": TEXT, "withheld": TEXT}
_BODY = record(optional=["text", "base64", "withheld", "cut", "coding"], **_CONTENT, cut=BOOLEAN, coding=TEXT)
_EXCHANGE = record(
    offset_s=NUMBER, opens_turn=BOOLEAN, notification=BOOLEAN,
    request=record(method=TEXT, target=TEXT, headers=_HEADERS, body=_BODY),
    response=nullable(record(
        optional=["events", "events_left_out", "body", "pieces"],
        offset_s=NUMBER, status=COUNT, headers=_HEADERS, bytes_left_out=COUNT,
        events=listed(record(optional=["text", "base64", "withheld"], offset_s=NUMBER, **_CONTENT)),
        events_left_out=COUNT, body=_BODY, pieces=listed(record(offset_s=NUMBER, bytes=COUNT)),
    )),
    end_s=nullable(NUMBER), problem=nullable(TEXT),
)  # fmt: skip

_CALL = record(name=TEXT, arguments=nullable(OPEN))
_EXPECTED = record(optional=["result", "error"], name=TEXT, arguments=nullable(OPEN), result=ANY, error=ANY)
_CHANGE = {
    "kind": choice(get_args(ChangeKind)), "left": COUNT, "right": COUNT,
    "differences": listed(record(optional=["part"], path=TEXT, problem=TEXT, expected=ANY, actual=ANY, part=TEXT)),
}  # fmt: skip
_SCORE = record(
    metric=TEXT, before=nullable(NUMBER), after=nullable(NUMBER), delta=nullable(NUMBER), counts=listed(COUNT),
    interval=nullable(listed(NUMBER)), p_value=nullable(NUMBER), dropped=BOOLEAN,
)  # fmt: skip

SCHEMAS: dict[str, Schema] = {
    "Error": record(error={"type": "string", "description": "What is wrong, and what is expected"}),
    "ToolCall": record(
        optional=["default_arguments"], default_arguments=TEXTS,
        id=TEXT, name=TEXT, arguments=nullable(OPEN), result=nullable(TEXT), error=nullable(TEXT),
        source=choice(list(ToolCallSource)),
    ),
    "CallTimes": record(
        optional=["started_at", "ended_at", "first_seen_at", "result_seen_at"],
        source=choice(["trace", "protocol"]), started_at=TIME, ended_at=nullable(TIME),
        first_seen_at=TIME, result_seen_at=nullable(TIME),
    ),
    "Span": record(
        optional=["input_tokens", "output_tokens"],
        span_id=TEXT, parent_span_id=TEXT, name=TEXT, started_at=TIME, ended_at=TIME, failed=BOOLEAN,
        input_tokens=NUMBER, output_tokens=NUMBER,
    ),
    "Finding": record(code=TEXT, severity=choice(list(Severity)), message=TEXT, where=TEXT),
    "Evaluation": record(**_EVALUATION),
    "Annotation": record(
        optional=["label", "by"],
        annotation_id=TEXT, turn_id=TEXT, assessment=nullable(choice(ASSESSMENTS)), note=TEXT, who=TEXT, at=TIME,
        evaluator=nullable(TEXT), score=nullable(NUMBER), passed=nullable(BOOLEAN), version=nullable(TEXT),
        label=nullable(_LABEL), by=choice(BY),
    ),
    "NewAnnotation": NewAnnotation.model_json_schema(),
    "Calibration": {**OPEN, "description": "How far a judge agrees with people; see evaluators/docs/calibration.md"},
    "Turn": record(
        optional=[
            "agent_name", "call_times", "calls", "calls_evidence", "agent_card", "attempt", "simulated_user", "usage",
            "spans", "annotations", "cut", "parent", "children",
        ],
        turn_id=TEXT, run=TEXT, case_id=nullable(TEXT), conversation_id=TEXT, task_id=TEXT, agent=TEXT, binding=TEXT,
        agent_name=TEXT, protocol_version=TEXT, state=nullable(TEXT), status=choice(STATUSES),
        user_text=TEXT, response_text=TEXT,
        **_TIMES, trace_id=TEXT, tool_calls=listed(named("ToolCall")),
        call_times=listed(nullable(named("CallTimes"))), calls=choice(list(Calls)), calls_evidence=TEXT,
        capture=record(
            declared=BOOLEAN, requested_by_client=BOOLEAN, snapshot_seen=BOOLEAN,
            sources={"type": "object", "additionalProperties": COUNT}, matched_by_id=COUNT,
            matched_by_signature=COUNT, protocol_only=COUNT, trace_only=COUNT,
        ),
        findings=listed(named("Finding")), simulated_user=OPEN, usage=OPEN,
        agent_card=record(name=TEXT, version=TEXT),
        attempt=record(number=COUNT, planned=COUNT, enough=nullable(COUNT), seed=nullable(COUNT)),
        spans=listed(named("Span")), evaluations=listed(named("Evaluation")),
        annotations=listed(named("Annotation")),
        cut={"type": "boolean", "description": "Whether texts or lists were shortened"},
        parent=named("RelatedTurn"), children=listed(named("RelatedTurn")),
    ),
    "Agent": record(
        name=nullable(TEXT), url=TEXT, upstream=TEXT, health=choice(get_args(Health)), why=TEXT, repair=TEXT,
        card=nullable(record(name=TEXT, bindings=TEXT)), extension=TEXT, calls=TEXT, traces=nullable(BOOLEAN), run=TEXT,
        suite=nullable(TEXT), suite_file=nullable(TEXT), open_turns=nullable(COUNT), queue_depth=nullable(COUNT),
        recent=record(turns=COUNT, failed=COUNT, calls_not_visible=COUNT),
        last_turn=nullable(record(turn_id=TEXT, started_at=TIME, verdict=choice(VERDICTS))),
    ),
    "RelatedTurn": record(
        turn_id=TEXT, agent=TEXT, state=nullable(TEXT), status=choice(STATUSES), **_ASKED,
    ),
    "TurnTree": record(
        turn_id=TEXT, root=named("TreeTurn"), totals=record(
            turns=COUNT, agents=COUNT, depth=COUNT, fan_out=COUNT, edges=COUNT, guesses=COUNT, failed=COUNT,
            tool_calls=COUNT, left_out=COUNT, seconds=nullable(NUMBER), input_tokens=nullable(NUMBER),
            output_tokens=nullable(NUMBER), cost=nullable(NUMBER), partly_known=TEXTS,
            is_cut=BOOLEAN,
        ),
        first_failed=nullable(TEXT),
    ),
    "TreeTurn": record(
        optional=["asked", "usage"],
        turn_id=TEXT, agent=TEXT, run=TEXT, case_id=nullable(TEXT), conversation_id=TEXT, task_id=TEXT,
        state=nullable(TEXT), status=choice(STATUSES), failure=nullable(TEXT), started_at=TIME, ended_at=nullable(TIME),
        user_text=TEXT, response_text=TEXT, tool_calls=listed(record(name=TEXT, error=BOOLEAN)),
        tool_call_count=COUNT, calls=choice(list(Calls)), usage=OPEN, asked=record(**_ASKED),
        children=listed(named("TreeTurn")), left_out=COUNT,
    ),
    "TurnSummary": record(
        optional=["agent_name", "assessments", "calls"],
        agent_name=TEXT, assessments=listed(choice(ASSESSMENTS)), calls=choice(list(Calls)),
        turn_id=TEXT, run=TEXT, case_id=nullable(TEXT), conversation_id=TEXT, task_id=TEXT, state=nullable(TEXT),
        status=choice(STATUSES), **_TIMES, user_text=TEXT, response_text=TEXT,
        tool_calls=listed(record(name=TEXT, error=BOOLEAN)), tool_call_count=COUNT, findings=TEXTS,
        verdict=choice(VERDICTS),
    ),
    "Conversation": record(
        conversation_id=TEXT, turns=listed(named("Turn")),
        evaluations=listed(
            record(optional=["agent_name"], run=TEXT, case_id=nullable(TEXT), agent_name=TEXT, **_EVALUATION)
        ),
        next_cursor=nullable(TEXT),
    ),
    "Run": record(**_RUN, verdict=nullable(record(**_VERDICT))),
    "RunDetails": record(
        **_RUN,
        metrics=nullable(listed(record(
            metric=TEXT, measured=COUNT, mean=nullable(NUMBER), **_RESULTS, pass_rate=nullable(NUMBER),
        ))),
        verdict=nullable(record(
            **_VERDICT, gates=listed(OPEN), reason_count=COUNT, tolerated_count=COUNT,
            reasons=listed(record(
                code=TEXT, message=TEXT, metric=nullable(TEXT), where=nullable(TEXT), case_id=nullable(TEXT),
                turn_id=nullable(TEXT),
            )),
        )),
        judges=nullable({**OPEN, "description": "What calibrations say about the judge of each judged metric"}),
        judge_usage=nullable(_USAGE),
    ),
    "CallDiff": record(
        turn_id=TEXT, case_id=nullable(TEXT), turn=nullable(COUNT), expected=nullable(listed(_EXPECTED)),
        actual=listed(_CALL), changes=nullable(listed(record(optional=["left", "right", "differences"], **_CHANGE))),
    ),
    "Comparison": record(
        before=TEXT, after=TEXT, regressed=BOOLEAN, comparable=BOOLEAN,
        excluded=listed({"type": "object", "additionalProperties": COUNT}),
        baseline=nullable(record(version=TEXT, runs=TEXTS, older=COUNT)),
        decision=record(answer=choice(get_args(Answer)), repetitions=nullable(COUNT), is_deterministic=BOOLEAN),
        not_judged=listed(record(metric=TEXT, reason=TEXT)), sensitivity=OPEN,
        counts={"type": "object", "additionalProperties": COUNT}, pass_rate=_SCORE, scores=listed(_SCORE),
        cases=listed(record(
            case=TEXT, status=choice(get_args(CaseStatus)), regressed=BOOLEAN,
            passed=listed(record(passed=COUNT, of=COUNT)), excluded=listed(COUNT),
            failures=TEXTS, fixes=TEXTS, scores=listed(_SCORE),
            turns=listed(record(
                turn=COUNT, shares=listed(record(made=COUNT, of=COUNT)),
                changes=listed(record(
                    optional=["left", "right", "differences"],
                    **_CHANGE, before=nullable(_CALL), after=nullable(_CALL),
                )),
            )),
        )),
    ),
    "CaseItem": record(
        case_id=TEXT, origin=choice(["suite", "registered"]), tags=TEXTS,
        case={"type": "object", "description": "The case as in a suite file"},
    ),
    "Suite": record(
        name=TEXT, source=nullable(TEXT), case_count=COUNT, metrics=TEXTS,
        evaluators={"type": "array", "description": "As in the suite file"},
        gates={"type": "object", "description": "As in the suite file"}, tolerate=TEXTS,
    ),
    "RegisteredCase": record(case_id=TEXT, context_id=nullable(TEXT)),
    "Binding": NewBinding.model_json_schema(),
    "NewSuiteCase": NewSuiteCase.model_json_schema(),
    "AppendedCase": record(case_id=TEXT, file=TEXT),
    "Timeline": record(
        turn_id=TEXT, started_at=TIME, duration_s=NUMBER,
        items=listed(record(
            optional=[
                "first_byte_s", "first_seen", "failed", "number",
                "span_id", "parent_span_id", "input_tokens", "output_tokens",
            ],
            kind=choice(KINDS), name=TEXT, start_s=NUMBER, end_s=nullable(NUMBER), first_byte_s=nullable(NUMBER),
            first_seen=BOOLEAN, failed=BOOLEAN, number=COUNT,
            span_id=TEXT, parent_span_id=TEXT, input_tokens=NUMBER, output_tokens=NUMBER,
        )),
    ),
    "Wire": record(turn_id=TEXT, started_at=TIME, complete=BOOLEAN, exchanges=listed(_EXCHANGE)),
    "Flushed": record(done=BOOLEAN, pending=COUNT, open=COUNT),
}  # fmt: skip
"""Objects may get further properties in later versions."""
