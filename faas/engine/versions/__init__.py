"""Versions of a function's state inside one instance: which are held, how one takes another's place."""
