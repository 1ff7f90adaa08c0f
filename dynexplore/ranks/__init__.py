"""Recordings of several ranks side by side: what each compiled and when, and where they differ. Layer 63.

compilations makes of one rank's recording a list of what was compiled; shared_clock puts the times of all ranks on one clock,
where that is possible; differences says where ranks differ, and who waits for whom; lanes, ranks_text and ranks_html show it;
folder opens what a job left. No torch is needed.
"""
