"""Recordings of several ranks side by side: what each compiled and when, and where they differ. Layer 63.

compilations lists what one rank compiled; shared_clock converts the times of all ranks to one clock, if possible; differences finds
where ranks differ, and who waits for whom; lanes, ranks_text and ranks_html display this; folder opens the files that a job wrote.
torch is not needed.
"""
