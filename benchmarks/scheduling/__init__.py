"""Rules for one device that serves several models with deadlines, compared in simulated time.

`workloads` says who calls, `device` is the simulation, `rules` are the rules, `trials` measures one of them, and
`published` is the table that it is held against.
"""
