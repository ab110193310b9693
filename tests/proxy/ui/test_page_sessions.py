"""Codes of login links and the sessions of pages: each code once and in time, sessions bounded in number and time."""

from __future__ import annotations

from a2a_eval_proxy.features.pages.site import PageSessions
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

CODE_S, IDLE_S, SESSIONS, CODES = 10.0, 100.0, 3, 2


class Sessions(RuleBasedStateMachine):
    """Compares with lists that are searched, and nothing that is clever."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions = PageSessions(code_lasts_s=CODE_S, idle_s=IDLE_S, max_sessions=SESSIONS, max_codes=CODES)
        self.now, self.count = 0.0, 0
        self.codes: list[tuple[str, float]] = []
        self.spent: list[str] = []
        self.open: list[tuple[str, float]] = []
        self.closed: list[str] = []

    def new(self) -> str:
        self.count += 1
        return f"secret-{self.count}"

    def opened(self, session: str) -> None:
        self.open.append((session, self.now))
        self.closed += [name for name, _ in self.open[:-SESSIONS]]
        self.open = self.open[-SESSIONS:]

    @rule(seconds=st.sampled_from([0.5, 5.0, CODE_S, 60.0, IDLE_S]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def a_code_is_made(self) -> None:
        code = self.new()
        self.sessions.add_code(code, self.now)
        self.codes.append((code, self.now))
        self.spent += [name for name, _ in self.codes[:-CODES]]
        self.codes = self.codes[-CODES:]

    @precondition(lambda self: self.codes)
    @rule(data=st.data())
    def a_code_is_redeemed(self, data: st.DataObject) -> None:
        code, made = data.draw(st.sampled_from(self.codes))
        session = self.new()
        fresh = self.now < made + CODE_S
        assert self.sessions.redeem(code, session, self.now) is fresh
        self.codes.remove((code, made))
        self.spent.append(code)
        if fresh:
            self.opened(session)
        else:
            self.closed.append(session)

    @rule()
    def the_token_opens_a_session(self) -> None:
        session = self.new()
        self.sessions.open(session, self.now)
        self.opened(session)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def a_session_is_used(self, data: st.DataObject) -> None:
        session, used = data.draw(st.sampled_from(self.open))
        self.open.remove((session, used))
        assert self.sessions.use(session, self.now) is (self.now - used < IDLE_S)
        if self.now - used < IDLE_S:
            self.open.append((session, self.now))
        else:
            self.closed.append(session)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def a_session_is_closed(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.open))
        self.open.remove(entry)
        self.sessions.close(entry[0])
        self.closed.append(entry[0])

    @invariant()
    def what_is_over_stays_over(self) -> None:
        assert not any(self.sessions.redeem(code, "other", self.now) for code in self.spent)
        assert not any(self.sessions.use(session, self.now) for session in [*self.closed, *self.spent, "", "\ud800"])


TestSessions = Sessions.TestCase
