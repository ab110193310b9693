"""Turn books of one or several proxies, and a log that they share, in which what they observe is folded at once."""

from __future__ import annotations

import itertools

from a2a_eval_proxy.capture.observations import Observation, decoded, encoded, fold_task
from a2a_eval_proxy.capture.task_fold import FoldRules
from a2a_eval_proxy.capture.turn_book import TurnBook
from a2a_eval_proxy.turn import Turn


class Folded:
    """`book` is that of the proxy that began last; a test advances the clock `now`."""

    def __init__(self, rules: FoldRules | None = None, *, stored: bool = False, awaited: bool = False) -> None:
        """`stored`: a task that is not known here may be known elsewhere. `awaited`: notifications may come."""
        self.now = 1000.0
        self.rules = rules or FoldRules()
        self.stored = stored
        self.awaited = awaited
        self.gone: dict[str, float] = {}
        """Proxies that were killed, and when."""
        self.stopped = False
        self.evicted: list[int] = []
        """How many turns were closed for lack of memory, each time."""
        self.skipped = 0
        """Number of turns that `closed` leaves out."""
        self.log: dict[str, list[Observation]] = {}
        self._kept: dict[str, Turn] = {}
        """Turns of which no observations are left, by id."""
        self._turns: dict[str, Turn] = {}
        """The closed turns as they are known last, by id, in the order in which they were closed."""
        self._open_in_log: dict[str, list[Turn]] = {}
        self.book = self.begins("proxy")

    def begins(self, name: str, *, restarted: bool = False) -> TurnBook:
        """Another proxy begins; where it is `restarted`, the one before was killed."""
        if restarted:
            self.gone[self.book.source] = self.now
        self.book = TurnBook(self.rules, name, self._observe, self._keep, on_evicted=self.evicted.append)
        return self.book

    def forgets(self) -> None:
        """Observations are deleted: what they show is stored as turns."""
        self._kept |= {turn.turn_id: Turn.from_dict(turn.to_dict()) for turn in self.closed}
        self.log.clear()

    def stops(self) -> None:
        self.book.close_all(self.now)
        self.stopped = True

    @property
    def closed(self) -> list[Turn]:
        for task_id, observations in self.log.items():
            sent = {one["turn"]["turn_id"] for one in observations if one["kind"] == "sent"}
            turns = [one for one in self._kept.values() if one.task_id == task_id and one.turn_id not in sent]
            history = turns if turns or self.stored else None
            in_order = sorted(observations, key=lambda one: one["at"])
            fold, _ = fold_task(in_order, history, self.rules, self.now, awaited=self.awaited, gone=self.gone)
            if self.stopped:
                fold.stop(self.now)
            for finding, _ in fold.late_findings:
                if turns and finding not in turns[-1].findings:
                    turns[-1].findings.append(finding)
            self._turns |= {turn.turn_id: turn for turn in fold.closed}
            self._open_in_log[task_id] = fold.open_turns()
        return list(self._turns.values())[self.skipped :]

    @property
    def open_turns(self) -> list[Turn]:
        assert self.closed is not None
        turns = [*self.book.open_turns, *itertools.chain.from_iterable(self._open_in_log.values())]
        return list({turn.turn_id: turn for turn in turns if turn.turn_id not in self._turns}.values())

    def _observe(self, task_id: str, observation: Observation) -> None:
        self.log.setdefault(task_id, []).extend(decoded(f"[{encoded(observation)}]"))

    def _keep(self, turn: Turn) -> None:
        self._kept[turn.turn_id] = self._turns[turn.turn_id] = turn
