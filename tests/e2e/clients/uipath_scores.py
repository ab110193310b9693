"""UiPath's own tool call evaluators. Reads JSON from standard input, a list of [evaluator, configuration, attributes of
spans, criteria]; writes the list of [score, justification]."""

import asyncio
import json
import sys

from opentelemetry.sdk.trace import ReadableSpan
from uipath.eval import evaluators
from uipath.eval.models import WorkloadExecution


def evaluated(name, config, attributes, criteria):
    spans = [
        ReadableSpan(name="span", start_time=number, end_time=number + 1, attributes=item)
        for number, item in enumerate(attributes)
    ]
    evaluator = getattr(evaluators, name).model_validate(
        {"id": "x", "version": "1.0", "evaluatorConfig": {"name": "x", **config}}
    )
    execution = WorkloadExecution(agent_input={}, workload_output={}, workload_trace=spans)
    result = asyncio.run(evaluator.validate_and_evaluate_criteria(execution, criteria))
    return [result.score, result.details.model_dump()]


sys.stdout.write("\n" + json.dumps([evaluated(*item) for item in json.load(sys.stdin)]))
