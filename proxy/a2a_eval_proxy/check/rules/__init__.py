"""Rules over a record: what a conforming agent does and does not do. Sans-io.

A *rule* has an id, a requirement and an *outcome* for each interface. *Disclosure*: clients that ask get the calls.
*Non-disclosure*: others get nothing.
"""
