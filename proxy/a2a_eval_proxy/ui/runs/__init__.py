"""The screens of runs: the list with trends, one run, two runs compared, and the cases.

A run is *judged* for a page when it is asked for: its verdict, its cases and the sections of the report become a small
*view*, which is kept until the run changes. Reading and judging a long run takes seconds: it happens off the event
loop, one run at a time, and pages show the counts of the store first.
"""
