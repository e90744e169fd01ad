"""Processes that start fast: a zygote that has the imports, workers forked from it, and a pool of both.

It knows nothing of functions or models. `pool.WarmPool` is what a platform uses; `client.Zygote` is one zygote, seen
from asyncio; `zygote` and `worker` are what runs in the processes themselves. Linux only (pidfds, memfds, /proc).
"""
